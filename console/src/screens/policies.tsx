// Policies: what they allow, to whom they are attached, and an editor.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useMay } from "../lib/session";
import { policyRoute } from "../router";
import { Badge, Button, Card, CommandPreview, Confirm, Empty, Field, Head, Input, Loading, Problem, toast } from "../ui";
import { Menu } from "../ui/menu";
import { JsonEditor, jsonProblem } from "../ui/json";
import { DataTable, type Column } from "../ui/table";
import { Names } from "./users";

type Policy = Schemas["NamedPolicy"];
/** The name in the address of a policy that is not made yet: no policy can have it. */
const NEW = "+";
const EXAMPLE = JSON.stringify({ Version: "2012-10-17", Statement: [{ Effect: "Allow", Action: ["s3:GetObject", "s3:ListBucket"], Resource: ["arn:aws:s3:::BUCKET", "arn:aws:s3:::BUCKET/*"] }] }, null, 2);

export function Policies() {
  const t = useT();
  const client = useQueryClient();
  const navigate = useNavigate();
  const may = useMay("admin:CreatePolicy", "admin:DeletePolicy");
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  const [removing, setRemoving] = useState<string | null>(null);
  const policies = useQuery({ queryKey: ["policies"], queryFn: () => api("/policies", "get"), retry: false });
  const remove = useMutation({
    mutationFn: (name: string) => api("/policies/{name}", "delete", { path: { name } }),
    onSuccess: (_, name) => { toast(t.policies.removed(name)); setRemoving(null); void client.invalidateQueries({ queryKey: ["policies"] }); },
  });
  const columns = useMemo<Column<Policy>[]>(() => [
    { accessorKey: "name", header: t.name, cell: ({ row: { original: p } }) => <span className="inline-flex items-center gap-2"><Link to="/policies/$name" params={{ name: p.name }} className="font-medium break-all hover:underline">{p.name}</Link>{p.built_in && <Badge>{t.policies.builtIn}</Badge>}</span> },
    { id: "users", accessorFn: (p) => p.users.join(" "), header: t.nav.users, cell: ({ row }) => <Names list={row.original.users} none="–" /> },
    { id: "groups", accessorFn: (p) => p.groups.join(" "), header: t.nav.groups, meta: { className: "max-sm:hidden" }, cell: ({ row }) => <Names list={row.original.groups} none="–" /> },
    {
      id: "menu", header: t.actions, enableSorting: false, meta: { className: "w-0 text-right" },
      cell: ({ row: { original: p } }) => {
        const used = p.users.length + p.groups.length > 0 ? t.policies.inUse : undefined;
        return (
          <Menu label={t.actionsFor(p.name)} items={[
            { label: t.edit, icon: "edit", onSelect: () => void navigate({ to: "/policies/$name", params: { name: p.name } }) },
            null,
            { label: t.remove, icon: "trash", danger: true, because: because("admin:DeletePolicy") ?? (p.built_in ? t.policies.builtInStays : used), onSelect: () => setRemoving(p.name) },
          ]} />
        );
      },
    },
  ], [t, may, navigate]);
  return (
    <>
      <Head title={t.nav.policies} about={t.policies.about}>
        <Button tone="primary" icon="plus" because={because("admin:CreatePolicy")} onClick={() => void navigate({ to: "/policies/$name", params: { name: NEW } })}>{t.policies.create}</Button>
      </Head>
      {policies.isPending ? <Loading /> : policies.isError ? <Problem error={policies.error} retry={() => void policies.refetch()} /> : (
        <DataTable data={policies.data.policies} columns={columns} label={t.nav.policies} filter={t.policies.filter} sort={[{ id: "name", desc: false }]} empty={<Empty icon="policy" title={t.policies.none} text={t.policies.about} />} />
      )}
      {removing && <Confirm title={t.policies.removeTitle(removing)} text={t.policies.removeText} action={t.remove} busy={remove.isPending} error={remove.error} calls={[callOf("/policies/{name}", "delete", { path: { name: removing } })]} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />}
    </>
  );
}

export function PolicyEditor() {
  const { name } = policyRoute.useParams();
  const isNew = name === NEW;
  const policy = useQuery({ queryKey: ["policies", name], queryFn: () => api("/policies/{name}", "get", { path: { name } }), retry: false, enabled: !isNew });
  if (isNew) return <Editor key="new" policy={null} />;
  if (policy.isPending) return <Loading />;
  if (policy.isError) return <><EditorHead title={name} /><Problem error={policy.error} /></>;
  return <Editor key={name} policy={policy.data} />;
}

function EditorHead({ title }: { title: string }) {
  const t = useT();
  return <Head title={title} about={<Link to="/policies" className="text-accent-text underline">{t.policies.all}</Link>} />;
}

function Editor({ policy }: { policy: Policy | null }) {
  const t = useT();
  const client = useQueryClient();
  const navigate = useNavigate();
  const may = useMay("admin:CreatePolicy");
  const [name, setName] = useState("");
  const stored = policy ? JSON.stringify(policy.document, null, 2) : EXAMPLE;
  const [text, setText] = useState(stored);
  const readOnly = may("admin:CreatePolicy") === false ? t.needs("admin:CreatePolicy") : policy?.built_in ? t.policies.builtInStays : undefined;
  const called = policy?.name ?? name;
  const save = useMutation({
    mutationFn: () => api("/policies/{name}", "put", { path: { name: called }, body: JSON.parse(text) as never }),
    onSuccess: async () => {
      toast(t.saved);
      await client.invalidateQueries({ queryKey: ["policies"] });
      void navigate({ to: "/policies" });
    },
  });
  const because = readOnly ?? (called === "" ? t.nameFirst : jsonProblem(text) ? t.json.fix : policy && text === stored ? t.unchanged : undefined);
  return (
    <>
      <EditorHead title={policy?.name ?? t.policies.create} />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-[minmax(0,1fr)_18rem]">
        <Card>
          <form className="flex flex-col gap-4 p-4 sm:p-5" onSubmit={(e) => { e.preventDefault(); if (!because) save.mutate(); }}>
            {!policy && <Field label={t.name}>{(p) => <Input {...p} autoFocus autoComplete="off" spellCheck={false} value={name} onChange={(e) => setName(e.target.value)} />}</Field>}
            <JsonEditor policy label={t.policies.document} value={text} onChange={setText} rows={20} readOnly={readOnly !== undefined} />
            {readOnly && <p className="text-sm text-soft">{readOnly}</p>}
            {!because && <CommandPreview calls={[callOf("/policies/{name}", "put", { path: { name: called }, body: JSON.parse(text) as never })]} />}
            {save.error && <Problem error={save.error} />}
            <div className="flex justify-end gap-2"><Button onClick={() => void navigate({ to: "/policies" })}>{t.cancel}</Button><Button type="submit" tone="primary" because={because} busy={save.isPending}>{t.save}</Button></div>
          </form>
        </Card>
        <div className="flex flex-col gap-4">
          {policy && (
            <Card title={t.policies.attachedTo}>
              <div className="flex flex-col gap-3 p-4 text-sm">
                <div><p className="mb-1 text-soft">{t.nav.users}</p><Names list={policy.users} none={t.policies.nobody} /></div>
                <div><p className="mb-1 text-soft">{t.nav.groups}</p><Names list={policy.groups} none={t.policies.nobody} /></div>
                <p className="text-xs text-soft">{t.policies.attachHint}</p>
              </div>
            </Card>
          )}
          <Card title={t.policies.help}><div className="space-y-2 p-4 text-sm leading-relaxed text-soft">{t.policies.helpText.map((line) => <p key={line}>{line}</p>)}</div></Card>
        </div>
      </div>
    </>
  );
}
