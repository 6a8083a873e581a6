// The uploads of this page, in the corner of every screen.
import { useState } from "react";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { cancelUpload, clearUploads, retryUpload, useUploads } from "../lib/uploads";
import { Button, IconButton, Meter, Problem } from ".";
import { Icon } from "./icons";

export default function Uploads() {
  const t = useT();
  const f = useFormat();
  const all = useUploads();
  const [open, setOpen] = useState(true);
  const active = all.filter((u) => u.state === "running" || u.state === "waiting");
  const failed = all.filter((u) => u.state === "failed").length;
  const total = all.reduce((n, u) => n + u.file.size, 0);
  const sent = all.reduce((n, u) => n + u.sent, 0);
  const title = active.length > 0 ? t.uploads.running(active.length, f.percent(total > 0 ? sent / total : 0)) : failed > 0 ? t.uploads.failed(failed) : t.uploads.done(all.length);
  return (
    <section aria-label={t.uploads.title} className="fixed right-3 bottom-3 z-30 w-[min(24rem,calc(100vw-1.5rem))] overflow-hidden rounded-xl border bg-surface shadow-float">
      <div className="flex items-center gap-1 py-1 pr-1 pl-4">
        <h2 className="num flex-1 text-sm font-semibold"><span role="status">{title}</span></h2>
        <IconButton icon={open ? "down" : "chevron"} label={open ? t.uploads.fold : t.uploads.unfold} aria-expanded={open} onClick={() => setOpen(!open)} />
        {active.length === 0 && <IconButton icon="close" label={t.uploads.clear} onClick={clearUploads} />}
      </div>
      {open && (
        <ul className="max-h-72 divide-y overflow-y-auto border-t">
          {all.slice(0, 200).map((u) => {
            const seconds = (Date.now() - u.began) / 1000;
            const rate = u.state === "running" && seconds > 1 ? u.sent / seconds : 0;
            return (
              <li key={u.id} className="px-4 py-2.5 text-sm">
                <div className="flex items-center gap-2">
                  <Icon name={u.state === "done" ? "good" : u.state === "failed" ? "bad" : "file"} className={`size-4 ${u.state === "done" ? "text-good" : u.state === "failed" ? "text-bad" : "text-soft"}`} />
                  <span className="min-w-0 flex-1 truncate" title={`${u.bucket}/${u.key}`}>{u.key.split("/").pop()}</span>
                  <span className="num text-xs whitespace-nowrap text-soft">
                    {u.state === "running" ? (rate > 0 ? `${f.bytes(rate)}/s` : "") : u.state === "waiting" ? t.uploads.waiting : u.state === "cancelled" ? t.uploads.cancelled : f.bytes(u.file.size)}
                  </span>
                  {(u.state === "running" || u.state === "waiting") && <IconButton icon="close" label={t.uploads.cancel(u.key)} className="size-7!" onClick={() => cancelUpload(u.id)} />}
                  {u.state === "failed" && <Button tone="quiet" className="h-7!" onClick={() => retryUpload(u.id)}>{t.retry}</Button>}
                </div>
                {u.state === "running" && <div className="mt-1.5"><Meter value={u.file.size > 0 ? u.sent / u.file.size : 1} label={t.uploads.progress(u.key)} /></div>}
                {u.error && <div className="mt-2"><Problem error={u.error} /></div>}
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}
