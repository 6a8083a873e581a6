// Settings of a bucket about browsers and events: CORS, website, notifications.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../api/client";
import * as web from "../api/bucket_web";
import { carry } from "../api/s3";
import { useT } from "../i18n";
import type { Call } from "../lib/acts";
import { Badge, Button, CommandPreview, Dialog, Field, Form, Input, Problem, Select, TextArea } from "../ui";
import { RemovalDialog, Section, useDocument, type Part, type Removal } from "./bucket_section";

const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE"];
/** What one can subscribe to; the server knows more, which rules made elsewhere keep. */
const EVENTS = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectAccessed:*", "s3:ObjectTagging:*", "s3:LifecycleExpiration:*", "s3:ObjectAcl:Put"] as const;

const lines = (text: string) => text.split("\n").map((l) => l.trim()).filter(Boolean);

/** Check boxes for a few choices. */
function Choices({ label, options, value, onChange }: { label: string; options: [value: string, text: string][]; value: string[]; onChange: (value: string[]) => void }) {
  return (
    <fieldset>
      <legend className="mb-1.5 text-sm font-medium">{label}</legend>
      <div className="flex flex-wrap gap-x-5 gap-y-2">
        {options.map(([of, text]) => (
          <label key={of} className="flex items-center gap-2 text-sm">
            <input type="checkbox" className="size-4 accent-[var(--c-accent)]" checked={value.includes(of)} onChange={(e) => onChange(e.target.checked ? [...value, of] : value.filter((v) => v !== of))} /> {text}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function Cors({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "cors", () => web.getCors(bucket));
  const [editing, setEditing] = useState<number | "new" | null>(null);
  const [removing, setRemoving] = useState<Removal | null>(null);
  const remove = (rules: web.CorsRule[], rule: web.CorsRule) => {
    const call = web.corsCall(bucket, rules.filter((o) => o !== rule));
    change.reset();
    setRemoving({ of: "corsRule", call, send: () => carry(call) });
  };
  const callOf = (rules: web.CorsRule[], rule: web.CorsRule) => web.corsCall(bucket, editing === "new" ? [...rules, rule] : rules.map((o, i) => (i === editing ? rule : o)));
  return (
    <Section title={t.cors.title} about={t.cors.about} query={query}>
      {(rules) => (
        <div className="flex flex-col gap-3">
          {rules.length === 0 ? <p className="text-sm">{t.cors.none}</p> : (
            <ul className="divide-y rounded-lg border">
              {rules.map((r, i) => (
                <li key={i} className="flex flex-wrap items-start justify-between gap-2 px-3 py-2.5 text-sm">
                  <div className="min-w-0">
                    <p className="font-medium break-all">{r.origins.join(", ")}</p>
                    <p className="mt-0.5 flex flex-wrap gap-1">{r.methods.map((m) => <Badge key={m}>{m}</Badge>)}</p>
                    {r.headers.length > 0 && <p className="mt-1 text-xs text-soft">{t.cors.headers}: <span className="font-mono break-all">{r.headers.join(", ")}</span></p>}
                    {r.expose.length > 0 && <p className="mt-0.5 text-xs text-soft">{t.cors.expose}: <span className="font-mono break-all">{r.expose.join(", ")}</span></p>}
                  </div>
                  <div className="flex gap-2">
                    <Button icon="edit" because={because} onClick={() => { change.reset(); setEditing(i); }}>{t.edit}</Button>
                    <Button icon="trash" because={because} onClick={() => remove(rules, r)}>{t.remove}</Button>
                  </div>
                </li>
              ))}
            </ul>
          )}
          {change.error && editing === null && removing === null && <Problem error={change.error} />}
          {removing && <RemovalDialog removal={removing} change={change} onClose={() => setRemoving(null)} />}
          <div><Button icon="plus" because={because} onClick={() => { change.reset(); setEditing("new"); }}>{t.cors.add}</Button></div>
          {editing !== null && (
            <CorsDialog rule={editing === "new" ? null : rules[editing]!} busy={change.isPending} error={change.error} onClose={() => setEditing(null)} callOf={(rule) => callOf(rules, rule)}
              onSave={(rule) => change.mutate(() => carry(callOf(rules, rule)), { onSuccess: () => setEditing(null) })} />
          )}
        </div>
      )}
    </Section>
  );
}

function CorsDialog({ rule, onClose, onSave, callOf, busy, error }: { rule: web.CorsRule | null; onClose: () => void; callOf: (rule: web.CorsRule) => Call; onSave: (rule: web.CorsRule) => void; busy: boolean; error: unknown }) {
  const t = useT();
  const [origins, setOrigins] = useState(rule?.origins.join("\n") ?? "");
  const [methods, setMethods] = useState(rule?.methods ?? ["GET"]);
  const [headers, setHeaders] = useState(rule?.headers.join("\n") ?? "*");
  const [expose, setExpose] = useState(rule?.expose.join("\n") ?? "ETag");
  const [maxAge, setMaxAge] = useState(rule?.maxAge ?? "3600");
  const bad = lines(origins).length === 0 ? t.cors.originFirst : methods.length === 0 ? t.cors.methodFirst : undefined;
  const next = { id: rule?.id ?? "", origins: lines(origins), methods, headers: lines(headers), expose: lines(expose), maxAge: maxAge.trim() };
  return (
    <Dialog open onClose={onClose} title={rule ? t.cors.edit : t.cors.add}>
      <Form onSubmit={() => onSave(next)} onCancel={onClose} submit={t.save} busy={busy} error={error} because={bad} calls={bad ? [] : [callOf(next)]}>
        <Field label={t.cors.origins} hint={t.cors.originsHint}>{(p) => <TextArea {...p} rows={2} autoFocus placeholder="https://app.example.com" value={origins} onChange={(e) => setOrigins(e.target.value)} />}</Field>
        <Choices label={t.cors.methods} options={METHODS.map((m) => [m, m])} value={methods} onChange={setMethods} />
        <Field label={t.cors.headers} hint={t.cors.headersHint}>{(p) => <TextArea {...p} rows={2} value={headers} onChange={(e) => setHeaders(e.target.value)} />}</Field>
        <Field label={t.cors.expose} hint={t.cors.exposeHint}>{(p) => <TextArea {...p} rows={2} value={expose} onChange={(e) => setExpose(e.target.value)} />}</Field>
        <Field label={t.cors.maxAge} hint={t.cors.maxAgeHint}>{(p) => <Input {...p} type="number" min={0} value={maxAge} onChange={(e) => setMaxAge(e.target.value)} />}</Field>
      </Form>
    </Dialog>
  );
}

export function Website({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "website", () => web.getWebsite(bucket));
  return (
    <Section title={t.website.title} about={t.website.about} query={query}>
      {(site) => <WebsiteForm key={JSON.stringify(site)} bucket={bucket} site={site} because={because} busy={change.isPending} error={change.error} onSave={(next) => change.mutate(() => carry(web.websiteCall(bucket, next)))} />}
    </Section>
  );
}

function WebsiteForm({ bucket, site, because, busy, error, onSave }: { bucket: string; site: web.Website | null; because: string | undefined; busy: boolean; error: unknown; onSave: (site: web.Website | null) => void }) {
  const t = useT();
  const [kind, setKind] = useState<"off" | "pages" | "redirect">(site === null ? "off" : site.redirect ? "redirect" : "pages");
  const [index, setIndex] = useState(site?.index || "index.html");
  const [missing, setMissing] = useState(site?.error ?? "");
  const [host, setHost] = useState(site?.redirect?.host ?? "");
  const [protocol, setProtocol] = useState(site?.redirect?.protocol ?? "");
  const [rules, setRules] = useState(site?.rules ?? []);
  const next = kind === "off" ? null : { index: kind === "pages" ? index.trim() : "", error: kind === "pages" ? missing.trim() : "", redirect: kind === "redirect" ? { host: host.trim(), protocol } : null, rules: kind === "pages" ? rules : [] };
  const same = JSON.stringify(next) === JSON.stringify(site);
  const bad = kind === "pages" && index.trim() === "" ? t.website.indexFirst : kind === "redirect" && host.trim() === "" ? t.website.hostFirst : undefined;
  return (
    <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); if (!(because ?? bad) && !same) onSave(next); }}>
      <Field label={t.website.serves}>
        {(p) => <Select {...p} value={kind} onChange={(e) => setKind(e.target.value as typeof kind)}>{(["off", "pages", "redirect"] as const).map((k) => <option key={k} value={k}>{t.website.kinds[k]}</option>)}</Select>}
      </Field>
      {kind === "pages" && (
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label={t.website.index} hint={t.website.indexHint}>{(p) => <Input {...p} spellCheck={false} value={index} onChange={(e) => setIndex(e.target.value)} />}</Field>
          <Field label={t.website.error} hint={t.website.errorHint}>{(p) => <Input {...p} spellCheck={false} placeholder="404.html" value={missing} onChange={(e) => setMissing(e.target.value)} />}</Field>
        </div>
      )}
      {kind === "pages" && <RoutingRules rules={rules} because={because} onChange={setRules} />}
      {kind === "redirect" && (
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label={t.website.host}>{(p) => <Input {...p} spellCheck={false} placeholder="www.example.com" value={host} onChange={(e) => setHost(e.target.value)} />}</Field>
          <Field label={t.website.protocol}>{(p) => <Select {...p} value={protocol} onChange={(e) => setProtocol(e.target.value)}><option value="">{t.website.sameProtocol}</option><option value="https">https</option><option value="http">http</option></Select>}</Field>
        </div>
      )}
      {kind === "pages" && <p className="text-xs text-soft">{t.website.needs}</p>}
      <CommandPreview calls={(because ?? bad) || same ? [] : [web.websiteCall(bucket, next)]} />
      {error ? <Problem error={error} /> : null}
      <div><Button type="submit" because={because ?? bad ?? (same ? t.unchanged : undefined)} busy={busy}>{t.save}</Button></div>
    </form>
  );
}

/** Where a routing rule sends a request. */
function target(rule: web.RoutingRule): string {
  const host = rule.host ? `${rule.protocol ? `${rule.protocol}:` : ""}//${rule.host}` : rule.protocol ? `${rule.protocol}:` : "";
  return `${host}/${rule.key === null ? "…" : rule.key.with + (rule.key.whole ? "" : "…")}`;
}

function RoutingRules({ rules, because, onChange }: { rules: web.RoutingRule[]; because: string | undefined; onChange: (rules: web.RoutingRule[]) => void }) {
  const t = useT();
  const [editing, setEditing] = useState<number | "new" | null>(null);
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1.5 text-sm font-medium">{t.website.rules}</legend>
      {rules.length === 0 ? <p className="text-sm text-soft">{t.website.noRules}</p> : (
        <ol className="divide-y rounded-lg border">
          {rules.map((r, i) => (
            <li key={i} className="flex flex-wrap items-center justify-between gap-2 px-3 py-2.5 text-sm">
              <div className="min-w-0">
                <p className="break-all">{r.prefix ? <code>{r.prefix}…</code> : t.website.everyKey}{r.error && <> · {t.website.onError(r.error)}</>}</p>
                <p className="mt-0.5 text-xs break-all text-soft">→ <code>{target(r)}</code>{r.status && ` (${r.status})`}</p>
              </div>
              <div className="flex gap-2">
                <Button icon="edit" because={because} onClick={() => setEditing(i)}>{t.edit}</Button>
                <Button icon="trash" because={because} onClick={() => onChange(rules.filter((o) => o !== r))}>{t.remove}</Button>
              </div>
            </li>
          ))}
        </ol>
      )}
      <div><Button icon="plus" because={because} onClick={() => setEditing("new")}>{t.website.addRule}</Button></div>
      {editing !== null && (
        <RoutingRuleDialog rule={editing === "new" ? null : rules[editing]!} onClose={() => setEditing(null)}
          onDone={(rule) => { onChange(editing === "new" ? [...rules, rule] : rules.map((o, i) => (i === editing ? rule : o))); setEditing(null); }} />
      )}
    </fieldset>
  );
}

function RoutingRuleDialog({ rule, onClose, onDone }: { rule: web.RoutingRule | null; onClose: () => void; onDone: (rule: web.RoutingRule) => void }) {
  const t = useT();
  const [prefix, setPrefix] = useState(rule?.prefix ?? "");
  const [error, setError] = useState(rule?.error ?? "");
  const [host, setHost] = useState(rule?.host ?? "");
  const [protocol, setProtocol] = useState(rule?.protocol ?? "");
  const [keeps, setKeeps] = useState<"same" | "beginning" | "whole">(!rule?.key ? "same" : rule.key.whole ? "whole" : "beginning");
  const [key, setKey] = useState(rule?.key?.with ?? "");
  const [status, setStatus] = useState(rule?.status ?? "");
  const next = { prefix, error: error.trim(), host: host.trim(), protocol, key: keeps === "same" ? null : { whole: keeps === "whole", with: key }, status };
  const bad = error.trim() !== "" && !/^[45][0-9][0-9]$/.test(error.trim()) ? t.website.badError : undefined;
  const nowhere = next.host === "" && protocol === "" && keeps === "same" ? t.website.targetFirst : keeps === "whole" && key === "" ? t.website.keyFirst : undefined;
  return (
    <Dialog open onClose={onClose} title={rule ? t.website.editRule : t.website.addRule}>
      {/* A dialog is inside of the form of the section as far as React's events are concerned. */}
      <div onSubmit={(e) => e.stopPropagation()}>
        <Form onSubmit={() => onDone(next)} onCancel={onClose} submit={t.website.keep} because={bad ?? nowhere}>
          <div className="grid gap-3 sm:grid-cols-2">
            <Field label={t.website.prefix} hint={t.website.prefixHint}>{(p) => <Input {...p} autoFocus spellCheck={false} autoCapitalize="none" placeholder="docs/" value={prefix} onChange={(e) => setPrefix(e.target.value)} />}</Field>
            <Field label={t.website.code} hint={t.website.codeHint} error={bad}>{(p) => <Input {...p} inputMode="numeric" placeholder="404" value={error} onChange={(e) => setError(e.target.value)} />}</Field>
            <Field label={t.website.host} hint={t.website.hostHint}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" placeholder="www.example.com" value={host} onChange={(e) => setHost(e.target.value)} />}</Field>
            <Field label={t.website.protocol}>{(p) => <Select {...p} value={protocol} onChange={(e) => setProtocol(e.target.value)}><option value="">{t.website.sameProtocol}</option><option value="https">https</option><option value="http">http</option></Select>}</Field>
            <Field label={t.website.key}>{(p) => <Select {...p} value={keeps} onChange={(e) => setKeeps(e.target.value as typeof keeps)}>{(["same", "beginning", "whole"] as const).map((k) => <option key={k} value={k}>{t.website.keys[k]}</option>)}</Select>}</Field>
            {keeps !== "same" && <Field label={t.website.newKeys[keeps]} hint={keeps === "beginning" ? t.website.beginningHint : undefined}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" value={key} onChange={(e) => setKey(e.target.value)} />}</Field>}
            <Field label={t.website.status}>{(p) => <Select {...p} value={status} onChange={(e) => setStatus(e.target.value)}><option value="">{t.website.defaultStatus}</option>{["301", "302", "303", "304", "305", "307", "308"].map((s) => <option key={s} value={s}>{s}</option>)}</Select>}</Field>
          </div>
        </Form>
      </div>
    </Dialog>
  );
}

export function Notifications({ bucket, because }: Part) {
  const t = useT();
  const { query, change } = useDocument(bucket, "notification", () => web.getEventRules(bucket));
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Removal | null>(null);
  const remove = (rules: web.EventRule[], rule: web.EventRule) => {
    const call = web.eventRulesCall(bucket, rules.filter((o) => o !== rule).map((o) => o.xml));
    change.reset();
    setRemoving({ of: "eventRule", call, send: () => carry(call) });
  };
  return (
    <Section title={t.notifications.title} about={t.notifications.about} query={query}>
      {(rules) => (
        <div className="flex flex-col gap-3">
          {rules.length === 0 ? <p className="text-sm">{t.notifications.none}</p> : (
            <ul className="divide-y rounded-lg border">
              {rules.map((r) => (
                <li key={r.xml} className="flex flex-wrap items-start justify-between gap-2 px-3 py-2.5 text-sm">
                  <div className="min-w-0">
                    <code className="break-all">{r.arn}</code>
                    <p className="mt-1 flex flex-wrap gap-1">{r.events.map((e) => <Badge key={e}>{t.notifications.events[e as (typeof EVENTS)[number]] ?? e}</Badge>)}</p>
                    {(r.prefix || r.suffix) && <p className="mt-1 text-xs text-soft">{t.notifications.filter(r.prefix, r.suffix)}</p>}
                  </div>
                  <Button icon="trash" because={because} onClick={() => remove(rules, r)}>{t.remove}</Button>
                </li>
              ))}
            </ul>
          )}
          {change.error && !adding && removing === null && <Problem error={change.error} />}
          {removing && <RemovalDialog removal={removing} change={change} onClose={() => setRemoving(null)} />}
          <div><Button icon="plus" because={because} onClick={() => { change.reset(); setAdding(true); }}>{t.notifications.add}</Button></div>
          {adding && <EventRuleDialog busy={change.isPending} error={change.error} onClose={() => setAdding(false)} callOf={(xml) => web.eventRulesCall(bucket, [...rules.map((r) => r.xml), xml])}
            onSave={(call) => change.mutate(() => carry(call), { onSuccess: () => setAdding(false) })} />}
        </div>
      )}
    </Section>
  );
}

function EventRuleDialog({ onClose, onSave, callOf, busy, error }: { onClose: () => void; callOf: (xml: string) => Call; onSave: (call: Call) => void; busy: boolean; error: unknown }) {
  const t = useT();
  const targets = useQuery({ queryKey: ["events"], queryFn: ({ signal }) => api("/events", "get", { signal }), retry: false });
  const [chosen, setArn] = useState("");
  const [events, setEvents] = useState<string[]>(["s3:ObjectCreated:*"]);
  const [prefix, setPrefix] = useState("");
  const [suffix, setSuffix] = useState("");
  const known = targets.data?.targets ?? [];
  const arn = chosen || known[0]?.arn || "";
  const bad = arn === "" ? t.notifications.targetFirst : events.length === 0 ? t.notifications.eventFirst : undefined;
  const call = callOf(web.eventRuleXml({ arn, events, prefix, suffix }));
  return (
    <Dialog open onClose={onClose} title={t.notifications.add}>
      <Form onSubmit={() => onSave(call)} onCancel={onClose} submit={t.create} busy={busy} error={error} because={bad} calls={bad ? [] : [call]}>
        {targets.isError || (targets.data && known.length === 0) ? (
          <Field label="ARN" hint={targets.isError ? t.notifications.arnHint : <>{t.notifications.noTargets} <Link to="/settings" className="text-accent-text underline">{t.nav.config}</Link></>}>{(p) => <Input {...p} spellCheck={false} placeholder="arn:minio:sqs::NAME:webhook" value={chosen} onChange={(e) => setArn(e.target.value.trim())} />}</Field>
        ) : (
          <Field label={t.targets.target} hint={t.notifications.targetHint}>{(p) => <Select {...p} value={arn} onChange={(e) => setArn(e.target.value)}>{known.map((x) => <option key={x.arn} value={x.arn}>{x.id}{x.online ? "" : ` (${t.targets.offline})`}</option>)}</Select>}</Field>
        )}
        <Choices label={t.notifications.what} options={EVENTS.map((e) => [e, t.notifications.events[e]])} value={events} onChange={setEvents} />
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label={t.notifications.prefix} hint={t.notifications.prefixHint}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" placeholder="images/" value={prefix} onChange={(e) => setPrefix(e.target.value)} />}</Field>
          <Field label={t.notifications.suffix}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" placeholder=".jpg" value={suffix} onChange={(e) => setSuffix(e.target.value)} />}</Field>
        </div>
      </Form>
    </Dialog>
  );
}
