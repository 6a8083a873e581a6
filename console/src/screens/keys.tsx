// Access keys: credentials for programs, which can do at most what their user can.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay, useSession } from "../lib/session";
import { Badge, Button, Confirm, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, Select, toast } from "../ui";
import { Menu } from "../ui/menu";
import { JsonEditor, jsonProblem } from "../ui/json";
import { DataTable, type Column } from "../ui/table";
import { SecretOnce } from "./users";

type Key = Schemas["Key"];
const DAY = 86_400_000;

export function Keys() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const session = useSession();
  const may = useMay("admin:ListServiceAccounts");
  const everybody = may("admin:ListServiceAccounts") === true;
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<Key | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const [rotating, setRotating] = useState<string | null>(null);
  const keys = useQuery({ queryKey: ["keys", everybody], queryFn: () => api("/keys", "get", everybody ? { query: { all: true } } : {}), retry: false, enabled: may("admin:ListServiceAccounts") !== undefined });
  const done = () => client.invalidateQueries({ queryKey: ["keys"] });
  const enable = useMutation({
    mutationFn: (k: Key) => api("/keys/{access_key}", "patch", { path: { access_key: k.access_key }, body: { enabled: !k.enabled } as never }),
    onSuccess: () => { toast(t.saved); void done(); },
    onError: (e) => toast(e.message, "bad"),
  });
  const remove = useMutation({
    mutationFn: (access_key: string) => api("/keys/{access_key}", "delete", { path: { access_key } }),
    onSuccess: (_, key) => { toast(t.keys.removed(key)); setRemoving(null); void done(); },
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
          { label: t.edit, icon: "edit", onSelect: () => setEditing(k) },
          { label: k.enabled ? t.disable : t.enable, icon: k.enabled ? "close" : "check", onSelect: () => enable.mutate(k) },
          { label: t.keys.rotate, icon: "refresh", onSelect: () => setRotating(k.access_key) },
          null,
          { label: t.remove, icon: "trash", danger: true, onSelect: () => setRemoving(k.access_key) },
        ]} />
      ),
    },
  ], [t, f, enable]);
  const create = <Button tone="primary" icon="plus" because={session?.restricted ? t.keys.restrictedSession : session?.federated ? undefined : t.keys.sessionsCannot} onClick={() => setCreating(true)}>{t.keys.create}</Button>;
  return (
    <>
      <Head title={t.nav.keys} about={t.keys.about}>{keys.data && keys.data.keys.length > 0 && create}</Head>
      {keys.isError ? <Problem error={keys.error} retry={() => void keys.refetch()} /> : keys.isPending ? <Loading /> : (
        <DataTable data={keys.data.keys} columns={columns} label={t.nav.keys} filter={t.keys.filter} empty={<Empty icon="key" title={t.keys.none} text={t.keys.noneText}>{create}</Empty>} />
      )}
      {creating && <KeyDialog existing={null} onClose={() => setCreating(false)} />}
      {editing && <KeyDialog existing={editing} onClose={() => setEditing(null)} />}
      {rotating && <Rotate accessKey={rotating} onClose={() => setRotating(null)} />}
      {removing && <Confirm title={t.keys.removeTitle(removing)} text={t.keys.removeText} action={t.remove} busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />}
    </>
  );
}

/** A secret of 240 random bits, as the server makes them. */
function newSecret(): string {
  for (;;) {
    const text = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(30)))).replaceAll("+", "-").replaceAll("/", "_");
    if (/^[A-Za-z0-9]/.test(text)) return text;
  }
}

function Rotate({ accessKey, onClose }: { accessKey: string; onClose: () => void }) {
  const t = useT();
  const [secret] = useState(newSecret);
  const rotate = useMutation({ mutationFn: () => api("/keys/{access_key}", "patch", { path: { access_key: accessKey }, body: { secret } as never }) });
  if (rotate.isSuccess) return <SecretOnce title={t.keys.rotated(accessKey)} accessKey={accessKey} secret={secret} onClose={onClose} />;
  return <Confirm title={t.keys.rotateTitle(accessKey)} text={t.keys.rotateText} action={t.keys.rotate} busy={rotate.isPending} error={rotate.error} onConfirm={() => rotate.mutate()} onClose={onClose} />;
}

function KeyDialog({ existing, onClose }: { existing: Key | null; onClose: () => void }) {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const [name, setName] = useState(existing?.name ?? "");
  const [description, setDescription] = useState(existing?.description ?? "");
  const [days, setDays] = useState("");
  const [policy, setPolicy] = useState(existing?.policy ? JSON.stringify(existing.policy, null, 2) : "");
  const problem = policy.trim() === "" ? null : jsonProblem(policy);
  const save = useMutation({
    mutationFn: async () => {
      const expires = days === "" ? {} : { expires_ms: Date.now() + Number(days) * DAY };
      const body = { name, description, ...expires, ...(policy.trim() ? { policy: JSON.parse(policy) as never } : {}) };
      return existing
        ? api("/keys/{access_key}", "patch", { path: { access_key: existing.access_key }, body: body as never })
        : api("/keys", "post", { body: body as never });
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["keys"] });
      if (existing) {
        toast(t.saved);
        onClose();
      }
    },
  });
  if (save.data?.secret && !existing) return <SecretOnce title={t.keys.made} accessKey={save.data.access_key} secret={save.data.secret} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title={existing ? existing.access_key : t.keys.create} wide>
      <Form onSubmit={() => save.mutate()} onCancel={onClose} submit={existing ? t.save : t.create} busy={save.isPending} error={save.error} because={problem ? t.json.fix : undefined}>
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={t.name} hint={t.keys.nameHint}>{(p) => <Input {...p} autoFocus={!existing} maxLength={128} value={name} onChange={(e) => setName(e.target.value)} />}</Field>
          <Field label={t.expires} hint={existing?.expires_ms ? t.keys.expiresNow(f.when(existing.expires_ms)) : t.keys.expiresHint}>
            {(p) => <Select {...p} value={days} onChange={(e) => setDays(e.target.value)}><option value="">{existing ? t.keys.asIs : t.never}</option>{[1, 7, 30, 90, 365].map((d) => <option key={d} value={d}>{t.keys.inDays(d)}</option>)}</Select>}
          </Field>
        </div>
        <Field label={t.description}>{(p) => <Input {...p} maxLength={256} value={description} onChange={(e) => setDescription(e.target.value)} />}</Field>
        <div>
          <p className="mb-1.5 text-sm font-medium">{t.keys.policy}</p>
          <JsonEditor label={t.keys.policy} value={policy} onChange={setPolicy} rows={policy ? 10 : 3} />
          <p className="text-xs text-soft">{t.keys.policyHint}</p>
        </div>
      </Form>
    </Dialog>
  );
}
