// Users: their policies and groups, and new ones, whose secret is shown once.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { HIDDEN, type Call } from "../lib/acts";
import { useFormat } from "../lib/format";
import { useMay, useSession } from "../lib/session";
import { Badge, Button, Confirm, CopyBox, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, toast } from "../ui";
import { useConfirmation } from "../ui/confirm";
import { Menu } from "../ui/menu";
import { Picker } from "../ui/picker";
import { DataTable, type Column } from "../ui/table";

type User = Schemas["User"];

export function Users() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const session = useSession();
  const may = useMay("admin:CreateUser", "admin:DeleteUser", "admin:EnableUser", "admin:DisableUser", "admin:AttachUserOrGroupPolicy", "admin:ListUsers");
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<User | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const users = useQuery({ queryKey: ["users"], queryFn: () => api("/users", "get"), retry: false });
  const done = () => client.invalidateQueries({ queryKey: ["users"] });
  const enable = useMutation({
    mutationFn: (u: User) => api(u.enabled ? "/users/{name}/disable" : "/users/{name}/enable", "post", { path: { name: u.name } }),
    onSuccess: (_, u) => { toast(u.enabled ? t.users.disabled(u.name) : t.users.enabled(u.name)); void done(); },
    onError: (e) => toast(e.message, "bad"),
  });
  const revoke = useMutation({
    mutationFn: (name: string) => api("/users/{name}/revoke", "post", { path: { name } }),
    onSuccess: (_, name) => toast(t.users.revoked(name)),
    onError: (e) => toast(e.message, "bad"),
  });
  const { ensure, dialog } = useConfirmation();
  const remove = useMutation({
    mutationFn: async (name: string) => (await ensure()) && api("/users/{name}", "delete", { path: { name } }),
    onSuccess: (removed, name) => { if (removed !== false) { toast(t.users.removed(name)); setRemoving(null); void done(); } },
  });
  const columns = useMemo<Column<User>[]>(() => [
    { accessorKey: "name", header: t.name, cell: ({ row: { original: u } }) => <button type="button" className="text-left font-medium break-all hover:underline" onClick={() => setEditing(u)}>{u.name}</button> },
    { id: "policies", accessorFn: (u) => u.policies.join(" "), header: t.nav.policies, cell: ({ row }) => <Names list={row.original.policies} none={t.users.noPolicy} /> },
    { id: "groups", accessorFn: (u) => u.groups.join(" "), header: t.nav.groups, meta: { className: "max-md:hidden" }, cell: ({ row }) => <Names list={row.original.groups} none="–" /> },
    { accessorKey: "used_ms", header: t.lastUsed, meta: { className: "num text-soft whitespace-nowrap max-lg:hidden" }, cell: ({ getValue }) => (getValue() == null ? t.never : f.when(getValue())) },
    { accessorKey: "enabled", header: t.state, meta: { className: "max-sm:hidden" }, cell: ({ getValue }) => <Badge tone={getValue() ? "good" : "plain"}>{getValue() ? t.enabled : t.disabled}</Badge> },
    {
      id: "menu", header: t.actions, enableSorting: false, meta: { className: "w-0 text-right" },
      cell: ({ row: { original: u } }) => (
        <Menu label={t.actionsFor(u.name)} items={[
          { label: t.edit, icon: "edit", onSelect: () => setEditing(u) },
          { label: u.enabled ? t.disable : t.enable, icon: u.enabled ? "close" : "check", because: because(u.enabled ? "admin:DisableUser" : "admin:EnableUser"), onSelect: () => enable.mutate(u) },
          { label: t.users.revoke, icon: "out", onSelect: () => revoke.mutate(u.name) },
          null,
          { label: t.remove, icon: "trash", danger: true, because: because("admin:DeleteUser") ?? (u.name === session?.user ? t.users.self : undefined), onSelect: () => setRemoving(u.name) },
        ]} />
      ),
    },
    // eslint-disable-next-line react-hooks/exhaustive-deps
  ], [t, f, may, session?.user]);
  const create = <Button tone="primary" icon="plus" because={because("admin:CreateUser")} onClick={() => setCreating(true)}>{t.users.create}</Button>;
  return (
    <>
      <Head title={t.nav.users} about={t.users.about}>{users.data && users.data.users.length > 0 && create}</Head>
      {users.isPending ? <Loading /> : users.isError ? <Problem error={users.error} retry={() => void users.refetch()} /> : (
        <DataTable data={users.data.users} columns={columns} label={t.nav.users} filter={t.users.filter} sort={[{ id: "name", desc: false }]} empty={<Empty icon="users" title={t.users.none} text={t.users.noneText}>{create}</Empty>} />
      )}
      {creating && <CreateUser onClose={() => setCreating(false)} />}
      {editing && <EditUser user={editing} because={because("admin:AttachUserOrGroupPolicy")} onClose={() => setEditing(null)} />}
      {removing && <Confirm title={t.users.removeTitle(removing)} text={t.users.removeText} action={t.remove} busy={remove.isPending} error={remove.error} calls={[callOf("/users/{name}", "delete", { path: { name: removing } })]} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />}
      {dialog}
    </>
  );
}

export function Names({ list, none }: { list: string[]; none: string }) {
  if (list.length === 0) return <span className="text-soft">{none}</span>;
  return (
    <span className="flex flex-wrap gap-1">
      {list.slice(0, 4).map((name) => <Badge key={name}>{name}</Badge>)}
      {list.length > 4 && <Badge>+{list.length - 4}</Badge>}
    </span>
  );
}

/** The names of all policies, if the person may see them. */
export function usePolicyNames(): string[] {
  const found = useQuery({ queryKey: ["policies"], queryFn: () => api("/policies", "get"), retry: false });
  return useMemo(() => (found.data?.policies ?? []).map((p) => p.name).sort(), [found.data]);
}

type Whom = { user: string } | { group: string };

function difference(now: string[], wanted: string[]) {
  return { add: wanted.filter((p) => !now.includes(p)), drop: now.filter((p) => !wanted.includes(p)) };
}

/** Attaches and detaches so that exactly `wanted` are attached. */
export async function setPolicies(whom: Whom, now: string[], wanted: string[]) {
  const { add, drop } = difference(now, wanted);
  if (add.length > 0) await api("/policies/attach", "post", { body: { policies: add, ...whom } as never });
  if (drop.length > 0) await api("/policies/detach", "post", { body: { policies: drop, ...whom } as never });
}

/** What `setPolicies` sends. */
export function policyCalls(whom: Whom, now: string[], wanted: string[]): Call[] {
  const { add, drop } = difference(now, wanted);
  return [
    ...(add.length > 0 ? [callOf("/policies/attach", "post", { body: { policies: add, ...whom } as never })] : []),
    ...(drop.length > 0 ? [callOf("/policies/detach", "post", { body: { policies: drop, ...whom } as never })] : []),
  ];
}

/** The call that makes a user or gives it a secret, which is not shown. */
const userCall = (name: string, hasSecret: boolean) => callOf("/users/{name}", "put", { path: { name }, body: (hasSecret ? { secret: HIDDEN } : {}) as never });

function CreateUser({ onClose }: { onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [secret, setSecret] = useState("");
  const [policies, setPoliciesWanted] = useState<string[]>([]);
  const names = usePolicyNames();
  const create = useMutation({
    mutationFn: async () => {
      const made = await api("/users/{name}", "put", { path: { name }, body: (secret ? { secret } : {}) as never });
      // The user exists now: the secret must be shown even if this fails.
      let failed: unknown = null;
      await setPolicies({ user: name }, [], policies).catch((e: unknown) => { failed = e; });
      return { made, failed };
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["users"] }),
  });
  if (create.data) {
    const { made, failed } = create.data;
    return <SecretOnce title={t.users.made(made.name)} accessKey={made.name} secret={made.secret ?? secret} onClose={onClose}>{failed ? <><p className="text-sm">{t.users.notAttached}</p><Problem error={failed} /></> : null}</SecretOnce>;
  }
  return (
    <Dialog open onClose={onClose} title={t.users.create}>
      <Form onSubmit={() => create.mutate()} onCancel={onClose} submit={t.create} busy={create.isPending} error={create.error} because={name.length < 3 ? t.users.nameHint : undefined} calls={name.length < 3 ? [] : [userCall(name, secret !== ""), ...policyCalls({ user: name }, [], policies)]}>
        <Field label={t.name} hint={t.users.nameHint}>{(p) => <Input {...p} autoFocus autoComplete="off" autoCapitalize="none" spellCheck={false} value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        <Field label={t.users.secret} hint={t.users.secretHint}>{(p) => <Input {...p} type="password" autoComplete="new-password" value={secret} onChange={(e) => setSecret(e.target.value)} />}</Field>
        <Picker label={t.nav.policies} hint={t.users.policiesHint} options={names} value={policies} onChange={setPoliciesWanted} />
      </Form>
    </Dialog>
  );
}

/** A secret that is shown this once. */
export function SecretOnce({ title, accessKey, secret, onClose, children }: { title: string; accessKey: string; secret: string; onClose: () => void; children?: React.ReactNode }) {
  const t = useT();
  return (
    <Dialog open onClose={onClose} title={title}>
      <div className="flex flex-col gap-3">
        <p className="rounded-md bg-warn-soft px-3 py-2 text-sm">{t.secretOnce}</p>
        <div><p className="mb-1 text-sm font-medium">{t.login.accessKey}</p><CopyBox text={accessKey} label={t.login.accessKey} /></div>
        <div><p className="mb-1 text-sm font-medium">{t.login.secretKey}</p><CopyBox text={secret} label={t.login.secretKey} /></div>
        {children}
        <div className="flex justify-end"><Button tone="primary" onClick={onClose}>{t.secretKept}</Button></div>
      </div>
    </Dialog>
  );
}

function EditUser({ user, because, onClose }: { user: User; because: string | undefined; onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [policies, setWanted] = useState(user.policies);
  const [secret, setSecret] = useState("");
  const names = usePolicyNames();
  const save = useMutation({
    mutationFn: async () => {
      await setPolicies({ user: user.name }, user.policies, policies);
      if (secret) await api("/users/{name}", "put", { path: { name: user.name }, body: { secret } as never });
    },
    onSuccess: () => { toast(t.saved); onClose(); },
    onSettled: () => client.invalidateQueries({ queryKey: ["users"] }),
  });
  return (
    <Dialog open onClose={onClose} title={user.name}>
      <Form onSubmit={() => save.mutate()} onCancel={onClose} submit={t.save} busy={save.isPending} error={save.error} because={because} calls={[...policyCalls({ user: user.name }, user.policies, policies), ...(secret ? [userCall(user.name, true)] : [])]}>
        <Picker label={t.nav.policies} hint={t.users.policiesHint} options={names} value={policies} onChange={setWanted} />
        <div><p className="mb-1 text-sm font-medium">{t.nav.groups}</p><Names list={user.groups} none={t.users.noGroup} /></div>
        <Field label={t.users.newSecret} hint={t.users.newSecretHint}>{(p) => <Input {...p} type="password" autoComplete="new-password" value={secret} onChange={(e) => setSecret(e.target.value)} />}</Field>
      </Form>
    </Dialog>
  );
}
