// The overview: is it well, in words; how full it is; what it protects against; what happens now.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, type ReactNode } from "react";
import { api, type Schemas } from "../api/client";
import { useT, type Messages } from "../i18n";
import { useFormat } from "../lib/format";
import { useHistory } from "../lib/history";
import { Badge, Card, Empty, Head, Loading, Meter, Problem } from "../ui";
import { Icon } from "../ui/icons";

const HistoryCard = lazy(() => import("./history"));

type Info = Schemas["Info"];
export type Verdict = { tone: "good" | "warn" | "bad"; title: string; points: { text: string; to?: string }[] };

/** What the state of the deployment means, the worst first. */
export function judge(info: Info, t: Messages): Verdict {
  const points: Verdict["points"] = [];
  const away = info.drives.filter((d) => d.state !== "online" && d.state !== "joining");
  const joining = info.drives.filter((d) => d.state === "joining" || d.rebuild);
  const nodes = (info.nodes ?? []).filter((n) => !n.running || n.problem);
  if (!info.readable) points.push({ text: t.health.unreadable });
  if (!info.writable) points.push({ text: t.health.unwritable });
  if (info.heal.lost > 0) points.push({ text: t.health.lost(info.heal.lost), to: "/drives" });
  if (nodes.length > 0) points.push({ text: t.health.nodes(nodes.map((n) => n.node).join(", ")), to: "/drives" });
  if (away.length > 0) points.push({ text: t.health.drives(away.length, info.drives.length), to: "/drives" });
  const spare = Math.min(...info.groups.map((g) => g.spare));
  if (away.length > 0 && info.groups.length > 0) points.push({ text: t.health.spare(Math.max(0, spare)) });
  if (joining.length > 0) points.push({ text: t.health.rebuilding(joining.length), to: "/drives" });
  if (!info.control.writable) points.push({ text: t.health.control });
  const full = info.capacity.usable > 0 && info.capacity.usable_free / info.capacity.usable < 0.1;
  if (full) points.push({ text: t.health.full });
  if (!info.readable || !info.writable || info.heal.lost > 0) return { tone: "bad", title: info.readable ? t.health.badWrites : t.health.badReads, points };
  if (points.length > 0) return { tone: "warn", title: t.health.degraded, points };
  return { tone: "good", title: t.health.good, points: [{ text: t.health.goodText(info.reads_tolerate, info.writes_tolerate) }] };
}

export function Overview() {
  const t = useT();
  const f = useFormat();
  const info = useQuery({ queryKey: ["info"], queryFn: ({ signal }) => api("/info", "get", { signal }), refetchInterval: 10_000 });
  const usage = useQuery({ queryKey: ["usage", "largest"], queryFn: ({ signal }) => api("/usage", "get", { query: { sort: "bytes", descending: true, limit: 6, brief: true }, signal }), refetchInterval: 60_000, retry: false });
  if (info.isPending) return <><Head title={t.nav.overview} /><Loading /></>;
  if (info.isError) {
    return (
      <>
        <Head title={t.nav.overview} />
        <Problem error={info.error} retry={() => void info.refetch()} />
        <p className="mt-4 text-sm text-soft">{t.overviewDenied} <Link className="text-accent-text underline" to="/buckets">{t.nav.buckets}</Link></p>
      </>
    );
  }
  const d = info.data;
  const verdict = judge(d, t);
  const used = d.capacity.usable - d.capacity.usable_free;
  const share = d.capacity.usable > 0 ? used / d.capacity.usable : 0;
  const online = d.drives.filter((x) => x.state === "online").length;
  const largest = usage.data?.buckets ?? [];
  const rebuild = d.heal.rebuilds[0];
  return (
    <>
      <Head title={t.nav.overview} />
      <VerdictCard verdict={verdict} />
      <div className="mt-4 grid grid-cols-1 gap-4 sm:grid-cols-2 xl:grid-cols-4">
        <Tile title={t.capacity} value={f.percent(share)} about={<>{t.usedOf(f.bytes(used), f.bytes(d.capacity.usable))} <Forecast /></>}>
          <Meter value={share} label={t.capacity} tone={share > 0.95 ? "bad" : share > 0.9 ? "warn" : "accent"} />
        </Tile>
        <Tile title={t.stored} value={d.usage.complete ? f.bytes(d.usage.bytes) : t.counting} about={t.objectsIn(f.count(d.usage.objects), d.usage.objects, f.count(d.buckets), d.buckets)} />
        <Tile title={t.nav.drives} value={t.countOf(f.count(online), f.count(d.drives.length))} about={t.protection(d.data_shards, d.parity_shards)} />
        <Tile
          title={t.healing}
          value={rebuild ? f.percent(rebuild.total_bytes > 0 ? Math.min(1, rebuild.done_bytes / rebuild.total_bytes) : 0) : d.heal.queued > 0 ? f.count(d.heal.queued) : t.healIdle}
          about={rebuild ? t.rebuildEta(rebuild.eta_s == null ? null : f.duration(rebuild.eta_s)) : d.heal.queued > 0 ? t.healQueued : d.heal.last_full_scrub ? t.verified(f.when(d.heal.last_full_scrub.began_ms)) : t.neverVerified}
        />
      </div>
      <div className="mt-4 flex flex-col gap-4">
        <Suspense fallback={<Card title={t.history.title}><Loading /></Card>}><HistoryCard /></Suspense>
        <Card title={t.largestBuckets}>
          {usage.isError ? <div className="p-4"><Problem error={usage.error} /></div> : largest.length === 0 ? (
            <Empty icon="bucket" title={t.buckets.none} text={t.buckets.noneText}><Link to="/buckets" className="text-sm font-medium text-accent-text underline">{t.buckets.create}</Link></Empty>
          ) : (
            <ul className="divide-y">
              {largest.map((b) => (
                <li key={b.bucket} className="px-4 py-2.5 sm:px-5">
                  <div className="flex justify-between gap-3 text-sm">
                    <Link to="/buckets/$bucket" params={{ bucket: b.bucket }} className="truncate font-medium hover:underline">{b.bucket}</Link>
                    <span className="num text-soft">{f.bytes(b.bytes)}</span>
                  </div>
                  <div className="mt-1.5"><Meter value={d.usage.bytes > 0 ? b.bytes / d.usage.bytes : 0} label={t.shareOf(b.bucket)} /></div>
                </li>
              ))}
            </ul>
          )}
        </Card>
      </div>
      <p className="num mt-5 text-xs text-soft">
        {t.deployment} <code className="break-all">{d.deployment}</code> · {t.version(d.version)} · {t.uptime(f.duration(d.uptime_s))}
      </p>
    </>
  );
}

/** When the drives are full if it goes on as in the last weeks. Nothing until there is a day to judge by. */
function Forecast() {
  const t = useT();
  const f = useFormat();
  const forecast = useHistory(3600).data?.forecast;
  if (!forecast || forecast.bytes_per_day === 0) return null;
  const size = f.bytes(Math.abs(forecast.bytes_per_day));
  const change = forecast.bytes_per_day > 0 ? t.history.grows(size) : t.history.shrinks(size);
  const full = forecast.full_ms == null ? null : t.history.full(f.duration((forecast.full_ms - Date.now()) / 1000));
  return <span>· {change}{full && <b className="font-semibold">, {full}</b>}</span>;
}

export function VerdictCard({ verdict }: { verdict: Verdict }) {
  const tones = { good: "border-good/30 bg-good-soft", warn: "border-warn/30 bg-warn-soft", bad: "border-bad/30 bg-bad-soft" };
  const inks = { good: "text-good", warn: "text-warn", bad: "text-bad" };
  return (
    <section aria-live="polite" className={`flex gap-4 rounded-xl border p-4 sm:p-5 ${tones[verdict.tone]}`}>
      <Icon name={verdict.tone} className={`size-8 ${inks[verdict.tone]}`} />
      <div className="min-w-0">
        <h2 className="text-lg leading-tight font-semibold">{verdict.title}</h2>
        <ul className="mt-1 text-sm">
          {verdict.points.map((p) => <li key={p.text}>{p.to ? <Link to={p.to} className="underline underline-offset-2">{p.text}</Link> : p.text}</li>)}
        </ul>
      </div>
    </section>
  );
}

function Tile({ title, value, about, children }: { title: string; value: ReactNode; about: ReactNode; children?: ReactNode }) {
  return (
    <section className="rounded-xl border bg-surface p-4 shadow-card sm:px-5">
      <h2 className="text-sm text-soft">{title}</h2>
      <p className="num mt-1 mb-1.5 text-2xl font-semibold tracking-tight">{value}</p>
      {children}
      <p className="mt-1.5 text-xs text-soft">{about}</p>
    </section>
  );
}

export function DriveBadge({ state }: { state: string }) {
  const t = useT();
  const tone = state === "online" ? "good" : state === "joining" ? "accent" : state === "read-only" || state === "unknown" ? "warn" : "bad";
  return <Badge tone={tone} icon={tone === "good" ? "good" : tone === "accent" ? "refresh" : tone}>{t.driveState[state as keyof typeof t.driveState] ?? state}</Badge>;
}
