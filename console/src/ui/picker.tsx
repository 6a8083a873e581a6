// Several of many names: a list of check boxes that can be searched.
import { useId, useState } from "react";
import { useT } from "../i18n";
import { Input } from ".";

export function Picker({ label, hint, options, value, onChange }: { label: string; hint?: string; options: string[]; value: string[]; onChange: (value: string[]) => void }) {
  const t = useT();
  const id = useId();
  const [text, setText] = useState("");
  const all = [...new Set([...value, ...options])].sort();
  const shown = all.filter((o) => o.toLowerCase().includes(text.toLowerCase())).slice(0, 200);
  return (
    <fieldset aria-describedby={hint ? id : undefined}>
      <legend className="mb-1.5 text-sm font-medium">{label} {value.length > 0 && <span className="num font-normal text-soft">({t.chosen(value.length)})</span>}</legend>
      <div className="overflow-hidden rounded-md border border-line-strong">
        {all.length > 8 && <Input type="search" aria-label={t.search} placeholder={t.search} value={text} onChange={(e) => setText(e.target.value)} className="rounded-none! border-0! border-b!" />}
        <div className="max-h-44 overflow-y-auto p-1">
          {shown.length === 0 && <p className="px-2 py-2 text-sm text-soft">{t.nothingToChoose}</p>}
          {shown.map((name) => (
            <label key={name} className="flex items-center gap-2.5 rounded px-2 py-1.5 text-sm hover:bg-hover">
              <input type="checkbox" className="size-4 accent-[var(--c-accent)]" checked={value.includes(name)} onChange={(e) => onChange(e.target.checked ? [...value, name] : value.filter((v) => v !== name))} />
              <span className="break-all">{name}</span>
            </label>
          ))}
        </div>
      </div>
      {hint && <p id={id} className="mt-1.5 text-xs text-soft">{hint}</p>}
    </fieldset>
  );
}
