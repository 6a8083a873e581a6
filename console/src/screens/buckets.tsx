// All buckets, and the creation of one.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api } from "../api/client";
import { createBucket, deleteBucket, listBuckets, putVersioning } from "../api/s3";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { Button, Confirm, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, Toggle, toast } from "../ui";
import { Menu } from "../ui/menu";
import { DataTable, type Column } from "../ui/table";

type Row = { name: string; created: string; bytes: number | null; objects: number | null };

export function Buckets() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const navigate = useNavigate();
  const may = useMay("s3:CreateBucket", "s3:ListAllMyBuckets");
  const [creating, setCreating] = useState(false);
  const [removing, setRemoving] = useState<string | null>(null);
  const buckets = useQuery({ queryKey: ["buckets"], queryFn: listBuckets });
  // Sizes come after the list: they need another permission, and may take longer.
  const usage = useQuery({ queryKey: ["usage"], queryFn: ({ signal }) => api("/usage", "get", { query: { brief: true }, signal }), retry: false, enabled: buckets.isSuccess });
  const remove = useMutation({
    mutationFn: (name: string) => deleteBucket(name),
    onSuccess: (_, name) => {
      toast(t.buckets.removed(name));
      setRemoving(null);
      void client.invalidateQueries({ queryKey: ["buckets"] });
    },
  });
  const rows = useMemo<Row[]>(() => {
    const sizes = new Map((usage.data?.buckets ?? []).map((b) => [b.bucket, b]));
    return (buckets.data ?? []).map((b) => ({ ...b, bytes: sizes.get(b.name)?.bytes ?? null, objects: sizes.get(b.name)?.objects ?? null }));
  }, [buckets.data, usage.data]);
  const columns = useMemo<Column<Row>[]>(() => [
    { accessorKey: "name", header: t.name, cell: ({ row }) => <Link to="/buckets/$bucket" params={{ bucket: row.original.name }} className="font-medium hover:underline">{row.original.name}</Link> },
    { accessorKey: "objects", header: t.objects, meta: { className: "text-right num max-sm:hidden" }, cell: ({ getValue }) => (getValue() === null ? "–" : f.count(getValue())) },
    { accessorKey: "bytes", header: t.size, meta: { className: "text-right num whitespace-nowrap" }, cell: ({ getValue }) => (getValue() === null ? "–" : f.bytes(getValue())) },
    { accessorKey: "created", header: t.created, meta: { className: "text-soft whitespace-nowrap max-md:hidden num" }, cell: ({ getValue }) => f.when(getValue()) },
    {
      id: "menu", header: t.actions, enableSorting: false, meta: { className: "w-0 text-right" },
      cell: ({ row: { original: b } }) => (
        <Menu label={t.actionsFor(b.name)} items={[
          { label: t.browse, icon: "folder", onSelect: () => void navigate({ to: "/buckets/$bucket", params: { bucket: b.name } }) },
          { label: t.settings, icon: "settings", onSelect: () => void navigate({ to: "/buckets/$bucket/settings", params: { bucket: b.name } }) },
          null,
          { label: t.remove, icon: "trash", danger: true, onSelect: () => setRemoving(b.name) },
        ]} />
      ),
    },
  ], [t, f, navigate]);
  const denied = may("s3:CreateBucket") === false ? t.needs("s3:CreateBucket") : undefined;
  const create = <Button tone="primary" icon="plus" because={denied} onClick={() => setCreating(true)}>{t.buckets.create}</Button>;
  return (
    <>
      <Head title={t.nav.buckets} about={t.buckets.about}>{rows.length > 0 && create}</Head>
      {buckets.isPending ? <Loading /> : buckets.isError ? <Problem error={buckets.error} retry={() => void buckets.refetch()} /> : (
        <DataTable data={rows} columns={columns} label={t.nav.buckets} filter={t.buckets.filter} sort={[{ id: "name", desc: false }]}
          empty={<Empty icon="bucket" title={t.buckets.none} text={t.buckets.noneText}>{create}</Empty>} />
      )}
      {usage.isError && rows.length > 0 && <p className="mt-3 text-xs text-soft">{t.buckets.noSizes}</p>}
      {creating && <CreateBucket onClose={() => setCreating(false)} />}
      {removing && (
        <Confirm title={t.buckets.removeTitle(removing)} text={t.buckets.removeText} action={t.remove} typed={removing} busy={remove.isPending} error={remove.error}
          onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />
      )}
    </>
  );
}

function CreateBucket({ onClose }: { onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [versions, setVersions] = useState(false);
  const [lock, setLock] = useState(false);
  const bad = name !== "" && !/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) ? t.buckets.badName : undefined;
  const create = useMutation({
    mutationFn: async () => {
      await createBucket(name, lock);
      if (versions && !lock) await putVersioning(name, true);
    },
    onSuccess: () => {
      toast(t.buckets.made(name));
      void client.invalidateQueries({ queryKey: ["buckets"] });
      void navigate({ to: "/buckets/$bucket", params: { bucket: name } });
    },
  });
  return (
    <Dialog open onClose={onClose} title={t.buckets.create}>
      <Form onSubmit={() => create.mutate()} onCancel={onClose} submit={t.create} busy={create.isPending} error={create.error} because={name === "" ? t.nameFirst : bad}>
        <Field label={t.name} hint={t.buckets.nameHint} error={bad}>{(p) => <Input {...p} autoFocus autoComplete="off" spellCheck={false} autoCapitalize="none" value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        <Toggle label={t.versioning.title} hint={t.versioning.hint} checked={versions || lock} disabled={lock} onChange={setVersions} />
        <Toggle label={t.lock.title} hint={t.lock.hint} checked={lock} onChange={setLock} />
      </Form>
    </Dialog>
  );
}
