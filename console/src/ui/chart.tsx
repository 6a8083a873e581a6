// A chart of values over time: lines with a legend that shows the latest values, or those under the pointer. What it shows
// is also in a table (see `history`), for who cannot see lines.
import clsx from "clsx";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { useFormat } from "../lib/format";
import { usePrefs } from "../lib/prefs";

/** `span`: a value that is missing between two others is none that was not measured, so that the line goes on. */
export type Series = { label: string; values: (number | null)[]; colour: string; dash?: boolean; fill?: boolean; span?: boolean };

const HEIGHT = 150;
/** Steps of an axis of bytes: round numbers are powers of two. */
const BINARY = Array.from({ length: 62 }, (_, i) => 2 ** i);

/** Labels of which each is there once: minutes, where the marks are seconds apart. */
const once = (labels: string[]) => labels.map((label, i) => (label === labels[i - 1] ? "" : label));

/** `times` are in seconds since 1970; `show` writes a value with its unit; `clock`: days are not shown; `binary`: of bytes. */
export function Chart({ title, label, times, series, show, clock, binary }: {
  title: string; label: string; times: number[]; series: Series[]; show: (value: number) => string; clock: boolean; binary?: boolean;
}) {
  const f = useFormat();
  const prefs = usePrefs();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const data = [times, ...series.map((s) => s.values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  const writes = useRef(show);
  writes.current = show;
  const shape = series.map((s) => `${s.colour}${s.dash}${s.fill}`).join();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--c-soft"), ticks: { show: false }, font: "11px Inter, sans-serif" };
    const grid = { stroke: colour("--c-line"), width: 1 };
    const chart = new uPlot({
      width: element.clientWidth, height: HEIGHT, legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "history" }, points: { size: 6 } },
      scales: { y: { range: (_, __, top) => [0, top > 0 ? top * 1.12 : 1] } },
      axes: [
        { ...axis, grid: { show: false }, size: 26, space: 80, values: (_, at) => once(at.map((s) => (clock ? f.clock(s * 1000) : f.day(s * 1000)))) },
        { ...axis, grid, size: 64, space: 34, ...(binary ? { incrs: BINARY } : {}), values: (_, at) => at.map((n) => writes.current(n)) },
      ],
      series: [{}, ...series.map((s) => ({ stroke: colour(s.colour), width: 1.75, points: { show: false }, spanGaps: s.span === true, ...(s.dash ? { dash: [5, 4] } : {}), ...(s.fill ? { fill: `${colour(s.colour)}22` } : {}) }))],
      hooks: { setCursor: [(u) => setAt(u.cursor.idx ?? null)] },
    }, latest.current, element);
    plot.current = chart;
    const watch = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      chart.destroy();
      plot.current = null;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [prefs, f, clock, binary, shape]);
  useEffect(() => plot.current?.setData(latest.current), [times, series]);
  const last = times.length - 1;
  const known = (values: (number | null)[]) => {
    for (let i = at ?? last; i >= 0; i--) {
      const value = values[i];
      if (value != null) return value;
      if (at !== null) return null;
    }
    return null;
  };
  return (
    <figure className="min-w-0">
      <figcaption className="mb-1">
        <span className="flex items-baseline justify-between gap-3 text-sm font-medium">{title} <span className="num text-xs font-normal text-soft">{at !== null && times[at] !== undefined && f.when(times[at] * 1000)}</span></span>
        <span className="num mt-0.5 flex flex-wrap gap-x-4 gap-y-0.5 text-xs text-soft">
          {series.map((s) => {
            const value = known(s.values);
            return (
              <span key={s.label} className="inline-flex items-center gap-1.5">
                <span aria-hidden="true" className={clsx("w-3.5 border-t-2", s.dash && "border-dashed")} style={{ borderColor: `var(${s.colour})` }} />
                {s.label} <b className="font-semibold text-text">{value === null ? "–" : show(value)}</b>
              </span>
            );
          })}
        </span>
      </figcaption>
      <div ref={box} role="img" aria-label={label} style={{ height: HEIGHT }} className="-ml-1" />
    </figure>
  );
}
