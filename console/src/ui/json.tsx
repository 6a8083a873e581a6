// An editor of JSON documents: it says where a document is wrong before it is sent. The one of policies also says what cannot be
// meant, and how names go on.
import clsx from "clsx";
import { useId, useRef, useState, type KeyboardEvent } from "react";
import { useT } from "../i18n";
import { completions, lint } from "../lib/policy_lint";
import { Icon } from "./icons";
import { TextArea } from ".";

/** Where and why a text is not JSON; null if it is. */
export function jsonProblem(text: string): { line: number | null; why: string } | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const line = /line (\d+)/.exec(why)?.[1];
    const position = /position (\d+)/.exec(why)?.[1];
    return { line: line ? Number(line) : position ? text.slice(0, Number(position)).split("\n").length : null, why };
  }
}

/** `policy`: the document is a policy. */
export function JsonEditor({ label, value, onChange, rows = 16, readOnly, policy }: { label: string; value: string; onChange: (text: string) => void; rows?: number; readOnly?: boolean; policy?: boolean }) {
  const t = useT();
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const [found, setFound] = useState<ReturnType<typeof completions>>(null);
  const [at, setAt] = useState(0);
  const problem = value.trim() === "" ? null : jsonProblem(value);
  const findings = policy && !problem ? lint(value) : [];
  const look = (text: string, caret: number) => {
    setFound(policy && !readOnly ? completions(text, caret) : null);
    setAt(0);
  };
  const take = (option: string) => {
    const text = area.current!;
    // The caret moves now and not with the next picture: what is typed meanwhile belongs behind the name.
    text.setRangeText(option, found!.from, text.selectionStart, "end");
    text.focus();
    onChange(text.value);
    setFound(null);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (!found || e.ctrlKey || e.metaKey || e.altKey) return;
    const n = found.options.length;
    if (e.key === "ArrowDown") setAt((at + 1) % n);
    else if (e.key === "ArrowUp") setAt((at + n - 1) % n);
    else if (e.key === "Enter") take(found.options[at]!);
    else if (e.key === "Escape") setFound(null);
    else return;
    // The dialog around it stays open.
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div>
      <TextArea
        ref={area} aria-label={label} aria-describedby={`${id}-state`} aria-invalid={problem ? true : undefined} rows={rows} value={value} readOnly={readOnly ?? false}
        aria-autocomplete={policy ? "list" : undefined} aria-controls={found ? `${id}-list` : undefined} aria-activedescendant={found ? `${id}-${at}` : undefined}
        onChange={(e) => { onChange(e.target.value); look(e.target.value, e.target.selectionStart); }} onKeyDown={onKeyDown} onBlur={() => setFound(null)} onClick={() => setFound(null)}
      />
      {found && (
        <ul id={`${id}-list`} role="listbox" aria-label={t.json.completions} className="mt-1 rounded-md border bg-surface p-1 shadow-float">
          {found.options.map((o, i) => (
            <li key={o} id={`${id}-${i}`} role="option" aria-selected={i === at} onMouseDown={(e) => { e.preventDefault(); take(o); }} className={clsx("cursor-pointer rounded px-2 py-1 font-mono text-[13px]", i === at && "bg-hover")}>{o}</li>
          ))}
        </ul>
      )}
      <p id={`${id}-state`} role="status" className={`mt-1 flex items-center gap-1.5 text-xs ${problem ? "text-bad" : "text-soft"}`}>
        {value.trim() !== "" && <><Icon name={problem ? "bad" : "check"} className="size-3.5" /> {problem ? (problem.line ? t.json.wrongAt(problem.line, problem.why) : problem.why) : t.json.good}</>}
      </p>
      {findings.length > 0 && (
        <ul aria-label={t.json.findings} className="mt-2 flex flex-col gap-1 rounded-md bg-warn-soft px-3 py-2 text-sm">
          {findings.map((f, i) => <li key={i} className="flex gap-2"><Icon name="warn" className="mt-0.5 size-4" /> <span className="min-w-0 break-words">{t.json.finding(f.statement, f.what, "name" in f ? f.name : "")}</span></li>)}
        </ul>
      )}
    </div>
  );
}
