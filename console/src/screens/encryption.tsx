// Keys that encrypt objects at rest: whether they work, new ones, new versions.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { Badge, Button, Confirm, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, toast } from "../ui";
import { Icon } from "../ui/icons";
import { Menu } from "../ui/menu";
import { DataTable, type Column } from "../ui/table";

type Key = Schemas["EncryptionKey"];
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export function Encryption() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const may = useMay("admin:KMSCreateKey");
  const because = may("admin:KMSCreateKey") === false ? t.needs("admin:KMSCreateKey") : undefined;
  const [creating, setCreating] = useState(false);
  const [rotating, setRotating] = useState<string | null>(null);
  const status = useQuery({ queryKey: ["kms-status"], queryFn: ({ signal }) => api("/kms/status", "get", { signal }), refetchInterval: 30_000, retry: false });
  const configured = status.data !== undefined && status.data.driver !== "";
  const keys = useQuery({ queryKey: ["kms-keys"], queryFn: ({ signal }) => api("/kms/keys", "get", { signal }), retry: false, enabled: configured });
  const rotate = useMutation({
    mutationFn: (name: string) => api("/kms/keys/{name}/rotate", "post", { path: { name } }),
    onSuccess: (key) => { toast(t.kms.rotated(key.name, key.version)); setRotating(null); void client.invalidateQueries({ queryKey: ["kms-keys"] }); },
  });
  const columns = useMemo<Column<Key>[]>(() => [
    { accessorKey: "name", header: t.name, cell: ({ row: { original: k } }) => <span className="font-medium break-all">{k.name} {k.default && <Badge tone="accent">{t.kms.default}</Badge>}</span> },
    { accessorKey: "version", header: t.versionId, meta: { className: "num" }, cell: ({ getValue }) => (getValue() === 0 ? "–" : f.count(getValue())) },
    { accessorKey: "created_ms", header: t.created, meta: { className: "num text-soft whitespace-nowrap max-sm:hidden" }, cell: ({ getValue }) => (getValue() === 0 ? "–" : f.when(getValue())) },
    { id: "menu", header: t.actions, enableSorting: false, meta: { className: "w-0" }, cell: ({ row: { original: k } }) => <Menu label={t.actionsFor(k.name)} items={[{ label: t.kms.rotate, icon: "refresh", because, onSelect: () => setRotating(k.name) }]} /> },
  ], [t, f, because]);
  const create = <Button tone="primary" icon="plus" because={because} onClick={() => setCreating(true)}>{t.kms.create}</Button>;
  return (
    <>
      <Head title={t.nav.encryption} about={t.kms.about}>{keys.data && keys.data.keys.length > 0 && create}</Head>
      {status.isPending ? <Loading /> : status.isError ? <Problem error={status.error} retry={() => void status.refetch()} /> : !configured ? (
        <div className="rounded-xl border bg-surface shadow-card"><Empty icon="lock" title={t.kms.off} text={t.kms.offText} /></div>
      ) : (
        <>
          <section className={`mb-4 flex gap-4 rounded-xl border p-4 ${status.data.works ? "border-good/30 bg-good-soft" : "border-bad/30 bg-bad-soft"}`} aria-live="polite">
            <Icon name={status.data.works ? "good" : "bad"} className={`size-7 ${status.data.works ? "text-good" : "text-bad"}`} />
            <div className="min-w-0 text-sm">
              <h2 className="font-semibold">{status.data.works ? t.kms.works : t.kms.broken}</h2>
              <p>{t.kms.source(t.kms.drivers[status.data.driver as keyof typeof t.kms.drivers] ?? status.data.driver, status.data.endpoint, status.data.default_key)}</p>
              {status.data.problem && <p className="mt-1 break-words">{status.data.problem}</p>}
            </div>
          </section>
          {keys.isError ? <Problem error={keys.error} retry={() => void keys.refetch()} /> : !keys.data ? <Loading /> : (
            <DataTable data={keys.data.keys} columns={columns} label={t.nav.encryption} filter={t.kms.filter} sort={[{ id: "name", desc: false }]} empty={<Empty icon="lock" title={t.kms.none} text={t.kms.noneText}>{create}</Empty>} />
          )}
        </>
      )}
      {creating && <CreateKey onClose={() => setCreating(false)} />}
      {rotating && <Confirm title={t.kms.rotateTitle(rotating)} text={t.kms.rotateText} action={t.kms.rotate} busy={rotate.isPending} error={rotate.error} calls={[callOf("/kms/keys/{name}/rotate", "post", { path: { name: rotating } })]} onConfirm={() => rotate.mutate(rotating)} onClose={() => { setRotating(null); rotate.reset(); }} />}
    </>
  );
}

function CreateKey({ onClose }: { onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const create = useMutation({
    mutationFn: () => api("/kms/keys/{name}", "put", { path: { name } }),
    onSuccess: () => { toast(t.kms.made(name)); void client.invalidateQueries({ queryKey: ["kms-keys"] }); onClose(); },
  });
  return (
    <Dialog open onClose={onClose} title={t.kms.create}>
      <Form onSubmit={() => create.mutate()} onCancel={onClose} submit={t.create} busy={create.isPending} error={create.error} because={NAME.test(name) ? undefined : t.kms.nameHint} calls={NAME.test(name) ? [callOf("/kms/keys/{name}", "put", { path: { name } })] : []}>
        <Field label={t.name} hint={t.kms.nameHint}>{(p) => <Input {...p} autoFocus autoComplete="off" spellCheck={false} autoCapitalize="none" value={name} onChange={(e) => setName(e.target.value)} />}</Field>
      </Form>
    </Dialog>
  );
}
