// Uploads in parts that a closed page or another client has left: go on with them, or remove them.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { abortUpload, type Unfinished } from "../api/s3";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { resumeUpload } from "../lib/uploads";
import { Button, Dialog, Problem } from "../ui";

export function UnfinishedDialog({ bucket, uploads, because, onClose }: { bucket: string; uploads: Unfinished[]; because: string | undefined; onClose: () => void }) {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const input = useRef<HTMLInputElement>(null);
  const [chosen, setChosen] = useState<Unfinished | null>(null);
  const remove = useMutation({
    mutationFn: (u: Unfinished) => abortUpload(bucket, u.key, u.id),
    onSettled: () => client.invalidateQueries({ queryKey: ["unfinished", bucket] }),
  });
  const go = (u: Unfinished) => {
    setChosen(u);
    input.current?.click();
  };
  return (
    <Dialog open onClose={onClose} title={t.unfinished.title} wide>
      <p className="mb-3 text-sm text-soft">{t.unfinished.about}</p>
      <input ref={input} type="file" hidden data-testid="file-again" onChange={(e) => {
        const file = e.target.files?.[0];
        e.target.value = "";
        if (!file || !chosen) return;
        resumeUpload(bucket, chosen.key, chosen.id, file);
        onClose();
      }} />
      {remove.error ? <Problem error={remove.error} /> : null}
      {uploads.length === 0 ? <p className="text-sm">{t.unfinished.none}</p> : (
        <ul className="max-h-96 divide-y overflow-y-auto rounded-lg border" tabIndex={0}>
          {uploads.map((u) => (
            <li key={u.id} className="flex flex-wrap items-center justify-between gap-2 px-3 py-2.5 text-sm">
              <div className="min-w-0">
                <p className="font-medium break-all">{u.key}</p>
                <p className="num mt-0.5 text-xs text-soft">{t.unfinished.begun(f.when(u.begun))}</p>
              </div>
              <div className="flex gap-2">
                <Button icon="upload" because={because ?? (u.ours ? undefined : t.unfinished.foreign)} onClick={() => go(u)}>{t.unfinished.choose}</Button>
                <Button icon="trash" because={because} busy={remove.isPending && remove.variables.id === u.id} onClick={() => remove.mutate(u)}>{t.remove}</Button>
              </div>
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
