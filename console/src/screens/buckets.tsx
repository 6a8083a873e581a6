// All buckets, and the creation of one.
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { Failure, api } from "../api/client";
import { copySettings } from "../api/copy_settings";
import { calls, createBucket, deleteBucket, getLock, listBuckets, listBucketsAfter, putVersioning } from "../api/s3";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { Button, Confirm, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, Toggle, toast } from "../ui";
import { useConfirmation } from "../ui/confirm";
import { Menu } from "../ui/menu";
import { DataTable, type Column, type View } from "../ui/table";

type Row = { name: string; created: string | number; bytes: number | null; objects: number | null };

/** Rows of a page, as `DataTable` has them. */
const PAGE = 100;

/** The value, some time after it has changed last. */
function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

export function Buckets() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const navigate = useNavigate();
  const may = useMay("s3:CreateBucket");
  const [creating, setCreating] = useState(false);
  const [removing, setRemoving] = useState<string | null>(null);
  const [view, setView] = useState<View>({ text: "", sorting: [{ id: "name", desc: false }], page: 0 });
  const text = useSettled(view.text.trim().toLowerCase(), 200);
  const order = view.sorting[0];
  // The server sorts, searches and sends one page, with sizes.
  const asked = { contains: text, sort: (order?.id ?? "name") as "name", descending: order?.desc ?? false, offset: view.page * PAGE, limit: PAGE, brief: true };
  const page = useQuery({
    queryKey: ["buckets", "page", asked], queryFn: ({ signal }) => api("/usage", "get", { query: asked, signal }),
    placeholderData: keepPreviousData,
    retry: (count, error) => count < 2 && !(error instanceof Failure && error.status === 403),
  });
  // Whoever may not see sizes gets the buckets that S3 lists for them: the first ones at once, then the rest.
  const isDenied = page.error instanceof Failure && page.error.status === 403;
  const first = useQuery({ queryKey: ["buckets", "first"], queryFn: ({ signal }) => listBuckets(1000, null, signal), enabled: isDenied });
  const next = first.data?.next ?? null;
  const rest = useQuery({ queryKey: ["buckets", "rest", next], queryFn: ({ signal }) => listBucketsAfter(next, signal), enabled: isDenied && next !== null });
  const { ensure, dialog } = useConfirmation();
  const remove = useMutation({
    mutationFn: async (name: string) => {
      const sure = await ensure();
      if (sure) await deleteBucket(name);
      return sure;
    },
    onSuccess: (removed, name) => {
      if (!removed) return;
      toast(t.buckets.removed(name));
      setRemoving(null);
      void client.invalidateQueries({ queryKey: ["buckets"] });
    },
  });
  const rows = useMemo<Row[]>(() => {
    if (!isDenied) return (page.data?.buckets ?? []).map((b) => ({ name: b.bucket, created: b.created_ms, bytes: b.bytes, objects: b.objects }));
    return [...(first.data?.buckets ?? []), ...(rest.data ?? [])].map((b) => ({ ...b, bytes: null, objects: null }));
  }, [isDenied, page.data, first.data, rest.data]);
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
  const list = isDenied ? first : page;
  const all = isDenied ? rows.length : (page.data?.existing ?? 0);
  const empty = <Empty icon="bucket" title={t.buckets.none} text={t.buckets.noneText}>{create}</Empty>;
  const paged = { view, onView: setView, found: page.data?.matching ?? 0, all, busy: page.isFetching };
  return (
    <>
      <Head title={t.nav.buckets} about={t.buckets.about}>{all > 0 && create}</Head>
      {list.isPending ? <Loading /> : list.isError ? <Problem error={list.error} retry={() => void list.refetch()} /> : (
        isDenied
          ? <DataTable key="whole" data={rows} columns={columns} label={t.nav.buckets} filter={t.buckets.filter} sort={[{ id: "name", desc: false }]} empty={empty} />
          : <DataTable key="paged" data={rows} columns={columns} label={t.nav.buckets} filter={t.buckets.filter} paged={paged} empty={empty} />
      )}
      {isDenied && rest.isError && <div className="mt-3"><Problem error={rest.error} retry={() => void rest.refetch()} /></div>}
      {isDenied && rows.length > 0 && <p className="mt-3 text-xs text-soft">{t.buckets.noSizes}</p>}
      {creating && <CreateBucket onClose={() => setCreating(false)} />}
      {removing && (
        <Confirm title={t.buckets.removeTitle(removing)} text={t.buckets.removeText} action={t.remove} typed={removing} busy={remove.isPending} error={remove.error} calls={[calls.deleteBucket(removing)]}
          onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />
      )}
      {dialog}
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
  const [from, setFrom] = useState("");
  const like = useSettled(from.trim(), 200);
  const known = useQuery({ queryKey: ["buckets", "like", like], queryFn: ({ signal }) => api("/usage", "get", { query: { contains: like, limit: 20, brief: true }, signal }), retry: false, placeholderData: keepPreviousData });
  const bad = name !== "" && !/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) ? t.buckets.badName : undefined;
  const create = useMutation({
    mutationFn: async () => {
      // Object lock is chosen when a bucket is made; a bucket that does not exist ends it here.
      const locked = from !== "" && (await getLock(from)) !== null;
      await createBucket(name, lock || locked);
      if (versions && !lock) await putVersioning(name, true);
      return from === "" ? [] : copySettings(from, name);
    },
    onSuccess: (failed) => {
      if (failed.length === 0) toast(t.buckets.made(name));
      else toast(t.buckets.notCopied(name, failed.map((x) => `${x.what}: ${x.why}`).join("; ")), "bad");
      void client.invalidateQueries({ queryKey: ["buckets"] });
      void navigate({ to: "/buckets/$bucket", params: { bucket: name } });
    },
  });
  return (
    <Dialog open onClose={onClose} title={t.buckets.create}>
      <Form onSubmit={() => create.mutate()} onCancel={onClose} submit={t.create} busy={create.isPending} error={create.error} because={name === "" ? t.nameFirst : bad} calls={from === "" && name !== "" && !bad ? [calls.createBucket(name, lock), ...(versions && !lock ? [calls.versioning(name, true)] : [])] : []}>
        <Field label={t.name} hint={t.buckets.nameHint} error={bad}>{(p) => <Input {...p} autoFocus autoComplete="off" spellCheck={false} autoCapitalize="none" value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        <Toggle label={t.versioning.title} hint={t.versioning.hint} checked={versions || lock} disabled={lock} onChange={setVersions} />
        <Toggle label={t.lock.title} hint={t.lock.hint} checked={lock} onChange={setLock} />
        <Field label={t.buckets.copyFrom} hint={t.buckets.copyHint}>
          {(p) => <><Input {...p} list={`${p.id}-known`} autoComplete="off" spellCheck={false} autoCapitalize="none" value={from} onChange={(e) => setFrom(e.target.value.trim())} /><datalist id={`${p.id}-known`}>{(known.data?.buckets ?? []).map((b) => <option key={b.bucket} value={b.bucket} />)}</datalist></>}
        </Field>
      </Form>
    </Dialog>
  );
}
