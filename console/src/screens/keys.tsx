// Access keys: credentials for programs, which can do at most what their user can. A key outlives the session, so that
// who signed in with a secret is asked for it again before a key of their own is made or changed.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useMemo, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { HIDDEN } from "../lib/acts";
import { useFormat } from "../lib/format";
import { useMay, useSession } from "../lib/session";
import { Badge, Button, Confirm, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, Select, toast } from "../ui";
import { useConfirmation } from "../ui/confirm";
import { Menu } from "../ui/menu";
import { JsonEditor, jsonProblem } from "../ui/json";
import { DataTable, type Column } from "../ui/table";
import { SecretOnce } from "./users";

type Key = Schemas["Key"];
const DAY = 86_400_000;
/** Most users that are suggested as the owner of a key. */
const SUGGESTED = 200;

export function Keys() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const session = useSession();
  const may = useMay("admin:ListServiceAccounts", "admin:CreateServiceAccount", "admin:UpdateServiceAccount", "admin:RemoveServiceAccount");
  const everybody = may("admin:ListServiceAccounts") === true;
  const { ensure, dialog } = useConfirmation();
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<Key | null>(null);
  const [removing, setRemoving] = useState<Key | null>(null);
  const [rotating, setRotating] = useState<Key | null>(null);
  const keys = useQuery({ queryKey: ["keys", everybody], queryFn: () => api("/keys", "get", everybody ? { query: { all: true } } : {}), retry: false, enabled: may("admin:ListServiceAccounts") !== undefined });
  const done = () => client.invalidateQueries({ queryKey: ["keys"] });
  /** Why a key of this user cannot be made or changed here. */
  const because = (user: string, action: string) =>
    session?.restricted ? t.keys.restrictedSession : user !== session?.user && may(action) === false ? t.needs(action) : undefined;
  const ensureFor = async (user: string) => user !== session?.user || ensure();
  const enable = useMutation({
    mutationFn: async (k: Key) => (await ensureFor(k.user)) && api("/keys/{access_key}", "patch", { path: { access_key: k.access_key }, body: { enabled: !k.enabled } as never }),
    onSuccess: (changed) => { if (changed) toast(t.saved); void done(); },
    onError: (e) => toast(e.message, "bad"),
  });
  const remove = useMutation({
    mutationFn: async (k: Key) => (await ensureFor(k.user)) && api("/keys/{access_key}", "delete", { path: { access_key: k.access_key } }),
    onSuccess: (removed, k) => { if (removed) { toast(t.keys.removed(k.access_key)); setRemoving(null); } void done(); },
  });
  const columns = useMemo<Column<Key>[]>(() => [
    { accessorKey: "access_key", header: t.login.accessKey, cell: ({ row: { original: k } }) => <div><code className="break-all">{k.access_key}</code>{k.name && <p className="text-xs text-soft">{k.name}</p>}</div> },
    { accessorKey: "user", header: t.user, cell: ({ getValue }) => <span className="break-all">{getValue()}</span> },
    { id: "expires", accessorFn: (k) => k.expires_ms ?? Infinity, header: t.expires, meta: { className: "num whitespace-nowrap max-md:hidden" }, cell: ({ row: { original: k } }) => (k.expires_ms == null ? t.never : k.expires_ms < Date.now() ? <Badge tone="bad">{t.expired}</Badge> : f.when(k.expires_ms)) },
    { id: "used", accessorFn: (k) => k.used_ms ?? 0, header: t.lastUsed, meta: { className: "num text-soft whitespace-nowrap max-lg:hidden" }, cell: ({ row: { original: k } }) => (k.used_ms == null ? t.never : f.when(k.used_ms)) },
    { accessorKey: "enabled", header: t.state, meta: { className: "max-sm:hidden" }, cell: ({ row: { original: k } }) => <span className="flex gap-1"><Badge tone={k.enabled ? "good" : "plain"}>{k.enabled ? t.enabled : t.disabled}</Badge>{k.policy != null && <Badge tone="accent">{t.keys.restricted}</Badge>}</span> },
    {
      id: "menu", header: t.actions, enableSorting: false, meta: { className: "w-0 text-right" },
      cell: ({ row: { original: k } }) => (
        <Menu label={t.actionsFor(k.access_key)} items={[
          { label: t.edit, icon: "edit", because: because(k.user, "admin:UpdateServiceAccount"), onSelect: () => setEditing(k) },
          { label: k.enabled ? t.disable : t.enable, icon: k.enabled ? "close" : "check", because: because(k.user, "admin:UpdateServiceAccount"), onSelect: () => enable.mutate(k) },
          { label: t.keys.rotate, icon: "refresh", because: because(k.user, "admin:UpdateServiceAccount"), onSelect: () => setRotating(k) },
          null,
          { label: t.remove, icon: "trash", danger: true, because: because(k.user, "admin:RemoveServiceAccount"), onSelect: () => setRemoving(k) },
        ]} />
      ),
    },
    // eslint-disable-next-line react-hooks/exhaustive-deps
  ], [t, f, may, session, enable]);
  const create = <Button tone="primary" icon="plus" because={because(session?.user ?? "", "")} onClick={() => setCreating(true)}>{t.keys.create}</Button>;
  return (
    <>
      <Head title={t.nav.keys} about={t.keys.about}>{keys.data && keys.data.keys.length > 0 && create}</Head>
      {keys.isError ? <Problem error={keys.error} retry={() => void keys.refetch()} /> : keys.isPending ? <Loading /> : (
        <DataTable data={keys.data.keys} columns={columns} label={t.nav.keys} filter={t.keys.filter} empty={<Empty icon="key" title={t.keys.none} text={t.keys.noneText}>{create}</Empty>} />
      )}
      {creating && <KeyDialog existing={null} ensure={ensureFor} others={may("admin:CreateServiceAccount") === true} onClose={() => setCreating(false)} />}
      {editing && <KeyDialog existing={editing} ensure={ensureFor} others={false} onClose={() => setEditing(null)} />}
      {rotating && <Rotate rotated={rotating} ensure={ensureFor} onClose={() => setRotating(null)} />}
      {removing && <Confirm title={t.keys.removeTitle(removing.access_key)} text={t.keys.removeText} action={t.remove} busy={remove.isPending} error={remove.error} calls={[callOf("/keys/{access_key}", "delete", { path: { access_key: removing.access_key } })]} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />}
      {dialog}
    </>
  );
}

type Ensure = (user: string) => Promise<boolean>;

/** A secret of 240 random bits, as the server makes them. */
function newSecret(): string {
  for (;;) {
    const text = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(30)))).replaceAll("+", "-").replaceAll("/", "_");
    if (/^[A-Za-z0-9]/.test(text)) return text;
  }
}

function Rotate({ rotated, ensure, onClose }: { rotated: Key; ensure: Ensure; onClose: () => void }) {
  const t = useT();
  const [secret] = useState(newSecret);
  const accessKey = rotated.access_key;
  const rotate = useMutation({ mutationFn: async () => (await ensure(rotated.user)) && api("/keys/{access_key}", "patch", { path: { access_key: accessKey }, body: { secret } as never }) });
  if (rotate.data) return <SecretOnce title={t.keys.rotated(accessKey)} accessKey={accessKey} secret={secret} onClose={onClose} />;
  return <Confirm title={t.keys.rotateTitle(accessKey)} text={t.keys.rotateText} action={t.keys.rotate} busy={rotate.isPending} error={rotate.error} calls={[callOf("/keys/{access_key}", "patch", { path: { access_key: accessKey }, body: { secret: HIDDEN } as never })]} onConfirm={() => rotate.mutate()} onClose={onClose} />;
}

function KeyDialog({ existing, ensure, others, onClose }: { existing: Key | null; ensure: Ensure; others: boolean; onClose: () => void }) {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const session = useSession();
  const me = session?.user ?? "";
  const [owner, setOwner] = useState("");
  const [name, setName] = useState(existing?.name ?? "");
  const [description, setDescription] = useState(existing?.description ?? "");
  const [days, setDays] = useState("");
  const [policy, setPolicy] = useState(existing?.policy ? JSON.stringify(existing.policy, null, 2) : "");
  const problem = policy.trim() === "" ? null : jsonProblem(policy);
  const user = existing?.user ?? (owner.trim() || me);
  const body = () => {
    const expires = days === "" ? {} : { expires_ms: days === "never" ? 0 : Date.now() + Number(days) * DAY };
    const narrowed = policy.trim() ? { policy: JSON.parse(policy) as never } : existing?.policy ? { policy: "" } : {};
    return { name, description, ...expires, ...narrowed, ...(existing || user === me ? {} : { user }) };
  };
  const calls = () => [existing ? callOf("/keys/{access_key}", "patch", { path: { access_key: existing.access_key }, body: body() as never }) : callOf("/keys", "post", { body: body() as never })];
  const save = useMutation({
    mutationFn: async () => {
      if (!(await ensure(user))) return null;
      return existing
        ? api("/keys/{access_key}", "patch", { path: { access_key: existing.access_key }, body: body() as never })
        : api("/keys", "post", { body: body() as never });
    },
    onSuccess: (saved) => {
      void client.invalidateQueries({ queryKey: ["keys"] });
      if (existing && saved) {
        toast(t.saved);
        onClose();
      }
    },
  });
  if (save.data?.secret && !existing) return <SecretOnce title={t.keys.made} accessKey={save.data.access_key} secret={save.data.secret} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title={existing ? existing.access_key : t.keys.create} wide>
      <Form onSubmit={() => save.mutate()} onCancel={onClose} submit={existing ? t.save : t.create} busy={save.isPending} error={save.error} because={problem ? t.json.fix : undefined} calls={problem ? [] : calls()}>
        {others && <Owner value={owner} me={me} onChange={setOwner} />}
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={t.name} hint={t.keys.nameHint}>{(p) => <Input {...p} autoFocus={!existing} maxLength={128} value={name} onChange={(e) => setName(e.target.value)} />}</Field>
          <Field label={t.expires} hint={existing?.expires_ms ? t.keys.expiresNow(f.when(existing.expires_ms)) : t.keys.expiresHint}>
            {(p) => <Select {...p} value={days} onChange={(e) => setDays(e.target.value)}><option value="">{existing ? t.keys.asIs : t.never}</option>{existing?.expires_ms != null && <option value="never">{t.never}</option>}{[1, 7, 30, 90, 365].map((d) => <option key={d} value={d}>{t.keys.inDays(d)}</option>)}</Select>}
          </Field>
        </div>
        <Field label={t.description}>{(p) => <Input {...p} maxLength={256} value={description} onChange={(e) => setDescription(e.target.value)} />}</Field>
        <div>
          <p className="mb-1.5 text-sm font-medium">{t.keys.policy}</p>
          <JsonEditor policy label={t.keys.policy} value={policy} onChange={setPolicy} rows={policy ? 10 : 3} />
          <p className="text-xs text-soft">{t.keys.policyHint}</p>
        </div>
      </Form>
    </Dialog>
  );
}

/** Whose key it is. The names of users are suggested to those who may see them. */
function Owner({ value, me, onChange }: { value: string; me: string; onChange: (user: string) => void }) {
  const t = useT();
  const id = useId();
  const users = useQuery({ queryKey: ["users"], queryFn: () => api("/users", "get"), retry: false });
  const names = useMemo(() => (users.data?.users ?? []).map((u) => u.name), [users.data]);
  const fitting = names.filter((n) => n.includes(value)).slice(0, SUGGESTED);
  return (
    <Field label={t.keys.owner} hint={t.keys.ownerHint}>
      {(p) => (
        <>
          <Input {...p} list={id} autoComplete="off" autoCapitalize="none" spellCheck={false} placeholder={t.keys.mine(me)} value={value} onChange={(e) => onChange(e.target.value)} />
          <datalist id={id}>{fitting.map((n) => <option key={n} value={n} />)}</datalist>
        </>
      )}
    </Field>
  );
}
