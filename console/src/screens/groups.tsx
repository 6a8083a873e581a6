// Groups: their members and policies. A group is there as long as it has members or policies.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useMay } from "../lib/session";
import { Badge, Button, Confirm, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, toast } from "../ui";
import { Menu } from "../ui/menu";
import { Picker } from "../ui/picker";
import { DataTable, type Column } from "../ui/table";
import { Names, policyCalls, setPolicies, usePolicyNames } from "./users";

type Group = Schemas["Group"];

export function Groups() {
  const t = useT();
  const client = useQueryClient();
  const may = useMay("admin:AddUserToGroup", "admin:RemoveUserFromGroup", "admin:EnableGroup", "admin:DisableGroup");
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  const [editing, setEditing] = useState<Group | "new" | null>(null);
  const [removing, setRemoving] = useState<Group | null>(null);
  const groups = useQuery({ queryKey: ["groups"], queryFn: () => api("/groups", "get"), retry: false });
  const done = () => client.invalidateQueries({ queryKey: ["groups"] });
  const enable = useMutation({
    mutationFn: (g: Group) => api(g.enabled ? "/groups/{name}/disable" : "/groups/{name}/enable", "post", { path: { name: g.name } }),
    onSuccess: () => { toast(t.saved); void done(); },
    onError: (e) => toast(e.message, "bad"),
  });
  const remove = useMutation({
    mutationFn: async (g: Group) => {
      if (g.members.length > 0) await api("/groups/{name}/members", "post", { path: { name: g.name }, body: { add: [], remove: g.members } as never });
      await setPolicies({ group: g.name }, g.policies, []);
      await api("/groups/{name}", "delete", { path: { name: g.name } });
    },
    onSuccess: (_, g) => { toast(t.groups.removed(g.name)); setRemoving(null); },
    onSettled: done,
  });
  const columns = useMemo<Column<Group>[]>(() => [
    { accessorKey: "name", header: t.name, cell: ({ row: { original: g } }) => <button type="button" className="text-left font-medium break-all hover:underline" onClick={() => setEditing(g)}>{g.name}</button> },
    { id: "members", accessorFn: (g) => g.members.join(" "), header: t.groups.members, cell: ({ row }) => <Names list={row.original.members} none={t.groups.noMembers} /> },
    { id: "policies", accessorFn: (g) => g.policies.join(" "), header: t.nav.policies, meta: { className: "max-sm:hidden" }, cell: ({ row }) => <Names list={row.original.policies} none={t.users.noPolicy} /> },
    { accessorKey: "enabled", header: t.state, meta: { className: "max-sm:hidden" }, cell: ({ getValue }) => <Badge tone={getValue() ? "good" : "plain"}>{getValue() ? t.enabled : t.disabled}</Badge> },
    {
      id: "menu", header: t.actions, enableSorting: false, meta: { className: "w-0 text-right" },
      cell: ({ row: { original: g } }) => (
        <Menu label={t.actionsFor(g.name)} items={[
          { label: t.edit, icon: "edit", onSelect: () => setEditing(g) },
          { label: g.enabled ? t.disable : t.enable, icon: g.enabled ? "close" : "check", because: because(g.enabled ? "admin:DisableGroup" : "admin:EnableGroup"), onSelect: () => enable.mutate(g) },
          null,
          { label: t.remove, icon: "trash", danger: true, because: because("admin:RemoveUserFromGroup"), onSelect: () => setRemoving(g) },
        ]} />
      ),
    },
  ], [t, may]);
  const create = <Button tone="primary" icon="plus" because={because("admin:AddUserToGroup")} onClick={() => setEditing("new")}>{t.groups.create}</Button>;
  return (
    <>
      <Head title={t.nav.groups} about={t.groups.about}>{groups.data && groups.data.groups.length > 0 && create}</Head>
      {groups.isPending ? <Loading /> : groups.isError ? <Problem error={groups.error} retry={() => void groups.refetch()} /> : (
        <DataTable data={groups.data.groups} columns={columns} label={t.nav.groups} filter={t.groups.filter} sort={[{ id: "name", desc: false }]} empty={<Empty icon="group" title={t.groups.none} text={t.groups.noneText}>{create}</Empty>} />
      )}
      {editing && <EditGroup group={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
      {removing && <Confirm title={t.groups.removeTitle(removing.name)} text={t.groups.removeText} action={t.remove} busy={remove.isPending} error={remove.error} calls={removeCalls(removing)} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />}
    </>
  );
}

/** Its members leave first: a group with members is not removed. */
function removeCalls(g: Group) {
  const leave = g.members.length > 0 ? [callOf("/groups/{name}/members", "post", { path: { name: g.name }, body: { add: [], remove: g.members } as never })] : [];
  return [...leave, ...policyCalls({ group: g.name }, g.policies, []), callOf("/groups/{name}", "delete", { path: { name: g.name } })];
}

function EditGroup({ group, onClose }: { group: Group | null; onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [name, setName] = useState(group?.name ?? "");
  const [members, setMembers] = useState(group?.members ?? []);
  const [policies, setWanted] = useState(group?.policies ?? []);
  const users = useQuery({ queryKey: ["users"], queryFn: () => api("/users", "get"), retry: false });
  const names = usePolicyNames();
  const old = group?.members ?? [];
  const body = { add: members.filter((m) => !old.includes(m)), remove: old.filter((m) => !members.includes(m)) };
  const joins = body.add.length + body.remove.length > 0;
  const calls = [...(joins ? [callOf("/groups/{name}/members", "post", { path: { name }, body: body as never })] : []), ...policyCalls({ group: name }, group?.policies ?? [], policies)];
  const save = useMutation({
    mutationFn: async () => {
      if (joins) await api("/groups/{name}/members", "post", { path: { name }, body: body as never });
      await setPolicies({ group: name }, group?.policies ?? [], policies);
    },
    onSuccess: () => { toast(t.saved); onClose(); },
    onSettled: () => client.invalidateQueries({ queryKey: ["groups"] }),
  });
  return (
    <Dialog open onClose={onClose} title={group?.name ?? t.groups.create}>
      <Form onSubmit={() => save.mutate()} onCancel={onClose} submit={group ? t.save : t.create} busy={save.isPending} error={save.error} because={name === "" ? t.nameFirst : !group && members.length === 0 ? t.groups.memberFirst : undefined} calls={name === "" ? [] : calls}>
        {!group && <Field label={t.name}>{(p) => <Input {...p} autoFocus autoComplete="off" value={name} onChange={(e) => setName(e.target.value)} />}</Field>}
        <Picker label={t.groups.members} options={(users.data?.users ?? []).map((u) => u.name)} value={members} onChange={setMembers} />
        <Picker label={t.nav.policies} options={names} value={policies} onChange={setWanted} />
      </Form>
    </Dialog>
  );
}
