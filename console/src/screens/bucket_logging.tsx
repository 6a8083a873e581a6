// The access log of a bucket: lines about its requests, which the server delivers as objects to a bucket.
import { useState } from "react";
import { getLogging, loggingCall, type Logging } from "../api/bucket_web";
import { carry } from "../api/s3";
import { useT } from "../i18n";
import { Button, CommandPreview, Field, Input, Problem } from "../ui";
import { RemovalDialog, Section, useDocument, type Part, type Removal } from "./bucket_section";

export function AccessLog({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "logging", () => getLogging(bucket));
  const [removing, setRemoving] = useState<Removal | null>(null);
  const call = loggingCall(bucket, null);
  return (
    <Section title={t.accessLog.title} about={t.accessLog.about} query={query}>
      {(logging) => (
        <>
          <LoggingForm key={JSON.stringify(logging)} bucket={bucket} logging={logging} because={because} busy={change.isPending} error={removing ? null : change.error}
            onSave={(to) => change.mutate(() => carry(loggingCall(bucket, to)))} onStop={() => { change.reset(); setRemoving({ of: "log", call, send: () => carry(call) }); }} />
          {removing && <RemovalDialog removal={removing} change={change} onClose={() => setRemoving(null)} />}
        </>
      )}
    </Section>
  );
}

function LoggingForm({ bucket, logging, because, busy, error, onSave, onStop }: { bucket: string; logging: Logging | null; because: string | undefined; busy: boolean; error: unknown; onSave: (to: Logging) => void; onStop: () => void }) {
  const t = useT();
  const [target, setTarget] = useState(logging?.target ?? "");
  const [prefix, setPrefix] = useState(logging?.prefix ?? `${bucket}/`);
  const same = logging !== null && logging.target === target && logging.prefix === prefix;
  const stop = because ?? (target === "" ? t.accessLog.targetFirst : same ? t.unchanged : undefined);
  const next = { target, prefix, format: logging?.format ?? "" };
  return (
    <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); if (!stop && !busy) onSave(next); }}>
      <p className="text-sm">{logging ? t.accessLog.goesTo(logging.target, logging.prefix) : t.accessLog.none}</p>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t.accessLog.target}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" value={target} onChange={(e) => setTarget(e.target.value)} />}</Field>
        <Field label={t.accessLog.prefix} hint={t.accessLog.prefixHint}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" value={prefix} onChange={(e) => setPrefix(e.target.value)} />}</Field>
      </div>
      <CommandPreview calls={stop ? [] : [loggingCall(bucket, next)]} />
      {error ? <Problem error={error} /> : null}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" because={stop} busy={busy}>{t.save}</Button>
        {logging && <Button tone="quiet" because={because} onClick={onStop}>{t.accessLog.stop}</Button>}
      </div>
    </form>
  );
}
