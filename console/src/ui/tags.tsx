// Tags of an object or a bucket, as rows that can be changed.
import { useState } from "react";
import type { Tag } from "../api/s3";
import { useT } from "../i18n";
import type { Call } from "../lib/acts";
import { Button, CommandPreview, IconButton, Input, Problem, toast } from ".";

export function TagEditor({ tags, onSave, callOf, because, limit }: { tags: Tag[]; callOf: (tags: Tag[]) => Call; onSave: (tags: Tag[]) => Promise<void>; because: string | undefined; limit: number }) {
  const t = useT();
  const [rows, setRows] = useState(tags);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const set = (i: number, values: Partial<Tag>) => setRows(rows.map((r, n) => (n === i ? { ...r, ...values } : r)));
  const dirty = JSON.stringify(rows) !== JSON.stringify(tags);
  const unnamed = rows.some((r) => r.key === "") ? t.tags.unnamed : undefined;
  return (
    <form className="flex flex-col gap-2" onSubmit={async (e) => {
      e.preventDefault();
      if (because ?? unnamed) return;
      setBusy(true);
      setError(null);
      try {
        await onSave(rows);
        toast(t.saved);
      } catch (cause) {
        setError(cause);
      }
      setBusy(false);
    }}>
      {rows.length === 0 && <p className="py-2 text-sm text-soft">{t.tags.none}</p>}
      {rows.map((row, i) => (
        <div key={i} className="flex items-center gap-2">
          <Input aria-label={t.tags.key(i + 1)} placeholder={t.tags.keyHint} maxLength={128} value={row.key} onChange={(e) => set(i, { key: e.target.value })} />
          <Input aria-label={t.tags.value(i + 1)} placeholder={t.tags.valueHint} maxLength={256} value={row.value} onChange={(e) => set(i, { value: e.target.value })} />
          <IconButton icon="close" label={t.tags.drop(row.key)} onClick={() => setRows(rows.filter((_, n) => n !== i))} />
        </div>
      ))}
      <CommandPreview calls={(because ?? unnamed) || !dirty ? [] : [callOf(rows)]} />
      {error !== null && <Problem error={error} />}
      <div className="flex justify-between gap-2 pt-1">
        <Button icon="plus" because={because ?? (rows.length >= limit ? t.tags.most(limit) : undefined)} onClick={() => setRows([...rows, { key: "", value: "" }])}>{t.tags.add}</Button>
        <Button type="submit" tone="primary" busy={busy} because={because ?? unnamed ?? (dirty ? undefined : t.unchanged)}>{t.save}</Button>
      </div>
    </form>
  );
}
