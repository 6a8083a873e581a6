// What lifecycle rules will do, by day, before they do it: also rules that are not stored yet. Nothing is changed.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { Badge, Dialog, Field, Loading, Problem, Select, Spinner } from "../ui";

const SPANS = [0, 7, 30, 90, 365, 3650] as const;
/** More days than this are shown as months. */
const DAYS = 31;
const EXAMPLES = 200;

type Sums = { expire: number; remove_versions: number; remove_markers: number; abort_uploads: number; bytes: number };
const NUMBERS = ["expire", "remove_versions", "remove_markers", "abort_uploads"] as const;
const none = (): Sums => ({ expire: 0, remove_versions: 0, remove_markers: 0, abort_uploads: 0, bytes: 0 });
const add = (to: Sums, of: Sums) => { for (const n of [...NUMBERS, "bytes" as const]) to[n] += of[n]; };

export function Simulator({ bucket, rules, onClose }: { bucket: string; rules: string[]; onClose: () => void }) {
  const t = useT();
  const f = useFormat();
  const [span, setSpan] = useState<number>(30);
  const [now] = useState(() => Date.now());
  const xml = `<LifecycleConfiguration>${rules.join("")}</LifecycleConfiguration>`;
  const until = `${new Date(now + span * 86_400_000).toISOString().slice(0, 19)}Z`;
  const found = useInfiniteQuery({
    queryKey: ["simulate", bucket, xml, until],
    queryFn: ({ pageParam, signal }) => api("/lifecycle/{bucket}/simulate", "post", { path: { bucket }, body: { rules: xml, until, examples: EXAMPLES, ...(pageParam ? { after: pageParam } : {}) } as never, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.after,
    retry: false,
  });
  // A large bucket takes several requests; each says how far it came.
  const { hasNextPage, isFetching, isError, fetchNextPage } = found;
  useEffect(() => {
    if (hasNextPage && !isFetching && !isError) void fetchNextPage();
  }, [hasNextPage, isFetching, isError, fetchNextPage]);
  const sum = useMemo(() => {
    const days = new Map<string, Sums>();
    const byRule = new Map<string, Sums>();
    const all = none();
    for (const page of found.data?.pages ?? []) {
      for (const rule of page.rules) {
        for (const day of rule.days) {
          for (const [map, key] of [[days, day.date], [byRule, rule.id]] as const) {
            if (!map.has(key)) map.set(key, none());
            add(map.get(key)!, day);
          }
          add(all, day);
        }
      }
    }
    const dates = [...days.keys()].sort();
    const months = dates.length > DAYS;
    const rows = new Map<string, Sums>();
    for (const date of dates) {
      const key = months ? date.slice(0, 7) : date;
      if (!rows.has(key)) rows.set(key, none());
      add(rows.get(key)!, days.get(date)!);
    }
    return { rows: [...rows], byRule: [...byRule], all, months };
  }, [found.data]);
  const pages = found.data?.pages ?? [];
  const looked = pages.reduce((n, p) => n + p.looked_at, 0);
  const locked = pages.reduce((n, p) => n + p.locked, 0);
  const examples = pages.flatMap((p) => p.examples).slice(0, EXAMPLES);
  const count = (s: Sums) => NUMBERS.reduce((n, name) => n + s[name], 0);
  const most = Math.max(1, ...sum.rows.map(([, s]) => count(s)));
  const words = (s: Sums) => NUMBERS.filter((n) => s[n] > 0).map((n) => t.simulator.did[n](s[n], f.count(s[n]))).join(" · ");
  const day = (key: string) => new Intl.DateTimeFormat(document.documentElement.lang, sum.months ? { year: "numeric", month: "long", timeZone: "UTC" } : { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" }).format(Date.parse(sum.months ? `${key}-01` : key));
  return (
    <Dialog open onClose={onClose} title={t.simulator.title(bucket)} wide>
      <div className="flex flex-col gap-4">
        <p className="text-sm text-soft">{t.simulator.about}</p>
        <div className="w-56"><Field label={t.simulator.span}>{(p) => <Select {...p} value={span} onChange={(e) => setSpan(Number(e.target.value))}>{SPANS.map((n) => <option key={n} value={n}>{t.simulator.spans[n]}</option>)}</Select>}</Field></div>
        {found.isPending ? <Loading /> : isError && pages.length === 0 ? <Problem error={found.error} retry={() => void found.refetch()} /> : (
          <>
            <div role="status" className="rounded-lg bg-sunken px-4 py-3">
              <p className="num font-semibold">{count(sum.all) === 0 ? t.simulator.nothing : `${words(sum.all)} · ${f.bytes(sum.all.bytes)}`}</p>
              <p className="num mt-0.5 flex items-center gap-2 text-xs text-soft">{isFetching && <Spinner className="size-3" />}{t.simulator.looked(looked, f.count(looked))}{locked > 0 && ` · ${t.simulator.locked(locked, f.count(locked))}`}</p>
            </div>
            {isError && <Problem error={found.error} retry={() => void fetchNextPage()} />}
            {sum.rows.length > 0 && (
              <section>
                <h3 className="mb-1.5 text-sm font-medium">{sum.months ? t.simulator.byMonth : t.simulator.byDay}</h3>
                <ul className="divide-y rounded-lg border text-sm">
                  {sum.rows.map(([key, s]) => (
                    <li key={key} className="num grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 gap-y-1 px-3 py-2 sm:grid-cols-[8.5rem_minmax(0,1fr)_5rem]">
                      <span className="font-medium whitespace-nowrap">{day(key)}</span>
                      <span className="min-w-0 max-sm:order-3 max-sm:col-span-2">
                        <span className="block h-2 overflow-hidden rounded-full bg-sunken" aria-hidden="true"><span className="block h-full rounded-full bg-accent" style={{ width: `${Math.max(1, (count(s) / most) * 100)}%` }} /></span>
                        <span className="text-xs text-soft">{words(s)}</span>
                      </span>
                      <span className="text-right whitespace-nowrap">{f.bytes(s.bytes)}</span>
                    </li>
                  ))}
                </ul>
              </section>
            )}
            {sum.byRule.length > 1 && (
              <section>
                <h3 className="mb-1.5 text-sm font-medium">{t.simulator.byRule}</h3>
                <ul className="divide-y rounded-lg border text-sm">{sum.byRule.map(([id, s]) => <li key={id} className="num flex flex-wrap justify-between gap-x-4 px-3 py-2"><span className="font-medium break-all">{id}</span><span className="text-soft">{words(s)} · {f.bytes(s.bytes)}</span></li>)}</ul>
              </section>
            )}
            {examples.length > 0 && (
              <section>
                <h3 className="mb-1.5 text-sm font-medium">{t.simulator.examples(f.count(examples.length))}</h3>
                <ul className="max-h-80 divide-y overflow-y-auto rounded-lg border text-sm" tabIndex={0} aria-label={t.simulator.examples(f.count(examples.length))}>
                  {examples.map((e) => (
                    <li key={`${e.key} ${e.version_id}`} className="num flex items-center gap-3 px-3 py-1.5">
                      <span className="min-w-0 flex-1"><span className="block truncate" title={e.key}>{e.key}</span><span className="block text-xs text-soft">{t.simulator.will[e.action as keyof typeof t.simulator.will]} · {f.when(e.at)}{rules.length > 1 && ` · ${e.rule}`}</span></span>
                      {e.locked && <Badge tone="warn" icon="lock">{t.simulator.isLocked}</Badge>}
                      <span className="text-soft whitespace-nowrap">{f.bytes(e.size)}</span>
                    </li>
                  ))}
                </ul>
              </section>
            )}
          </>
        )}
      </div>
    </Dialog>
  );
}
