// Requests per second while the screen is open: the server's counters, asked every few seconds. The server keeps no
// history yet, and the chart says so.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { api } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { usePrefs } from "../lib/prefs";
import { Loading, Problem } from ".";

const EVERY = 3000;
const KEEP = 200;

type Sample = { at: number; requests: number; errors: number };

export default function Rates() {
  const t = useT();
  const f = useFormat();
  const prefs = usePrefs();
  const [samples, setSamples] = useState<Sample[]>([]);
  const top = useQuery({ queryKey: ["top"], queryFn: ({ signal }) => api("/top", "get", { signal }), refetchInterval: EVERY, staleTime: 0, retry: false });
  useEffect(() => {
    if (!top.data) return;
    const { operations } = top.data;
    const requests = operations.reduce((n, o) => n + o.calls, 0);
    const errors = operations.reduce((n, o) => n + o.client_errors + o.server_errors, 0);
    setSamples((old) => [...old, { at: top.dataUpdatedAt / 1000, requests, errors }].slice(-KEEP));
  }, [top.data, top.dataUpdatedAt]);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const rates: [number[], number[], number[]] = [[], [], []];
  for (let i = 1; i < samples.length; i++) {
    const [a, b] = [samples[i - 1]!, samples[i]!];
    const seconds = b.at - a.at;
    if (seconds <= 0.2 || b.requests < a.requests) continue;
    rates[0].push(b.at);
    rates[1].push((b.requests - a.requests) / seconds);
    rates[2].push((b.errors - a.errors) / seconds);
  }
  const latest = useRef(rates);
  latest.current = rates;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--c-soft"), grid: { stroke: colour("--c-line"), width: 1 }, ticks: { show: false }, font: "12px Inter, sans-serif" };
    const chart = new uPlot({
      width: element.clientWidth, height: 200, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
      scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.15)] } },
      axes: [{ ...axis, values: (_, at) => at.map((s) => new Date(s * 1000).toLocaleTimeString(prefs.language, { hour: "2-digit", minute: "2-digit", second: "2-digit" })), space: 90 }, { ...axis, size: 48, values: (_, at) => at.map((n) => f.decimal(n)) }],
      series: [{}, { stroke: colour("--c-accent"), width: 2, fill: `${colour("--c-accent")}22`, points: { show: false } }, { stroke: colour("--c-bad"), width: 1.5, dash: [5, 4], points: { show: false } }],
    }, latest.current, element);
    plot.current = chart;
    const watch = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: 200 }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [prefs, f, top.isSuccess]);
  useEffect(() => plot.current?.setData(latest.current), [samples]);
  if (top.isPending) return <Loading />;
  if (top.isError) return <div className="p-4"><Problem error={top.error} /></div>;
  const now = rates[1].at(-1) ?? 0;
  const errors = rates[2].at(-1) ?? 0;
  return (
    <div className="px-4 py-3 sm:px-5">
      <div className="num mb-2 flex flex-wrap gap-x-6 gap-y-1 text-sm" aria-live="off">
        <span className="inline-flex items-center gap-2"><span className="h-0.5 w-4 rounded bg-accent" /><b className="font-semibold">{f.decimal(now)}</b> <span className="text-soft">{t.perSecond}</span></span>
        <span className="inline-flex items-center gap-2"><span className="w-4 border-t-2 border-dashed border-bad" /><b className="font-semibold">{f.decimal(errors)}</b> <span className="text-soft">{t.errorsPerSecond}</span></span>
        <span className="inline-flex items-center gap-2"><b className="font-semibold">{f.count(top.data.inflight)}</b> <span className="text-soft">{t.inFlight}</span></span>
      </div>
      <div ref={box} role="img" aria-label={t.rateChart(f.decimal(now))} className="h-[200px]" />
      <p className="mt-1 text-xs text-soft">{t.noHistory}</p>
    </div>
  );
}
