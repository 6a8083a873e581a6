// Why denied? By request id, or for a request that somebody might send: every statement, and the one that decided.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api } from "../api/client";
import { useT } from "../i18n";
import KNOWN from "../lib/actions.json";
import { useFormat } from "../lib/format";
import { useSession } from "../lib/session";
import { whyRoute } from "../router";
import { Badge, Button, Card, Field, Head, Input, Problem } from "../ui";
import { Icon } from "../ui/icons";
import { Facts } from "./object";

const ACTIONS = Object.keys(KNOWN);

export function Why() {
  const t = useT();
  return (
    <>
      <Head title={t.nav.why} about={t.why.about} />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2"><ByRequest /><Simulate /></div>
    </>
  );
}

function ByRequest() {
  const t = useT();
  const f = useFormat();
  const search = whyRoute.useSearch();
  const [id, setId] = useState(search.request ?? "");
  const ask = useMutation({ mutationFn: (request_id: string) => api("/why/{request_id}", "get", { path: { request_id } }) });
  const { mutate } = ask;
  useEffect(() => {
    if (search.request) {
      setId(search.request);
      mutate(search.request);
    }
  }, [search.request, mutate]);
  const r = ask.data as (Record<string, unknown> & { status: number; time: string; operation: string }) | undefined;
  const shown = new Set(["time", "request_id", "door", "status", "operation", "tls", "method", "micros", "bytes_in", "bytes_out"]);
  return (
    <Card title={t.why.byRequest}>
      <div className="p-4 sm:p-5">
        <form className="flex items-end gap-2" onSubmit={(e) => { e.preventDefault(); if (id.trim()) mutate(id.trim()); }}>
          <div className="flex-1"><Field label={t.requestId} hint={t.why.requestHint}>{(p) => <Input {...p} className="font-mono" spellCheck={false} autoCapitalize="characters" value={id} onChange={(e) => setId(e.target.value)} />}</Field></div>
        </form>
        <Button className="mt-3" tone="primary" busy={ask.isPending} because={id.trim() === "" ? t.why.idFirst : undefined} onClick={() => mutate(id.trim())}>{t.why.explain}</Button>
        <div className="mt-4" aria-live="polite">
          {ask.error && <Problem error={ask.error} />}
          {r && (
            <>
              <p className="mb-2 flex items-center gap-2 text-sm font-medium"><Badge tone={r.status < 400 ? "good" : "bad"}>{r.status}</Badge> {r.operation} · {f.when(r.time)}</p>
              <Facts rows={Object.entries(r).filter(([k, v]) => !shown.has(k) && v !== "" && v !== null).map(([k, v]) => [t.why.fields[k as keyof typeof t.why.fields] ?? k, <code key={k} className="break-all">{typeof v === "object" ? JSON.stringify(v) : String(v)}</code>])} />
            </>
          )}
        </div>
      </div>
    </Card>
  );
}

function Simulate() {
  const t = useT();
  const session = useSession();
  const search = whyRoute.useSearch();
  const [user, setUser] = useState(search.user ?? session?.user ?? "");
  const [action, setAction] = useState(search.action ?? "s3:GetObject");
  const [resource, setResource] = useState(search.resource ?? "");
  const users = useQuery({ queryKey: ["users"], queryFn: () => api("/users", "get"), retry: false });
  const ask = useMutation({ mutationFn: () => api("/simulate", "post", { body: { user, action, resource } }) });
  const set = (call: (v: string) => void) => (e: { target: { value: string } }) => {
    call(e.target.value);
    ask.reset();
  };
  const s = ask.data;
  return (
    <Card title={t.why.simulate}>
      <div className="p-4 sm:p-5">
        <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); ask.mutate(); }}>
          <Field label={t.why.who} hint={t.why.whoHint}>{(p) => <Input {...p} list="why-users" autoComplete="off" spellCheck={false} value={user} onChange={set(setUser)} />}</Field>
          <datalist id="why-users">{users.data?.users.map((u) => <option key={u.name} value={u.name} />)}</datalist>
          <div className="grid gap-3 sm:grid-cols-2">
            <Field label={t.why.action}>{(p) => <Input {...p} list="why-actions" autoComplete="off" spellCheck={false} value={action} onChange={set(setAction)} />}</Field>
            <datalist id="why-actions">{ACTIONS.map((a) => <option key={a} value={a} />)}</datalist>
            <Field label={t.why.resource}>{(p) => <Input {...p} spellCheck={false} placeholder="bucket/key" value={resource} onChange={set(setResource)} />}</Field>
          </div>
          <div><Button type="submit" tone="primary" busy={ask.isPending}>{t.why.explain}</Button></div>
        </form>
        <div className="mt-4" aria-live="polite">
          {ask.error && <Problem error={ask.error} />}
          {s && (
            <>
              <div className={`mb-3 flex gap-3 rounded-lg px-3.5 py-3 ${s.allowed ? "bg-good-soft" : "bg-bad-soft"}`}>
                <Icon name={s.allowed ? "good" : "bad"} className={`size-6 ${s.allowed ? "text-good" : "text-bad"}`} />
                <div><p className="font-semibold">{s.allowed ? t.why.allowed : t.why.denied}</p><p className="text-sm break-words">{s.why}</p></div>
              </div>
              {s.statements.length === 0 ? <p className="text-sm text-soft">{t.why.noStatements}</p> : (
                <ul className="divide-y rounded-lg border">
                  {s.statements.map((x, i) => (
                    <li key={i} className="px-3 py-2 text-sm">
                      <p className="flex flex-wrap items-center gap-2"><Badge tone={x.effect === "Allow" ? "good" : "bad"}>{x.effect}</Badge> <span className="font-medium break-all">{x.policy}</span> <span className="text-soft">{t.why.statement(x.statement)}{x.sid ? ` (${x.sid})` : ""}</span></p>
                      <p className={`mt-0.5 text-xs ${x.applies ? "" : "text-soft"}`}>{x.applies ? t.why.applies : t.why.doesNot(x.why_not ?? "")}</p>
                    </li>
                  ))}
                </ul>
              )}
            </>
          )}
        </div>
      </div>
    </Card>
  );
}
