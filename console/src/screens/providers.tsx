// Identity providers: who signs people in besides this deployment. Values of all kinds are names with texts, as on the
// command line; the server checks them with the provider before it stores them.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { foundTestReturn, useMay } from "../lib/session";
import { Badge, Button, Card, Confirm, Dialog, Empty, Field, Form, Head, IconButton, Input, Loading, Problem, Select, TextArea, toast } from "../ui";
import { Menu } from "../ui/menu";
import { Facts } from "./object";
import { SignInTest } from "./sign_in_test";

type Provider = Schemas["Provider"];
type Kind = "openid" | "ldap" | "tls";
const KINDS: Kind[] = ["openid", "ldap", "tls"];
const HIDDEN = "*redacted*";
/** What is asked for first. Other names are added by hand; docs/identity-*.md has all. */
const FIRST: Record<Kind, string[]> = {
  openid: ["config_url", "client_id", "client_secret", "redirect_uri", "redirect_uri_dynamic", "display_name", "scopes", "claim_name", "role_policy"],
  ldap: ["server_addr", "tls_ca", "lookup_bind_dn", "lookup_bind_password", "user_dn_search_base_dn", "user_dn_search_filter", "group_search_base_dn", "group_search_filter"],
  tls: ["enable", "comment"],
};
const SECRET = /secret|password/;

export function Providers() {
  const t = useT();
  const client = useQueryClient();
  const may = useMay("admin:ConfigUpdate", "admin:TestSignIn");
  const because = may("admin:ConfigUpdate") === false ? t.needs("admin:ConfigUpdate") : undefined;
  const [editing, setEditing] = useState<Provider | "new" | null>(null);
  const [removing, setRemoving] = useState<Provider | null>(null);
  const [back, setBack] = useState(foundTestReturn);
  const [testing, setTesting] = useState<Pick<Provider, "kind" | "name"> | null>(back ? { kind: "openid", name: back.provider } : null);
  const noTest = may("admin:TestSignIn") === false ? t.needs("admin:TestSignIn") : undefined;
  const all = useQuery({
    queryKey: ["providers"], retry: false,
    queryFn: async ({ signal }) => (await Promise.all(KINDS.map((kind) => api("/idp/{kind}", "get", { path: { kind }, signal })))).flatMap((l) => l.providers),
  });
  const done = () => client.invalidateQueries({ queryKey: ["providers"] });
  const enable = useMutation({
    mutationFn: (p: Provider) => api(p.enabled ? "/idp/{kind}/{name}/disable" : "/idp/{kind}/{name}/enable", "post", { path: { kind: p.kind as Kind, name: p.name } }),
    onSuccess: () => toast(t.saved), onError: (e) => toast(e.message, "bad"), onSettled: done,
  });
  const remove = useMutation({
    mutationFn: (p: Provider) => api("/idp/{kind}/{name}", "delete", { path: { kind: p.kind as Kind, name: p.name } }),
    onSuccess: () => { toast(t.done); setRemoving(null); }, onSettled: done,
  });
  const create = <Button tone="primary" icon="plus" because={because} onClick={() => setEditing("new")}>{t.providers.add}</Button>;
  return (
    <>
      <Head title={t.nav.providers} about={t.providers.about}>{all.data && all.data.length > 0 && create}</Head>
      {all.isPending ? <Loading /> : all.isError ? <Problem error={all.error} retry={() => void all.refetch()} /> : all.data.length === 0 ? (
        <Card><Empty icon="users" title={t.providers.none} text={t.providers.noneText}>{create}</Empty></Card>
      ) : (
        <div className="flex flex-col gap-4">
          {all.data.map((p) => (
            <Card
              key={`${p.kind}/${p.name}`} title={<span className="flex flex-wrap items-center gap-2">{p.values["display_name"] ?? (p.name === "_" ? t.providers.kinds[p.kind as Kind] : p.name)} <Badge>{t.providers.kinds[p.kind as Kind]}</Badge> {p.enabled ? <Badge tone="good" icon="good">{t.enabled}</Badge> : p.problem ? <Badge tone="bad" icon="bad">{t.providers.unusable}</Badge> : <Badge>{t.disabled}</Badge>}</span>}
              actions={<Menu label={t.actionsFor(p.name)} items={[
                { label: t.edit, icon: "edit", because, onSelect: () => setEditing(p) },
                ...(p.kind === "tls" ? [] : [{ label: t.signInTest.action, icon: "idp" as const, because: noTest ?? (p.enabled ? undefined : t.signInTest.enableFirst), onSelect: () => setTesting(p) }]),
                { label: p.enabled ? t.disable : t.enable, icon: p.enabled ? "close" : "check", because, onSelect: () => enable.mutate(p) },
                null,
                { label: t.remove, icon: "trash", danger: true, because, onSelect: () => setRemoving(p) },
              ]} />}
            >
              <div className="px-4 py-2 sm:px-5">
                {p.problem && <p role="alert" className="my-2 rounded-md bg-bad-soft px-3 py-2 text-sm">{p.problem}</p>}
                <Facts rows={[
                  ...Object.entries(p.values).filter(([name]) => name !== "enable").map(([name, value]) => [name, <span key={name} className="font-mono text-[13px] break-all whitespace-pre-line">{value === HIDDEN ? t.providers.hidden : shortened(value)}{p.environment.includes(name) && <span className="ml-2 font-sans text-xs text-soft">{t.providers.fixed}</span>}</span>] as [string, React.ReactNode]),
                  ...Object.entries(p.facts).map(([name, value]) => [t.providers.facts[name as keyof typeof t.providers.facts] ?? name, <span key={name} className="font-mono text-[13px] break-all">{value}</span>] as [string, React.ReactNode]),
                ]} />
              </div>
            </Card>
          ))}
        </div>
      )}
      {editing && <Edit provider={editing === "new" ? null : editing} onClose={() => setEditing(null)} onDone={done} />}
      {testing && <SignInTest provider={all.data?.find((p) => p.kind === testing.kind && p.name === testing.name) ?? testing} back={back && back.provider === testing.name && testing.kind === "openid" ? back.back : undefined} onClose={() => { setTesting(null); setBack(null); }} />}
      {removing && <Confirm title={t.providers.removeTitle(removing.name)} text={t.providers.removeText} action={t.remove} typed={removing.name} busy={remove.isPending} error={remove.error} calls={[callOf("/idp/{kind}/{name}", "delete", { path: { kind: removing.kind as Kind, name: removing.name } })]} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />}
    </>
  );
}

/** A certificate is long, and its beginning tells it apart. */
function shortened(value: string) {
  return value.length > 300 ? `${value.slice(0, 120)}…` : value;
}

function Edit({ provider, onClose, onDone }: { provider: Provider | null; onClose: () => void; onDone: () => unknown }) {
  const t = useT();
  const [kind, setKind] = useState<Kind>((provider?.kind as Kind) ?? "openid");
  const [name, setName] = useState(provider?.name ?? "");
  const [values, setValues] = useState<Record<string, string>>(provider ? Object.fromEntries(Object.entries(provider.values).map(([n, v]) => [n, v === HIDDEN ? "" : v])) : {});
  const [added, setAdded] = useState("");
  const fixed = provider?.environment ?? [];
  const names = [...new Set([...FIRST[kind], ...Object.keys(values)])].filter((n) => !fixed.includes(n));
  const target = kind === "openid" ? name.trim() || "_" : "_";
  const save = useMutation({
    mutationFn: () => {
      // What is unchanged is not sent; an emptied value is removed, except a secret, which cannot be seen here.
      const changed = Object.fromEntries(Object.entries(values).filter(([n, v]) => (provider?.values[n] === HIDDEN ? v !== "" : v !== (provider?.values[n] ?? ""))));
      const path = { kind, name: target };
      return provider ? api("/idp/{kind}/{name}", "patch", { path, body: { values: changed } as never }) : api("/idp/{kind}/{name}", "put", { path, body: { values: changed } as never });
    },
    onSuccess: () => { toast(t.saved); onClose(); }, onSettled: () => { onDone(); },
  });
  const set = (n: string, v: string) => setValues({ ...values, [n]: v });
  return (
    <Dialog open onClose={onClose} title={provider ? t.providers.editTitle(provider.name) : t.providers.add} wide>
      <Form onSubmit={() => save.mutate()} onCancel={onClose} submit={provider ? t.save : t.providers.checkAndAdd} busy={save.isPending} error={save.error}>
        {!provider && (
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label={t.providers.kind}>{(p) => <Select {...p} value={kind} onChange={(e) => { setKind(e.target.value as Kind); setValues({}); }}>{KINDS.map((k) => <option key={k} value={k}>{t.providers.kinds[k]}</option>)}</Select>}</Field>
            {kind === "openid" && <Field label={t.name} hint={t.providers.nameHint}>{(p) => <Input {...p} autoFocus autoComplete="off" spellCheck={false} autoCapitalize="none" value={name} onChange={(e) => setName(e.target.value)} />}</Field>}
          </div>
        )}
        {names.map((n) => (
          <div key={n} className="flex items-end gap-2">
            <div className="min-w-0 flex-1">
              <Field label={n} hint={t.providers.hints[n as keyof typeof t.providers.hints]}>
                {(p) => n === "tls_ca" ? <TextArea {...p} rows={3} value={values[n] ?? ""} onChange={(e) => set(n, e.target.value)} /> : (
                  <Input {...p} className="font-mono text-[13px]!" type={SECRET.test(n) ? "password" : "text"} autoComplete={SECRET.test(n) ? "new-password" : "off"} spellCheck={false} placeholder={provider?.values[n] === HIDDEN ? t.providers.keepSecret : ""} value={values[n] ?? ""} onChange={(e) => set(n, e.target.value)} />
                )}
              </Field>
            </div>
          </div>
        ))}
        <div className="flex items-end gap-2 border-t pt-4">
          <div className="min-w-0 flex-1"><Field label={t.providers.more} hint={t.providers.moreHint}>{(p) => <Input {...p} className="font-mono text-[13px]!" spellCheck={false} autoCapitalize="none" value={added} onChange={(e) => setAdded(e.target.value)} />}</Field></div>
          <div className="pb-5"><IconButton icon="plus" label={t.providers.addValue} onClick={() => { if (/^[a-z_]+$/.test(added)) { set(added, values[added] ?? ""); setAdded(""); } }} /></div>
        </div>
      </Form>
    </Dialog>
  );
}
