// The audit log: who did what, and how it was decided. The conditions are in the address, so that a search can be kept and
// sent. The server searches backwards and answers as much as it found in a moment; the page asks on until it has a page.
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { useEffect, useMemo, useState, type ReactNode } from "react";
import { api, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { auditRoute } from "../router";
import { Badge, Button, CopyBox, Empty, Field, Head, Input, Loading, Problem, Select, Spinner } from "../ui";
import { Icon } from "../ui/icons";
import { Facts } from "./object";

type Fields = { user?: string; access_key?: string; bucket?: string; key?: string; error?: string; kind?: string; decided_by?: string; user_agent?: string; version?: string; [name: string]: unknown };
type Record_ = Schemas["RequestRecord"] & Fields;
/** The conditions that are a text, as the server and the command name them. */
const TEXTS = ["user", "bucket", "prefix", "operation", "source", "access_key", "error", "request_id"] as const;
export const CONDITIONS = ["range", "since", "until", "status", "api", ...TEXTS] as const;
type Conditions = { [name in (typeof CONDITIONS)[number]]?: string };
const RANGES = { "1h": 3600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400 } as const;
const PAGE = 100;

export function Audit() {
  const t = useT();
  const f = useFormat();
  const search: Conditions = auditRoute.useSearch();
  // Every search has its own time, which all its pages share.
  const [asked, setAsked] = useState(() => Date.now());
  const query = useMemo(() => conditionsOf(search, asked), [search, asked]);
  const found = useInfiniteQuery({
    queryKey: ["audit", query],
    queryFn: ({ pageParam, signal }) => api("/audit", "get", { query: { ...query, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } as never, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => (page.complete ? null : page.cursor),
    placeholderData: keepPreviousData, retry: false, staleTime: Infinity,
  });
  const [stopped, setStopped] = useState(false);
  const records = useMemo(() => (found.data?.pages ?? []).flatMap((p) => p.records as Record_[]), [found.data]);
  const last = found.data?.pages.at(-1);
  const { hasNextPage, isFetching, isError, fetchNextPage } = found;
  // Old records take several requests to reach: an answer without records is no answer yet.
  const searching = hasNextPage && !stopped && !isError && last?.records.length === 0;
  useEffect(() => {
    if (searching && !isFetching) void fetchNextPage();
  }, [searching, isFetching, fetchNextPage]);
  const again = () => { setStopped(false); setAsked(Date.now()); };
  return (
    <>
      <Head title={t.nav.audit} about={t.audit.about} />
      <Filters key={JSON.stringify(search)} search={search} busy={isFetching} onSame={again} />
      {last && <Gaps nodes={last.nodes} />}
      {found.isPending ? <Loading /> : isError && records.length === 0 ? <Problem error={found.error} retry={again} /> : (
        <section aria-label={t.nav.audit} className={clsx("rounded-xl border bg-surface shadow-card", found.isPlaceholderData && "opacity-60")}>
          {records.length === 0 && !searching && !stopped ? (
            <Empty icon="search" title={t.audit.none} text={Object.keys(search).length === 0 ? t.audit.noneAtAll : t.audit.noneText} />
          ) : (
            <ul>{records.map((r) => <Row key={`${r.node} ${r.request_id} ${r.time}`} record={r} />)}</ul>
          )}
          <div className="num flex min-h-12 flex-wrap items-center gap-x-4 gap-y-2 border-t px-4 py-2 text-sm text-soft first:border-0">
            <span role="status" className="flex items-center gap-2">
              {isFetching && <Spinner />}
              {t.audit.shown(records.length, f.count(records.length))}
              {last?.searched_to && ` · ${t.audit.back(f.when(last.searched_to))}`}
              {!hasNextPage && last?.complete && records.length > 0 && ` · ${t.audit.end}`}
            </span>
            <span className="ml-auto flex gap-2">
              {searching && <Button onClick={() => setStopped(true)}>{t.audit.stop}</Button>}
              {hasNextPage && !searching && <Button busy={isFetching} onClick={() => { setStopped(false); void fetchNextPage(); }}>{t.audit.more}</Button>}
              {records.length > 0 && <Button tone="quiet" icon="download" onClick={() => save(records)}>{t.audit.save}</Button>}
            </span>
          </div>
        </section>
      )}
      {isError && records.length > 0 && <div className="mt-3"><Problem error={found.error} retry={() => void fetchNextPage()} /></div>}
      <div className="mt-6">
        <p className="mb-1.5 text-sm text-soft">{t.audit.command}</p>
        <CopyBox label={t.targets.command} text={command(search)} />
      </div>
    </>
  );
}

/** The query of a search: a range becomes a time. */
function conditionsOf(search: Conditions, now: number): Record<string, string> {
  const { range, ...rest } = search;
  const seconds = range ? RANGES[range as keyof typeof RANGES] : undefined;
  return { ...(rest as Record<string, string>), ...(seconds ? { since: new Date(now - seconds * 1000).toISOString() } : {}) };
}

/** The same search on the command line. */
function command(search: Conditions): string {
  const quoted = (v: string) => (/^[\w.:/@+-]+$/.test(v) ? v : `'${v.replaceAll("'", `'\\''`)}'`);
  const since = search.range ?? search.since;
  const all = [["since", since], ...Object.entries(search).filter(([n]) => n !== "range" && n !== "since")] as [string, string | undefined][];
  return ["ashlar admin audit search it", ...all.flatMap(([n, v]) => (v ? [`--${n.replaceAll("_", "-")} ${quoted(v)}`] : []))].join(" ");
}

function save(records: Record_[]) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([records.map((r) => JSON.stringify(r)).join("\n"), "\n"], { type: "application/x-ndjson" }));
  link.download = "audit.ndjson";
  link.click();
  URL.revokeObjectURL(link.href);
}

/** `YYYY-MM-DDTHH:MM` in the person's own time zone, as the field for it wants it. */
function localTime(iso: string | undefined): string {
  const at = iso ? new Date(iso) : null;
  return at && !Number.isNaN(at.getTime()) ? new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : "";
}

function Filters({ search, busy, onSame }: { search: Conditions; busy: boolean; onSame: () => void }) {
  const t = useT();
  const navigate = useNavigate({ from: auditRoute.fullPath });
  const [values, setValues] = useState<Conditions>(search);
  const [more, setMore] = useState(["source", "access_key", "error", "request_id", "api"].some((n) => search[n as keyof Conditions]));
  const period = values.range ?? (values.since || values.until ? "own" : "all");
  const [own, setOwn] = useState(period === "own");
  const filled = (v: Conditions) => Object.fromEntries(Object.entries(v).map(([n, x]) => [n, x?.trim()]).filter(([, x]) => x)) as Conditions;
  const go = (v: Conditions) => {
    const next = filled(v);
    if (JSON.stringify(next) === JSON.stringify(filled(search))) onSame();
    else void navigate({ search: next });
  };
  const set = (name: keyof Conditions, value: string) => setValues({ ...values, [name]: value });
  // A choice is made at once; what is typed is sent with the form.
  const choose = (next: Conditions) => { setValues(next); go(next); };
  const text = (name: (typeof TEXTS)[number], placeholder?: string) => (
    <Field label={t.audit.fields[name]}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" autoComplete="off" placeholder={placeholder} value={values[name] ?? ""} onChange={(e) => set(name, e.target.value)} />}</Field>
  );
  const time = (name: "since" | "until") => (
    <Field label={t.audit.fields[name]}>{(p) => <Input {...p} type="datetime-local" value={localTime(values[name])} onChange={(e) => set(name, e.target.value ? new Date(e.target.value).toISOString() : "")} />}</Field>
  );
  return (
    <form className="mb-4 rounded-xl border bg-surface p-3 shadow-card sm:p-4" onSubmit={(e) => { e.preventDefault(); go(values); }}>
      <div className="grid grid-cols-2 gap-3 md:grid-cols-3">
        <Field label={t.audit.fields.range}>
          {(p) => (
            <Select {...p} value={own ? "own" : period} onChange={(e) => {
              const { range: _, since: _s, until: _u, ...rest } = values;
              setOwn(e.target.value === "own");
              if (e.target.value === "own") setValues(rest);
              else choose(e.target.value === "all" ? rest : { ...rest, range: e.target.value });
            }}>
              <option value="all">{t.audit.ranges.all}</option>
              {(Object.keys(RANGES) as (keyof typeof RANGES)[]).map((r) => <option key={r} value={r}>{t.audit.ranges[r]}</option>)}
              <option value="own">{t.audit.ranges.own}</option>
            </Select>
          )}
        </Field>
        <Field label={t.audit.fields.status}>
          {(p) => (
            <Select {...p} value={values.status ?? ""} onChange={(e) => choose({ ...values, status: e.target.value })}>
              {[...new Set(["", "400-599", "2xx", "3xx", "403", "4xx", "5xx", values.status ?? ""])].map((s) => <option key={s} value={s}>{t.audit.statuses[(s || "all") as keyof typeof t.audit.statuses] ?? s}</option>)}
            </Select>
          )}
        </Field>
        {text("user")}
        {own && <>{time("since")}{time("until")}</>}
        {text("bucket")}
        {text("prefix")}
        {text("operation", "GetObject")}
        {more && (
          <>
            <Field label={t.audit.fields.api}>
              {(p) => <Select {...p} value={values.api ?? ""} onChange={(e) => choose({ ...values, api: e.target.value })}>{(["", "s3", "sts", "admin"] as const).map((a) => <option key={a} value={a}>{t.audit.apis[a || "all"]}</option>)}</Select>}
            </Field>
            {text("source", "10.0.0.0/8")}
            {text("access_key")}
            {text("error", "AccessDenied")}
            {text("request_id")}
          </>
        )}
      </div>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button type="submit" tone="primary" icon="search" busy={busy}>{t.search}</Button>
        <Button tone="quiet" aria-expanded={more} onClick={() => setMore(!more)}>{more ? t.audit.fewer : t.audit.moreFields}</Button>
        {Object.keys(search).length > 0 && <Button tone="quiet" onClick={() => { setOwn(false); choose({}); }}>{t.audit.clear}</Button>}
      </div>
    </form>
  );
}

/** What the search cannot know: nodes that do not answer, or that keep no file. */
function Gaps({ nodes }: { nodes: Schemas["SearchedNode"][] }) {
  const t = useT();
  const silent = nodes.flatMap((n) => (n.problem ? [n.problem] : []));
  const short = nodes.filter((n) => n.refusals_only === true);
  if (silent.length + short.length === 0) return null;
  const names = short.map((n) => (n.node === 0 ? t.thisServer : t.node(n.node))).join(", ");
  const note = (key: string, text: ReactNode) => <p key={key} role="status" className="mb-3 flex items-start gap-2 rounded-lg bg-warn-soft px-3.5 py-2.5 text-sm"><Icon name="warn" className="mt-0.5 size-4 text-warn" /><span>{text}</span></p>;
  return (
    <>
      {silent.length > 0 && note("silent", t.audit.silent(silent.join("; ")))}
      {short.length > 0 && note("short", t.audit.refusalsOnly(names))}
    </>
  );
}

/** What answers "who may do this" first. */
const FIRST = ["decided_by", "policy", "statement", "sid", "action", "error", "user", "access_key", "kind", "parent", "provider", "bucket", "key", "version", "ip", "user_agent"];
const place = (name: string) => { const i = FIRST.indexOf(name); return i < 0 ? FIRST.length : i; };
const SHOWN = new Set(["time", "request_id", "status", "operation", "node", "micros", "bytes_in", "bytes_out", "method", "door", "seq", "hash"]);

function Row({ record: r }: { record: Record_ }) {
  const t = useT();
  const f = useFormat();
  const [open, setOpen] = useState(false);
  const who = r.kind === "anonymous" ? t.audit.anonymous : r.user || r.access_key || t.audit.unknown;
  const target = [r.bucket, r.key].filter(Boolean).join("/");
  return (
    <li className="border-b last:border-0">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="num grid min-h-11 w-full grid-cols-[1rem_2.5rem_minmax(0,1fr)_auto] items-center gap-x-3 gap-y-0.5 px-3 py-1.5 text-left text-sm hover:bg-hover sm:px-4 md:grid-cols-[1rem_2.5rem_8.5rem_minmax(0,1fr)_9rem_8rem]">
        <Icon name="chevron" className={clsx("size-4 text-soft transition-transform", open && "rotate-90")} />
        <span><Badge tone={r.status >= 500 ? "bad" : r.status >= 400 ? "warn" : "good"}>{r.status}</Badge></span>
        <time dateTime={r.time} className="text-xs text-soft max-md:order-3 max-md:col-span-2 max-md:col-start-3">{f.exact(Date.parse(r.time))}<span className="md:hidden"> · {r.ip}</span></time>
        <span className="truncate"><b className="font-medium">{r.operation}</b> <span className="text-soft">{target}</span></span>
        <span className="max-w-28 truncate text-right md:max-w-none md:text-left" title={who}>{who}</span>
        <span className="truncate text-xs text-soft max-md:hidden" title={r.ip}>{r.ip}</span>
      </button>
      {open && <div className="border-t bg-sunken/60 px-4 py-3 sm:px-11"><Details record={r} /></div>}
    </li>
  );
}

function Details({ record: r }: { record: Record_ }) {
  const t = useT();
  const f = useFormat();
  const link = "text-accent-text underline";
  const known: [string, ReactNode][] = [
    [t.requestId, <a key="id" className={clsx("font-mono break-all", link)} href={`#/why?request=${r.request_id}`}>{r.request_id}</a>],
    [t.audit.when, f.full(r.time)],
    [t.audit.took, `${f.decimal(r.micros / 1000, r.micros < 10_000 ? 2 : 0)}\u00a0ms`],
    [t.trace.bytes, `${f.bytes(r.bytes_in)} / ${f.bytes(r.bytes_out)}`],
  ];
  if (r.node != null) known.push([t.why.fields.node, String(r.node)]);
  const value = (name: string, v: unknown): ReactNode => {
    const text = typeof v === "object" ? JSON.stringify(v) : String(v);
    if (name === "bucket") return <Link to="/buckets/$bucket" params={{ bucket: text }} className={link}>{text}</Link>;
    if (name === "key" && r.bucket && r.api === "s3") return <Link to="/buckets/$bucket" params={{ bucket: r.bucket }} search={{ ...(text.includes("/") ? { prefix: text.slice(0, text.lastIndexOf("/") + 1) } : {}), object: text }} className={clsx("break-all", link)}>{text}</Link>;
    if (name === "user") return <Link to="/audit" search={{ user: text }} className={clsx("break-all", link)} title={t.audit.allOf(text)}>{text}</Link>;
    if (name === "access_key") return <Link to="/audit" search={{ access_key: text }} className={clsx("font-mono break-all", link)} title={t.audit.allOf(text)}>{text}</Link>;
    if (name === "ip") return <Link to="/audit" search={{ source: text }} className={clsx("font-mono break-all", link)} title={t.audit.allOf(text)}>{text}</Link>;
    if (name === "policy") return <Link to="/policies/$name" params={{ name: text }} className={link}>{text}</Link>;
    return <code className="break-all">{text}</code>;
  };
  const rest = Object.entries(r).filter(([name, v]) => !SHOWN.has(name) && v !== "" && v !== null).sort(([a], [b]) => place(a) - place(b));
  return <Facts rows={[...known, ...rest.map(([name, v]): [string, ReactNode] => [t.why.fields[name as keyof typeof t.why.fields] ?? name, <span key={name}>{value(name, v)}</span>])]} />;
}
