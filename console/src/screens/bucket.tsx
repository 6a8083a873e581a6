// The settings of one bucket, all on one page. Each part asks for its own document, so that a part that a person may not
// see says so and the others work.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { api, callOf } from "../api/client";
import * as s3 from "../api/s3";
import { useT } from "../i18n";
import type { Call } from "../lib/acts";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { settingsRoute } from "../router";
import { Badge, Button, Card, CommandPreview, Confirm, Dialog, Field, Form, Head, Input, Meter, Problem, Select, toast } from "../ui";
import { useConfirmation } from "../ui/confirm";
import { JsonEditor, jsonProblem } from "../ui/json";
import { TagEditor } from "../ui/tags";
import { AccessLog } from "./bucket_logging";
import { RemovalDialog, Section, useDocument, type Part, type Removal } from "./bucket_section";
import { Cors, Notifications, Website } from "./bucket_web";
import { Simulator } from "./simulator";

const Reach = lazy(() => import("./reach"));

export function BucketSettings() {
  const t = useT();
  const { bucket } = settingsRoute.useParams();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [removing, setRemoving] = useState(false);
  const may = useMay(...["s3:PutBucketVersioning", "s3:PutBucketObjectLockConfiguration", "s3:PutEncryptionConfiguration", "s3:PutBucketTagging", "s3:PutBucketPolicy", "s3:PutLifecycleConfiguration", "s3:PutBucketCORS", "s3:PutBucketWebsite", "s3:PutBucketNotification", "s3:PutBucketLogging", "s3:DeleteBucket"].map((a): [string, string] => [a, bucket]), "admin:SetBucketQuota", "admin:SimulateLifecycle", "admin:GetPolicy", "admin:ListUsers");
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  const { ensure, dialog } = useConfirmation();
  const remove = useMutation({
    mutationFn: async () => {
      const sure = await ensure();
      if (sure) await s3.deleteBucket(bucket);
      return sure;
    },
    onSuccess: (removed) => {
      if (!removed) return;
      toast(t.buckets.removed(bucket));
      void client.invalidateQueries({ queryKey: ["buckets"] });
      void navigate({ to: "/buckets" });
    },
  });
  return (
    <>
      <Head title={t.settingsOf(bucket)} about={<Link to="/buckets/$bucket" params={{ bucket }} className="text-accent-text underline">{t.browse}</Link>} />
      <div className="flex flex-col gap-4">
        <Versioning bucket={bucket} because={because("s3:PutBucketVersioning")} />
        <Lock bucket={bucket} because={because("s3:PutBucketObjectLockConfiguration")} />
        <Quota bucket={bucket} because={because("admin:SetBucketQuota")} />
        <Encryption bucket={bucket} because={because("s3:PutEncryptionConfiguration")} />
        <Lifecycle bucket={bucket} because={because("s3:PutLifecycleConfiguration")} simulate={because("admin:SimulateLifecycle")} />
        <Notifications bucket={bucket} because={because("s3:PutBucketNotification")} />
        <Policy bucket={bucket} because={because("s3:PutBucketPolicy")} />
        <Suspense><Reach bucket={bucket} because={because("admin:GetPolicy") ?? because("admin:ListUsers")} /></Suspense>
        <Cors bucket={bucket} because={because("s3:PutBucketCORS")} />
        <Website bucket={bucket} because={because("s3:PutBucketWebsite")} />
        <AccessLog bucket={bucket} because={because("s3:PutBucketLogging")} />
        <Tags bucket={bucket} because={because("s3:PutBucketTagging")} />
        <Card title={t.buckets.removeThis}>
          <div className="flex flex-wrap items-center justify-between gap-3 p-4 sm:px-5">
            <p className="text-sm text-soft">{t.buckets.removeText}</p>
            <Button tone="danger" icon="trash" because={because("s3:DeleteBucket")} onClick={() => setRemoving(true)}>{t.buckets.removeThis}</Button>
          </div>
        </Card>
      </div>
      {removing && <Confirm title={t.buckets.removeTitle(bucket)} text={t.buckets.removeText} action={t.remove} typed={bucket} busy={remove.isPending} error={remove.error} calls={[s3.calls.deleteBucket(bucket)]} onConfirm={() => remove.mutate()} onClose={() => { setRemoving(false); remove.reset(); }} />}
      {dialog}
    </>
  );
}

function Versioning({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "versioning", () => s3.getVersioning(bucket));
  return (
    <Section title={t.versioning.title} about={t.versioning.about} query={query}>
      {(state) => (
        <div className="flex flex-col gap-3">
          <div className="flex items-center gap-2"><Badge tone={state === "Enabled" ? "good" : state === "Suspended" ? "warn" : "plain"}>{t.versioning.state[state]}</Badge></div>
          {!because && <CommandPreview calls={[s3.calls.versioning(bucket, state !== "Enabled")]} />}
          {change.error && <Problem error={change.error} />}
          <div>
            {state === "Enabled"
              ? <Button because={because} busy={change.isPending} onClick={() => change.mutate(() => s3.putVersioning(bucket, false))}>{t.versioning.suspend}</Button>
              : <Button because={because} busy={change.isPending} onClick={() => change.mutate(() => s3.putVersioning(bucket, true))}>{t.versioning.enable}</Button>}
          </div>
        </div>
      )}
    </Section>
  );
}

function Lock({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "lock", () => s3.getLock(bucket));
  return (
    <Section title={t.lock.title} about={t.lock.about} query={query}>
      {(lock) => (lock === null ? <p className="text-sm">{t.lock.off}</p> : <LockForm key={JSON.stringify(lock)} bucket={bucket} lock={lock} because={because} busy={change.isPending} error={change.error} onSave={(call) => change.mutate(() => s3.carry(call))} />)}
    </Section>
  );
}

function LockForm({ bucket, lock, because, busy, error, onSave }: { bucket: string; lock: Exclude<s3.Lock, null>; because: string | undefined; busy: boolean; error: unknown; onSave: (call: Call) => void }) {
  const t = useT();
  const old = lock === "no default" ? null : { mode: lock.mode, days: lock.days ?? (lock.years ?? 0) * 365 };
  const [mode, setMode] = useState<string>(old?.mode ?? "");
  const [days, setDays] = useState(String(old?.days ?? 30));
  const same = (old?.mode ?? "") === mode && (mode === "" || String(old?.days) === days);
  const bad = mode !== "" && !(Number(days) >= 1 && Number(days) <= 36500) ? t.lock.badDays : undefined;
  const call = s3.calls.lock(bucket, mode === "" ? null : { mode, days: Number(days) });
  return (
    <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); if (!(because ?? bad) && !same) onSave(call); }}>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t.lock.default} hint={mode === "COMPLIANCE" ? t.lock.compliance : mode === "GOVERNANCE" ? t.lock.governance : t.lock.none}>
          {(p) => <Select {...p} value={mode} onChange={(e) => setMode(e.target.value)}><option value="">{t.lock.modeNone}</option><option value="GOVERNANCE">{t.lock.modeGovernance}</option><option value="COMPLIANCE">{t.lock.modeCompliance}</option></Select>}
        </Field>
        {mode !== "" && <Field label={t.lock.days} error={bad}>{(p) => <Input {...p} type="number" min={1} max={36500} value={days} onChange={(e) => setDays(e.target.value)} />}</Field>}
      </div>
      <CommandPreview calls={(because ?? bad) || same ? [] : [call]} />
      {error ? <Problem error={error} /> : null}
      <div><Button type="submit" because={because ?? bad ?? (same ? t.unchanged : undefined)} busy={busy}>{t.save}</Button></div>
    </form>
  );
}

const SIZES: [string, number][] = [["GiB", 1024 ** 3], ["TiB", 1024 ** 4], ["MiB", 1024 ** 2]];

function Quota({ bucket, because }: Part) {
  const t = useT();
  const f = useFormat();
  const { query, change } = useDocument(bucket, "quota", () => api("/quotas/{bucket}", "get", { path: { bucket } }));
  const [number, setNumber] = useState("");
  const [unit, setUnit] = useState(1024 ** 3);
  const bytes = Math.round(Number(number) * unit);
  const bad = number !== "" && !(bytes > 0) ? t.quota.bad : undefined;
  const [removing, setRemoving] = useState<Removal | null>(null);
  const order = { path: { bucket }, body: { quota: bytes } };
  return (
    <Section title={t.quota.title} about={t.quota.about} query={query}>
      {(q) => (
        <div className="flex flex-col gap-3">
          {q.quota != null ? (
            <div>
              <p className="num mb-1.5 text-sm">{q.bytes == null ? t.quota.of(f.bytes(q.quota)) : t.usedOf(f.bytes(q.bytes), f.bytes(q.quota))}</p>
              {q.bytes != null && <Meter value={q.bytes / q.quota} label={t.quota.title} tone={q.bytes / q.quota > 0.9 ? "warn" : "accent"} />}
            </div>
          ) : <p className="text-sm">{t.quota.none}</p>}
          <form className="flex flex-wrap items-end gap-2" onSubmit={(e) => { e.preventDefault(); if (!(because ?? bad) && number !== "") change.mutate(() => api("/quotas/{bucket}", "put", order).then(() => setNumber(""))); }}>
            <div className="w-36"><Field label={t.quota.limit} error={bad}>{(p) => <Input {...p} inputMode="decimal" value={number} onChange={(e) => setNumber(e.target.value.replace(",", "."))} />}</Field></div>
            <Select aria-label={t.unit} value={unit} onChange={(e) => setUnit(Number(e.target.value))} className="w-24!">{SIZES.map(([name, size]) => <option key={name} value={size}>{name}</option>)}</Select>
            <Button type="submit" because={because ?? bad ?? (number === "" ? t.numberFirst : undefined)} busy={change.isPending}>{t.quota.set}</Button>
            {q.quota != null && <Button because={because} onClick={() => { change.reset(); setRemoving({ of: "quota", call: callOf("/quotas/{bucket}", "delete", { path: { bucket } }), send: () => api("/quotas/{bucket}", "delete", { path: { bucket } }) }); }}>{t.quota.remove}</Button>}
          </form>
          <CommandPreview calls={(because ?? bad) || number === "" ? [] : [callOf("/quotas/{bucket}", "put", order)]} />
          {change.error && removing === null && <Problem error={change.error} />}
          {removing && <RemovalDialog removal={removing} change={change} onClose={() => setRemoving(null)} />}
        </div>
      )}
    </Section>
  );
}

function Encryption({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "encryption", () => s3.getEncryption(bucket));
  const keys = useQuery({ queryKey: ["kms-keys"], queryFn: () => api("/kms/keys", "get"), retry: false });
  return (
    <Section title={t.encryption.title} about={t.encryption.about} query={query}>
      {(now) => <EncryptionForm key={JSON.stringify(now)} bucket={bucket} now={now} names={(keys.data?.keys ?? []).map((k) => k.name)} because={because} busy={change.isPending} error={change.error} onSave={(call) => change.mutate(() => s3.carry(call))} />}
    </Section>
  );
}

function EncryptionForm({ bucket, now, names, because, busy, error, onSave }: { bucket: string; now: s3.Encryption; names: string[]; because: string | undefined; busy: boolean; error: unknown; onSave: (call: Call) => void }) {
  const t = useT();
  const old = now === null ? "" : now.algorithm === "AES256" ? "AES256" : `aws:kms ${now.key}`;
  const [value, setValue] = useState(old);
  const [algorithm = "", key = ""] = value.split(" ");
  const call = s3.calls.encryption(bucket, algorithm === "" ? null : (algorithm as "AES256"), key);
  const same = value === old;
  return (
    <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); if (!because && !same && !busy) onSave(call); }}>
      <Field label={t.encryption.default}>
        {(p) => (
          <Select {...p} value={value} disabled={because !== undefined} onChange={(e) => setValue(e.target.value)}>
            <option value="">{t.encryption.none}</option>
            <option value="AES256">{t.encryption.s3}</option>
            {now?.algorithm === "aws:kms" && now.key === "" && <option value="aws:kms ">{t.encryption.kms}</option>}
            {[...new Set([...names, ...(now?.key ? [now.key] : [])])].map((name) => <option key={name} value={`aws:kms ${name}`}>{t.encryption.kmsKey(name)}</option>)}
          </Select>
        )}
      </Field>
      <CommandPreview calls={because || same ? [] : [call]} />
      {error ? <Problem error={error} /> : null}
      <div><Button type="submit" because={because ?? (same ? t.unchanged : undefined)} busy={busy}>{t.save}</Button></div>
    </form>
  );
}

function Lifecycle({ bucket, because, simulate }: Part & { simulate: string | undefined }) {
  const t = useT();
  const { query, change } = useDocument(bucket, "lifecycle", () => s3.getLifecycle(bucket));
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Removal | null>(null);
  const remove = (rules: s3.Rule[], rule: s3.Rule) => {
    const call = s3.calls.lifecycle(bucket, rules.filter((o) => o !== rule).map((o) => o.xml));
    change.reset();
    setRemoving({ of: "rule", call, send: () => s3.carry(call) });
  };
  // The rules to simulate; null: nothing is simulated.
  const [trying, setTrying] = useState<string[] | null>(null);
  return (
    <Section title={t.lifecycle.title} about={t.lifecycle.about} query={query}>
      {(rules) => (
        <div className="flex flex-col gap-3">
          {rules.length === 0 ? <p className="text-sm">{t.lifecycle.none}</p> : (
            <ul className="divide-y rounded-lg border">
              {rules.map((r) => (
                <li key={r.id + r.xml} className="flex flex-wrap items-center justify-between gap-2 px-3 py-2.5 text-sm">
                  <div className="min-w-0">
                    <p className="font-medium break-words">{r.id || t.lifecycle.unnamed} {!r.enabled && <Badge>{t.disabled}</Badge>}</p>
                    <p className="text-xs text-soft">{r.prefix ? t.lifecycle.below(r.prefix) : t.lifecycle.whole}</p>
                    <ul className="mt-0.5 text-xs">
                      {r.days !== null && <li>{t.lifecycle.expire(r.days)}</li>}
                      {r.noncurrentDays !== null && <li>{t.lifecycle.noncurrent(r.noncurrentDays)}</li>}
                      {r.abortDays !== null && <li>{t.lifecycle.abort(r.abortDays)}</li>}
                      {r.other.length > 0 && <li>{t.lifecycle.more(r.other.join(", "))}</li>}
                    </ul>
                  </div>
                  <Button icon="trash" because={because} onClick={() => remove(rules, r)}>{t.remove}</Button>
                </li>
              ))}
            </ul>
          )}
          {change.error && !adding && removing === null && <Problem error={change.error} />}
          {removing && <RemovalDialog removal={removing} change={change} onClose={() => setRemoving(null)} />}
          <div className="flex flex-wrap gap-2">
            <Button icon="plus" because={because} onClick={() => { change.reset(); setAdding(true); }}>{t.lifecycle.add}</Button>
            {rules.length > 0 && <Button icon="history" because={simulate} onClick={() => setTrying(rules.map((r) => r.xml))}>{t.simulator.action}</Button>}
          </div>
          {trying && <Simulator bucket={bucket} rules={trying} onClose={() => setTrying(null)} />}
          {adding && <RuleDialog callsOf={(xml) => [s3.calls.lifecycle(bucket, [...rules.map((r) => r.xml), xml])]} onClose={() => setAdding(false)} busy={change.isPending} error={change.error} simulate={simulate} onSimulate={(xml) => setTrying([...rules.map((r) => r.xml), xml])} onSave={(xml) => change.mutate(() => s3.carry(s3.calls.lifecycle(bucket, [...rules.map((r) => r.xml), xml])), { onSuccess: () => setAdding(false) })} />}
        </div>
      )}
    </Section>
  );
}

function RuleDialog({ onClose, onSave, callsOf, simulate, onSimulate, busy, error }: { onClose: () => void; callsOf: (xml: string) => Call[]; onSave: (xml: string) => void; simulate: string | undefined; onSimulate: (xml: string) => void; busy: boolean; error: unknown }) {
  const t = useT();
  const [id, setId] = useState("");
  const [prefix, setPrefix] = useState("");
  const [days, setDays] = useState("");
  const [noncurrent, setNoncurrent] = useState("");
  const [abort, setAbort] = useState("");
  const number = (text: string) => (text === "" ? null : Number(text));
  const values = [days, noncurrent, abort];
  const bad = values.every((v) => v === "") ? t.lifecycle.nothing : values.some((v) => v !== "" && !(Number.isInteger(Number(v)) && Number(v) >= 1)) ? t.lifecycle.badDays : undefined;
  const field = (label: string, value: string, set: (v: string) => void) => (
    <Field label={label}>{(p) => <Input {...p} type="number" min={1} value={value} onChange={(e) => set(e.target.value)} />}</Field>
  );
  const xml = () => s3.ruleXml({ id, enabled: true, prefix, days: number(days), noncurrentDays: number(noncurrent), abortDays: number(abort) });
  return (
    <Dialog open onClose={onClose} title={t.lifecycle.add}>
      <Form onSubmit={() => onSave(xml())} onCancel={onClose} submit={t.create} busy={busy} error={error} because={id === "" ? t.nameFirst : bad} calls={id === "" || bad ? [] : callsOf(xml())}>
        <Field label={t.name}>{(p) => <Input {...p} autoFocus value={id} maxLength={255} onChange={(e) => setId(e.target.value)} />}</Field>
        <Field label={t.lifecycle.prefix} hint={t.lifecycle.prefixHint}>{(p) => <Input {...p} value={prefix} spellCheck={false} onChange={(e) => setPrefix(e.target.value)} />}</Field>
        {field(t.lifecycle.daysLabel, days, setDays)}
        {field(t.lifecycle.noncurrentLabel, noncurrent, setNoncurrent)}
        {field(t.lifecycle.abortLabel, abort, setAbort)}
        <div><Button icon="history" because={simulate ?? (id === "" ? t.nameFirst : bad)} onClick={() => onSimulate(xml())}>{t.simulator.before}</Button></div>
      </Form>
    </Dialog>
  );
}

function Policy({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "policy", () => s3.getPolicy(bucket));
  const [removing, setRemoving] = useState<Removal | null>(null);
  const call = s3.calls.policy(bucket, "");
  return (
    <Section title={t.bucketPolicy.title} about={t.bucketPolicy.about} query={query}>
      {(document) => (
        <>
          <PolicyForm key={document} bucket={bucket} document={document} because={because} busy={change.isPending} error={removing ? null : change.error}
            onSave={(save) => change.mutate(() => s3.carry(save))} onRemove={() => { change.reset(); setRemoving({ of: "policy", call, send: () => s3.carry(call) }); }} />
          {removing && <RemovalDialog removal={removing} change={change} onClose={() => setRemoving(null)} />}
        </>
      )}
    </Section>
  );
}

function PolicyForm({ bucket, document, because, busy, error, onSave, onRemove }: { bucket: string; document: string; because: string | undefined; busy: boolean; error: unknown; onSave: (call: Call) => void; onRemove: () => void }) {
  const t = useT();
  const pretty = (text: string) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };
  const [text, setText] = useState(() => pretty(document));
  const [asking, setAsking] = useState(false);
  const problem = text.trim() === "" ? null : jsonProblem(text);
  const stop = because ?? (problem ? t.json.fix : text === pretty(document) ? t.unchanged : undefined);
  const call = s3.calls.policy(bucket, text);
  // An empty field removes the policy.
  const save = () => (text.trim() === "" ? onRemove() : onSave(call));
  const open = (() => {
    try {
      return [JSON.parse(text)].flatMap((d) => d.Statement ?? []).some((s: { Effect?: string; Principal?: unknown }) => s.Effect === "Allow" && JSON.stringify(s.Principal ?? "").includes("*"));
    } catch {
      return false;
    }
  })();
  const example = JSON.stringify({ Version: "2012-10-17", Statement: [{ Effect: "Allow", Principal: "*", Action: "s3:GetObject", Resource: `arn:aws:s3:::${bucket}/*` }] }, null, 2);
  return (
    <div className="flex flex-col gap-3">
      {document === "" && <p className="text-sm">{t.bucketPolicy.none}</p>}
      <JsonEditor policy label={t.bucketPolicy.title} value={text} onChange={setText} rows={text === "" ? 4 : 12} readOnly={because !== undefined} />
      {open && <p className="flex gap-2 rounded-md bg-warn-soft px-3 py-2 text-sm">{t.bucketPolicy.open}</p>}
      <CommandPreview calls={stop ? [] : [call]} />
      {error ? <Problem error={error} /> : null}
      <div className="flex flex-wrap gap-2">
        <Button because={stop} busy={busy} onClick={() => (open && !asking ? setAsking(true) : save())}>{t.save}</Button>
        {text === "" && <Button tone="quiet" because={because} onClick={() => setText(example)}>{t.bucketPolicy.example}</Button>}
        {document !== "" && <Button tone="quiet" because={because} onClick={onRemove}>{t.bucketPolicy.remove}</Button>}
      </div>
      {asking && <Confirm title={t.bucketPolicy.openTitle} text={t.bucketPolicy.open} action={t.bucketPolicy.openAction} calls={[call]} onConfirm={() => { setAsking(false); save(); }} onClose={() => setAsking(false)} />}
    </div>
  );
}

function Tags({ bucket, because }: Part) {
  const t = useT();
  const { query } = useDocument(bucket, "tags", () => s3.getTags(bucket));
  const client = useQueryClient();
  return (
    <Section title={t.tags.title} about={t.tags.about} query={query}>
      {(tags) => <TagEditor key={JSON.stringify(tags)} tags={tags} because={because} limit={50} callOf={(list) => s3.calls.tags(bucket, undefined, list)} onSave={async (list) => { await s3.putTags(bucket, undefined, list); await client.invalidateQueries({ queryKey: ["bucket", bucket, "tags"] }); }} />}
    </Section>
  );
}

