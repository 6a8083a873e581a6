// What the server measured: requests, throughput, errors, latency, capacity. The server keeps it itself; nothing else has
// to be set up.
import clsx from "clsx";
import { useMemo, useState } from "react";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useHistory, type History } from "../lib/history";
import { Button, Card, Loading, Problem } from "../ui";
import { Chart, type Series } from "../ui/chart";
import { Icon } from "../ui/icons";

const RANGES = [3600, 86_400, 7 * 86_400, 30 * 86_400, 400 * 86_400] as const;
/** Rows of the table. */
const ROWS = 24;

export default function HistoryCard() {
  const t = useT();
  const [seconds, setSeconds] = useState<number>(RANGES[0]);
  const [table, setTable] = useState(false);
  const found = useHistory(seconds);
  return (
    <Card
      title={t.history.title}
      actions={
        <span className="flex items-center gap-2">
          <span role="group" aria-label={t.history.range} className="flex gap-0.5 rounded-lg bg-sunken p-0.5">
            {RANGES.map((r, i) => (
              <button key={r} type="button" aria-pressed={r === seconds} onClick={() => setSeconds(r)} className={clsx("h-7 rounded-md px-2 text-xs font-medium max-lg:h-9", r === seconds ? "bg-surface text-accent-text shadow-card ring-1 ring-line-strong/40" : "text-soft hover:text-text")}>{t.history.ranges[i]}</button>
            ))}
          </span>
          <Button tone="quiet" aria-pressed={table} className="max-sm:hidden" onClick={() => setTable(!table)}>{table ? t.history.charts : t.history.table}</Button>
        </span>
      }
    >
      {found.isPending ? <Loading /> : found.isError ? <div className="p-4"><Problem error={found.error} retry={() => void found.refetch()} /></div> : (
        <>
          <Missing history={found.data} />
          {table ? <Table seconds={seconds} /> : <Charts history={found.data} seconds={seconds} />}
        </>
      )}
    </Card>
  );
}

/** Which nodes have no part in the sums. */
function Missing({ history }: { history: History }) {
  const problems = (history.nodes ?? []).flatMap((n) => (n.problem ? [n.problem] : []));
  const t = useT();
  if (problems.length === 0) return null;
  return (
    <p role="status" className="flex items-start gap-2 border-b bg-warn-soft px-4 py-2 text-sm sm:px-5"><Icon name="warn" className="mt-0.5 size-4 text-warn" /> {t.history.without(problems.join("; "))}</p>
  );
}

function Charts({ history: h, seconds }: { history: History; seconds: number }) {
  const t = useT();
  const f = useFormat();
  // What was before the first start is left out, so that the charts are full a minute after it.
  const first = Math.max(0, h.reads.findIndex((v) => v != null));
  const times = useMemo(() => h.reads.map((_, i) => h.from_ms / 1000 + h.step_s * (i + 1)).slice(first), [h, first]);
  const lists = useMemo(() => {
    const add = (a: number | null, b: number | null | undefined) => (a === null && b == null ? null : (a ?? 0) + (b ?? 0));
    const rest = h.lists.map((v, i) => add(add(v ?? null, h.deletes[i]), h.others[i]));
    const used = h.capacity_bytes.map((all, i) => (all == null || h.free_bytes[i] == null ? null : all - h.free_bytes[i]!));
    const line = (label: string, values: (number | null | undefined)[], n: number, more: Partial<Series> = {}): Series => ({ label, values: values.slice(first).map((v) => v ?? null), colour: `--c-series-${n}`, ...more });
    return {
      requests: [line(t.history.reads, h.reads, 1, { fill: true }), line(t.history.writes, h.writes, 2), line(t.history.rest, rest, 3, { dash: true })],
      bytes: [line(t.history.in, h.bytes_in, 2), line(t.history.out, h.bytes_out, 1, { fill: true })],
      errors: [line(t.history.client, h.client_errors, 3), line(t.history.server, h.server_errors, 5, { fill: true })],
      latency: [line(t.history.median, h.median_ms, 1, { span: true }), line("p99", h.p99_ms, 4, { dash: true, span: true })],
      capacity: [line(t.history.used, used, 1, { fill: true }), line(t.history.all, h.capacity_bytes, 3, { dash: true })],
    };
  }, [h, t, first]);
  const total = lists.requests.reduce((n, s) => n + (s.values.findLast((v) => v !== null) ?? 0), 0);
  const perSecond = (n: number) => t.history.perSecond(f.decimal(n, n < 10 ? 2 : 0));
  const bytes = (n: number) => t.history.perSecond(f.bytes(n));
  const time = (n: number) => (n >= 1000 ? `${f.decimal(n / 1000)}\u00a0s` : `${f.decimal(n, n < 10 ? 1 : 0)}\u00a0ms`);
  const clock = seconds <= 86_400;
  if (h.reads.filter((v) => v != null).length < 2) return <p role="status" className="px-5 py-12 text-center text-sm text-soft">{t.history.soon}</p>;
  return (
    <div className="grid grid-cols-1 gap-x-8 gap-y-6 p-4 sm:px-5 md:grid-cols-2">
      <Chart title={t.history.requests} label={t.rateChart(f.decimal(total))} times={times} series={lists.requests} show={perSecond} clock={clock} />
      <Chart title={t.history.bytes} label={t.history.chartOf(t.history.bytes)} times={times} series={lists.bytes} show={bytes} clock={clock} binary />
      <Chart title={t.history.latency} label={t.history.chartOf(t.history.latency)} times={times} series={lists.latency} show={time} clock={clock} />
      <Chart title={t.history.errors} label={t.history.chartOf(t.history.errors)} times={times} series={lists.errors} show={perSecond} clock={clock} />
      <div className="md:col-span-2"><Chart title={t.capacity} label={t.history.chartOf(t.capacity)} times={times} series={lists.capacity} show={f.bytes} clock={clock} binary /></div>
    </div>
  );
}

function Table({ seconds }: { seconds: number }) {
  const t = useT();
  const f = useFormat();
  const found = useHistory(seconds, ROWS);
  if (!found.data) return found.isError ? <div className="p-4"><Problem error={found.error} /></div> : <Loading />;
  const h = found.data;
  const rows = h.reads.map((_, i) => i).filter((i) => h.reads[i] != null).reverse();
  const rate = (list: (number | null)[], i: number) => f.decimal(list[i] ?? 0, 2);
  const ms = (v: number | null | undefined) => (v == null ? "–" : `${f.decimal(v)}\u00a0ms`);
  return (
    <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={t.history.title}>
      <table className="num w-full text-sm whitespace-nowrap">
        <thead className="text-left text-xs text-soft">
          <tr>{[t.history.from, `${t.history.reads}/s`, `${t.history.writes}/s`, `${t.history.lists}/s`, `${t.history.deletes}/s`, "4xx/s", "5xx/s", `${t.history.in}/s`, `${t.history.out}/s`, t.history.median, "p99", t.history.used].map((name) => <th key={name} scope="col" className="border-b px-3 py-2 font-medium">{name}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((i) => (
            <tr key={i} className="border-b last:border-0">
              <th scope="row" className="px-3 py-1.5 text-left font-normal">{f.when(h.from_ms + h.step_s * 1000 * i)}</th>
              {[rate(h.reads, i), rate(h.writes, i), rate(h.lists, i), rate(h.deletes, i), rate(h.client_errors, i), rate(h.server_errors, i), f.bytes(h.bytes_in[i] ?? 0), f.bytes(h.bytes_out[i] ?? 0), ms(h.median_ms[i]), ms(h.p99_ms[i]), h.capacity_bytes[i] == null ? "–" : f.bytes(h.capacity_bytes[i]! - (h.free_bytes[i] ?? 0))].map((text, n) => <td key={n} className="px-3 py-1.5">{text}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
