// Event targets: where bucket notifications go, how they get there, and what could not be delivered.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { useMemo, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { Badge, Button, Card, Confirm, CopyBox, Empty, Head, Loading, Problem, toast } from "../ui";
import { Icon } from "../ui/icons";
import { Menu } from "../ui/menu";
import { DataTable, type Column } from "../ui/table";

type Target = Schemas["EventTarget"];
type Letter = Schemas["DeadLetter"];
type Order = { target: string; what: "replay" | "remove"; id?: string };

export function Targets() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const may = useMay("admin:ConfigUpdate");
  const because = may("admin:ConfigUpdate") === false ? t.needs("admin:ConfigUpdate") : undefined;
  const [order, setOrder] = useState<Order | null>(null);
  const targets = useQuery({ queryKey: ["events"], queryFn: ({ signal }) => api("/events", "get", { signal }), refetchInterval: 5000, retry: false });
  const letters = useQuery({ queryKey: ["dead-letters"], queryFn: ({ signal }) => api("/dead-letters", "get", { signal }), refetchInterval: 15_000, retry: false, enabled: may("admin:ConfigUpdate") === true });
  const carry = useMutation({
    mutationFn: ({ target, what, id }: Order) => what === "replay"
      ? api("/dead-letters/{name}/replay", "post", { path: { name: target } })
      : api("/dead-letters/{name}", "delete", { path: { name: target }, ...(id ? { query: { id } as never } : {}) }),
    onSuccess: ({ count }, { what }) => { toast(what === "replay" ? t.targets.replayed(count) : t.targets.removed(count)); setOrder(null); },
    onSettled: () => Promise.all([client.invalidateQueries({ queryKey: ["events"] }), client.invalidateQueries({ queryKey: ["dead-letters"] })]),
  });
  const columns = useMemo<Column<Letter>[]>(() => [
    { accessorKey: "at_ms", header: t.targets.when, meta: { className: "num whitespace-nowrap" }, cell: ({ getValue }) => f.when(getValue()) },
    { accessorKey: "target", header: t.targets.target, cell: ({ getValue }) => <code className="break-all">{getValue()}</code> },
    { id: "event", accessorFn: (l) => (l.event ? `${l.event.name} ${l.event.bucket}/${l.event.key}` : ""), header: t.targets.event, cell: ({ row: { original: l } }) => (l.event ? <span className="break-all">{l.event.bucket}/{l.event.key} <span className="text-xs text-soft">{l.event.name}</span></span> : t.targets.lostEvents(l.lost, f.count(l.lost))) },
    { accessorKey: "why", header: t.targets.why, meta: { className: "text-soft max-md:hidden" }, cell: ({ getValue }) => <span className="break-words">{getValue()}</span> },
    { id: "menu", header: t.actions, enableSorting: false, meta: { className: "w-0" }, cell: ({ row: { original: l } }) => <Menu label={t.actionsFor(l.id)} items={[{ label: t.remove, icon: "trash", danger: true, onSelect: () => setOrder({ target: l.target, what: "remove", id: l.id }) }]} /> },
  ], [t, f]);
  return (
    <>
      <Head title={t.nav.targets} about={t.targets.about}><Link to="/settings" className="inline-flex h-9 items-center gap-2 rounded-md border border-line-strong/45 bg-surface px-3 text-sm font-medium hover:bg-hover"><Icon name="plus" /> {t.config.add}</Link></Head>
      {targets.isPending ? <Loading /> : targets.isError ? <Problem error={targets.error} retry={() => void targets.refetch()} /> : targets.data.targets.length === 0 ? (
        <Card><Empty icon="bell" title={t.targets.none} text={t.targets.noneText} /><div className="mx-auto -mt-8 max-w-2xl px-4 pb-10"><CopyBox label={t.targets.command} text="ashlar admin config set it notify_webhook:1 endpoint=https://receiver.example/events" /></div></Card>
      ) : (
        <ul className="grid grid-cols-1 gap-3 lg:grid-cols-2">
          {targets.data.targets.map((x) => <li key={x.id}><TargetCard target={x} letters={letters.data?.letters.some((l) => l.target === x.id) === true} because={because} onOrder={setOrder} /></li>)}
        </ul>
      )}
      {targets.data && targets.data.targets.length > 0 && (
        <section className="mt-6">
          <h2 className="mb-2.5 font-semibold">{t.targets.dead}</h2>
          <p className="mb-3 max-w-2xl text-sm text-soft">{t.targets.deadAbout}</p>
          {because ? <p className="text-sm text-soft">{because}</p> : letters.isError ? <Problem error={letters.error} retry={() => void letters.refetch()} /> : !letters.data ? <Loading /> : (
            <DataTable data={letters.data.letters} columns={columns} label={t.targets.dead} filter={t.targets.filter} empty={<Empty icon="check" title={t.targets.noDead} text={t.targets.noDeadText} />} />
          )}
        </section>
      )}
      {order && (
        <Confirm
          title={order.what === "replay" ? t.targets.replayTitle(order.target) : order.id ? t.targets.removeOneTitle : t.targets.removeTitle(order.target)} text={order.what === "replay" ? t.targets.replayText : t.targets.removeText}
          action={order.what === "replay" ? t.targets.replay : t.remove} busy={carry.isPending} error={carry.error}
          calls={[order.what === "replay" ? callOf("/dead-letters/{name}/replay", "post", { path: { name: order.target } }) : callOf("/dead-letters/{name}", "delete", { path: { name: order.target }, ...(order.id ? { query: { id: order.id } as never } : {}) })]} onConfirm={() => carry.mutate(order)} onClose={() => { setOrder(null); carry.reset(); }}
        />
      )}
    </>
  );
}

/** `letters`: whether there are dead letters. The number of `target` is of this process only. */
function TargetCard({ target: x, letters, because, onOrder }: { target: Target; letters: boolean; because: string | undefined; onOrder: (order: Order) => void }) {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const mayTest = useMay("admin:TestEventTarget");
  const test = useMutation({
    mutationFn: () => api("/events/{name}/test", "post", { path: { name: x.id } }),
    onSettled: () => client.invalidateQueries({ queryKey: ["events"] }),
  });
  const numbers: [string, number, boolean][] = [[t.targets.waiting, x.lag, false], [t.targets.sent, x.sent, false], [t.targets.failed, x.failed, x.failed > 0], [t.targets.deadCount, x.dead, x.dead > 0], [t.targets.lost, x.lost, x.lost > 0]];
  return (
    <article className="h-full rounded-xl border bg-surface p-4 shadow-card">
      <div className="flex items-start justify-between gap-3">
        <h2 className="min-w-0"><span className="font-semibold break-all">{x.id}</span></h2>
        {x.online && x.sent + x.failed === 0 ? <Badge>{t.targets.unused}</Badge> : <Badge tone={x.online ? "good" : "bad"} icon={x.online ? "good" : "bad"}>{x.online ? t.targets.online : t.targets.offline}</Badge>}
      </div>
      {x.problem && <p className="mt-1 text-sm text-bad">{x.problem}</p>}
      <dl className="num mt-3 grid grid-cols-3 gap-x-4 gap-y-2 text-sm sm:grid-cols-5">
        {numbers.map(([label, n, bad]) => <div key={label}><dt className="text-xs text-soft">{label}</dt><dd className={bad ? "font-medium text-warn" : ""}>{f.count(n)}</dd></div>)}
      </dl>
      <div className="mt-3"><CopyBox text={x.arn} label="ARN" /></div>
      {test.data && (
        <p role="status" className={clsx("mt-3 flex items-start gap-2 rounded-md px-3 py-2 text-sm", test.data.accepted ? "bg-good-soft" : "bg-bad-soft")}>
          <Icon name={test.data.accepted ? "good" : "bad"} className={clsx("mt-0.5 size-4", test.data.accepted ? "text-good" : "text-bad")} />
          <span className="min-w-0 break-words">{test.data.accepted ? t.targets.accepted(f.count(test.data.took_ms)) : t.targets.refused(test.data.problem ?? "")}</span>
        </p>
      )}
      {test.error && <div className="mt-3"><Problem error={test.error} /></div>}
      <div className="mt-3 flex flex-wrap gap-2">
        <Button icon="bell" because={mayTest("admin:TestEventTarget") === false ? t.needs("admin:TestEventTarget") : undefined} busy={test.isPending} onClick={() => test.mutate()}>{t.targets.test}</Button>
        {letters && <Button icon="refresh" because={because} onClick={() => onOrder({ target: x.id, what: "replay" })}>{t.targets.replay}</Button>}
        {letters && <Button tone="quiet" icon="trash" because={because} onClick={() => onOrder({ target: x.id, what: "remove" })}>{t.targets.removeAll}</Button>}
      </div>
    </article>
  );
}
