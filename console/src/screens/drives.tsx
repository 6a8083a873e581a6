// Drives, the servers that have them, and healing.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Fragment, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useRate } from "../lib/rate";
import { useMay } from "../lib/session";
import { Badge, Button, Card, Confirm, Head, Loading, Meter, Problem, toast } from "../ui";
import { useConfirmation } from "../ui/confirm";
import { Menu } from "../ui/menu";
import { Bays, Ledger, commonCommitMs, slowness } from "./drive_map";
import { ChangeLimits, useLimitRows } from "./heal_limits";
import { Facts } from "./object";
import { DriveBadge, VerdictCard, judge } from "./overview";

type Drive = Schemas["DriveState"];
type Order = { drive: Drive; what: "offline" | "online" | "replace" };

const bodyOf = (drive: Drive) => ({ drive: drive.path, ...(drive.node != null ? { node: drive.node } : {}) });

export function Drives() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const may = useMay("admin:Heal", "admin:Decommission", "admin:HealLimits");
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  const [order, setOrder] = useState<Order | null>(null);
  const info = useQuery({ queryKey: ["info"], queryFn: ({ signal }) => api("/info", "get", { signal }), refetchInterval: 5000 });
  const heal = useQuery({ queryKey: ["heal"], queryFn: ({ signal }) => api("/heal", "get", { signal }), refetchInterval: 5000, retry: false });
  const limits = useQuery({ queryKey: ["heal-limits"], queryFn: ({ signal }) => api("/heal/limits", "get", { signal }), refetchInterval: 15_000, retry: false }).data;
  const limitRows = useLimitRows(limits);
  const rate = useRate(heal.data?.shards, heal.dataUpdatedAt);
  const { ensure, dialog } = useConfirmation();
  const carry = useMutation({
    mutationFn: async ({ drive, what }: Order) => (what !== "replace" || await ensure()) && api(`/drives/${what}`, "post", { body: bodyOf(drive) as never }),
    onSuccess: (carried) => { if (carried !== false) { toast(t.done); setOrder(null); } },
    onSettled: () => client.invalidateQueries({ queryKey: ["info"] }),
  });
  const scrub = useMutation({
    mutationFn: () => api("/heal", "post", { body: { deep: true } as never }),
    onSuccess: () => { toast(t.scrub.started); void client.invalidateQueries({ queryKey: ["heal"] }); },
    onError: (e) => toast(e.message, "bad"),
  });
  if (info.isPending) return <><Head title={t.nav.drives} /><Loading /></>;
  if (info.isError) return <><Head title={t.nav.drives} /><Problem error={info.error} retry={() => void info.refetch()} /></>;
  const d = info.data;
  const nodes = d.nodes ?? [];
  const servers = nodes.length > 0 ? nodes.map((n) => ({ node: n.node, title: t.node(n.node), info: n })) : [{ node: null, title: t.thisServer, info: null }];
  const h = heal.data;
  const common = commonCommitMs(d.drives);
  return (
    <>
      <Head title={t.nav.drives} about={t.drives.about(d.code, d.reads_tolerate, d.writes_tolerate)}>
        <Button icon="refresh" busy={scrub.isPending || h?.running === true} because={because("admin:Heal")} onClick={() => scrub.mutate()}>{h?.running ? t.scrub.running : t.scrub.start}</Button>
      </Head>
      <VerdictCard verdict={judge(d, t)} />
      {servers.map((server) => {
        const drives = d.drives.filter((x) => (x.node ?? null) === server.node);
        return (
          <section key={server.title} className="mt-6" aria-label={server.title}>
            <div className="mb-2.5 flex flex-wrap items-baseline gap-x-3 gap-y-1">
              <h2 className="font-semibold">{server.title}</h2>
              {server.info ? (
                <span className="num flex flex-wrap items-center gap-2 text-xs text-soft">
                  <code>{server.info.endpoint}</code> {t.version(server.info.version)} {server.info.uptime_s != null && t.uptime(f.duration(server.info.uptime_s))}
                  {server.info.problem && <Badge tone="bad" icon="bad">{server.info.problem}</Badge>}
                </span>
              ) : <span className="num text-xs text-soft">{t.uptime(f.duration(d.uptime_s))}</span>}
              <span className="num ml-auto text-xs text-soft">{t.drives.count(drives.length)}</span>
            </div>
            <Bays drives={drives} />
            <ul className="grid grid-cols-1 gap-3 sm:grid-cols-2 xl:grid-cols-3">
              {drives.map((x) => {
                const slow = slowness(x, common);
                const used = x.capacity != null && x.free != null ? (x.capacity - x.free) / x.capacity : null;
                return (
                  <li key={x.id} id={`drive-${x.id}`} tabIndex={-1} className="rounded-xl border bg-surface p-4 shadow-card">
                    <div className="flex items-start justify-between gap-2">
                      <code className="min-w-0 pt-1 text-sm font-medium wrap-anywhere">{x.path.split("/").map((part, i) => <Fragment key={i}>{i > 0 && <>/<wbr /></>}{part}</Fragment>)}</code>
                      <Menu label={t.actionsFor(x.path)} items={[
                        x.state === "offline" || x.state === "held"
                          ? { label: t.drives.online, icon: "check", because: because("admin:Decommission"), onSelect: () => setOrder({ drive: x, what: "online" }) }
                          : { label: t.drives.offline, icon: "close", because: because("admin:Decommission"), onSelect: () => setOrder({ drive: x, what: "offline" }) },
                        { label: t.drives.replace, icon: "refresh", danger: true, because: because("admin:Heal"), onSelect: () => setOrder({ drive: x, what: "replace" }) },
                      ]} />
                    </div>
                    <div className="mt-1 flex flex-wrap gap-1.5"><DriveBadge state={x.state} />{slow !== null && common !== null && <Badge tone="warn" icon="warn">{t.drives.slow(f.decimal(slow), `${f.decimal(common)} ms`)}</Badge>}</div>
                    {x.problem && <p className="mt-2 text-sm text-bad">{x.problem}</p>}
                    {used !== null && x.capacity != null && x.free != null && (
                      <div className="mt-3">
                        <Meter value={used} label={t.capacity} tone={used > 0.95 ? "bad" : used > 0.9 ? "warn" : "accent"} />
                        <p className="num mt-1 text-xs text-soft">{t.usedOf(f.bytes(x.capacity - x.free), f.bytes(x.capacity))}</p>
                      </div>
                    )}
                    {x.rebuild && (
                      <div className="mt-3">
                        <Meter value={x.rebuild.total_bytes > 0 ? x.rebuild.done_bytes / x.rebuild.total_bytes : 0} label={t.drives.rebuild} />
                        <p className="num mt-1 text-xs text-soft">{t.drives.rebuild}: {f.bytes(x.rebuild.done_bytes)} / {f.bytes(x.rebuild.total_bytes)} · {t.rebuildEta(x.rebuild.eta_s == null ? null : f.duration(x.rebuild.eta_s))}{x.rebuild.eta_s ? ` · ${f.bytes((x.rebuild.total_bytes - x.rebuild.done_bytes) / x.rebuild.eta_s)}/s` : ""}</p>
                      </div>
                    )}
                    <p className="num mt-2 text-xs text-soft">{t.drives.work(f.count(x.reads ?? 0), f.count(x.writes ?? 0), x.commit_ms == null ? "–" : `${f.decimal(x.commit_ms)} ms`)}{x.read_errors ? <span className="text-bad"> · {t.drives.errors(x.read_errors)}</span> : null}</p>
                  </li>
                );
              })}
            </ul>
          </section>
        );
      })}
      <Ledger info={d} />
      <Card title={t.healing} className="mt-6" actions={limits && <ChangeLimits limits={limits} because={because("admin:HealLimits")} />}>
        <div className="p-4 sm:px-5">
          {heal.isError ? <Problem error={heal.error} /> : !h ? <Loading /> : (
            <Facts rows={[
              [t.scrub.queue, f.count(h.queued)],
              [t.scrub.healed, t.scrub.healedText(f.count(h.records), f.count(h.shards))],
              [t.scrub.rate, rate === null ? t.scrub.measuring : t.scrub.rateText(f.decimal(rate * 60))],
              ...limitRows,
              [t.scrub.lost, <span key="l" className={h.lost > 0 ? "font-medium text-bad" : ""}>{f.count(h.lost)}</span>],
              [t.scrub.last, h.last_full_scrub ? t.scrub.lastText(f.when(h.last_full_scrub.began_ms), f.bytes(h.last_full_scrub.bytes), f.count(h.last_full_scrub.damaged), f.duration(h.last_full_scrub.took_ms / 1000)) : t.neverVerified],
            ]} />
          )}
        </div>
      </Card>
      {h && h.damages.length > 0 && (
        <Card title={t.scrub.damages} className="mt-4">
          <ul className="divide-y">
            {[...h.damages].reverse().slice(0, 50).map((x, i) => (
              <li key={i} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm sm:px-5">
                <Badge tone={x.repaired ? "good" : "warn"}>{x.repaired ? t.scrub.repaired : t.scrub.waiting}</Badge>
                <span className="min-w-0 break-all">{x.bucket}/{x.key}</span> <span className="text-soft">{x.what} · {x.path}</span> <span className="num ml-auto text-xs text-soft">{f.when(x.at_ms)}</span>
              </li>
            ))}
          </ul>
        </Card>
      )}
      {order && (
        <Confirm title={t.drives[order.what]} action={t.drives[order.what]} {...(order.what === "replace" ? { typed: order.drive.path } : {})} busy={carry.isPending} error={carry.error} calls={[callOf(`/drives/${order.what}`, "post", { body: bodyOf(order.drive) as never })]}
          text={<><p>{t.drives[`${order.what}Text`]}</p><code className="mt-2 block break-all">{order.drive.path}</code></>} onConfirm={() => carry.mutate(order)} onClose={() => { setOrder(null); carry.reset(); }} />
      )}
      {dialog}
    </>
  );
}
