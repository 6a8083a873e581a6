// Requests as they end, and where their time went.
import clsx from "clsx";
import { useRef, useState } from "react";
import type { Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useStream } from "../lib/stream";
import { useWindow } from "../lib/window";
import { Badge, Dialog, Empty, Field, Head, Input, Select, Toggle } from "../ui";
import { StreamBanner, StreamControls } from "../ui/stream";
import { Facts } from "./object";

type Event = Schemas["TraceEvent"];
const KEEP = 2000;
const ROW = 44;
const PARTS = [["body_micros", 2], ["drives_micros", 1], ["server_micros", 3], ["answer_micros", 4]] as const;

export function Trace() {
  const t = useT();
  const f = useFormat();
  const [errors, setErrors] = useState(false);
  const [slower, setSlower] = useState("0");
  const [bucket, setBucket] = useState("");
  const [operation, setOperation] = useState("");
  const [open, setOpen] = useState<Event | null>(null);
  const query = new URLSearchParams();
  if (errors) query.set("errors", "true");
  if (slower !== "0") query.set("slower_ms", slower);
  // A name that is half typed matches nothing: it is sent when it is left.
  const [sent, setSent] = useState({ bucket: "", operation: "" });
  if (sent.bucket) query.set("bucket", sent.bucket);
  if (sent.operation) query.set("operation", sent.operation);
  const stream = useStream<Event>({ url: `trace?${query}`, keep: KEEP });
  const commit = () => setSent({ bucket: bucket.trim(), operation: operation.trim() });
  return (
    <>
      <Head title={t.nav.trace} about={t.trace.about}><StreamControls stream={stream} /></Head>
      <StreamBanner stream={stream} />
      <form className="mb-4 grid grid-cols-2 items-end gap-3 rounded-xl sm:flex sm:flex-wrap border bg-surface p-3 shadow-card sm:px-4" onSubmit={(e) => { e.preventDefault(); commit(); }}>
        <div className="sm:w-44"><Field label={t.trace.bucket}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" value={bucket} onChange={(e) => setBucket(e.target.value)} onBlur={commit} />}</Field></div>
        <div className="sm:w-44"><Field label={t.trace.operation}>{(p) => <Input {...p} spellCheck={false} placeholder="GetObject" value={operation} onChange={(e) => setOperation(e.target.value)} onBlur={commit} />}</Field></div>
        <div className="sm:w-36"><Field label={t.trace.slower}>{(p) => <Select {...p} value={slower} onChange={(e) => setSlower(e.target.value)}>{["0", "10", "100", "500", "1000", "5000"].map((ms) => <option key={ms} value={ms}>{ms === "0" ? t.trace.any : `${f.count(Number(ms))} ms`}</option>)}</Select>}</Field></div>
        <div className="pb-1.5"><Toggle label={t.trace.errorsOnly} checked={errors} onChange={setErrors} /></div>
        <button type="submit" className="sr-only">{t.search}</button>
      </form>
      {stream.state !== "refused" && (
        <section className="rounded-xl border bg-surface shadow-card" aria-label={t.nav.trace}>
          <div className="num flex flex-wrap items-center gap-x-4 gap-y-1 border-b px-4 py-2 text-xs text-soft">
            <span role="status">{t.trace.shown(stream.rows.length, f.count(stream.rows.length))}{stream.skipped > 0 && ` · ${t.stream.skipped(f.count(stream.skipped))}`}</span>
            <Legend />
          </div>
          {stream.rows.length === 0 ? <Empty icon="history" title={t.trace.none} text={t.trace.noneText} /> : <Rows events={stream.rows} onOpen={setOpen} />}
        </section>
      )}
      {open && <Details event={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function Rows({ events, onOpen }: { events: Event[]; onOpen: (event: Event) => void }) {
  const t = useT();
  const scroll = useRef<HTMLDivElement>(null);
  const view = useWindow(scroll, events.length, ROW);
  return (
    <div ref={scroll} className="h-[62dvh] overflow-y-auto" tabIndex={0} role="region" aria-label={t.trace.list}>
      <ul className="relative" style={{ height: view.height }}>
        {events.slice(view.first, view.end).map((event, i) => (
          <li key={view.first + i} className="absolute inset-x-0 top-0" style={{ height: ROW, transform: `translateY(${(view.first + i) * ROW}px)` }}>
            <Row event={event} onOpen={onOpen} />
          </li>
        ))}
      </ul>
    </div>
  );
}

const tone = (status: number) => (status >= 500 ? "bad" : status >= 400 ? "warn" : "good");
const ms = (micros: number, f: ReturnType<typeof useFormat>) => `${f.decimal(micros / 1000, micros < 10_000 ? 2 : 0)}\u00a0ms`;
const clock = (at: number) => { const d = new Date(at); return `${d.toTimeString().slice(0, 8)}.${String(d.getMilliseconds()).padStart(3, "0")}`; };

function Row({ event: e, onOpen }: { event: Event; onOpen: (event: Event) => void }) {
  const f = useFormat();
  if (e.kind === "cluster") return <p className="flex h-11 items-center gap-3 border-b bg-warn-soft px-4 text-sm"><span className="num text-xs text-soft">{clock(e.time_ms)}</span> {e.error}</p>;
  return (
    <button type="button" onClick={() => onOpen(e)} className="num flex h-11 w-full items-center gap-3 border-b px-4 text-left text-sm hover:bg-hover">
      <span className="w-22 shrink-0 text-xs text-soft max-sm:hidden">{clock(e.time_ms)}</span>
      <span className="w-10 shrink-0"><Badge tone={tone(e.status)}>{e.status}</Badge></span>
      <span className="min-w-0 flex-1 truncate"><b className="font-medium">{e.operation}</b> <span className="text-soft">{e.path}</span></span>
      {e.node != null && <span className="w-8 shrink-0 text-xs text-soft max-md:hidden">#{e.node}</span>}
      <span className="w-28 shrink-0 max-md:hidden"><Bar event={e} /></span>
      <span className="w-16 shrink-0 text-right">{ms(e.micros, f)}</span>
    </button>
  );
}

/** Where the time of a request went, as parts of one line. */
function Bar({ event: e }: { event: Event }) {
  const all = Math.max(1, PARTS.reduce((n, [name]) => n + e[name], 0));
  return (
    <span className="flex h-2 overflow-hidden rounded-full bg-sunken" aria-hidden="true">
      {PARTS.map(([name, colour]) => <span key={name} style={{ width: `${(e[name] / all) * 100}%`, background: `var(--c-series-${colour})` }} />)}
    </span>
  );
}

function Legend() {
  const t = useT();
  return (
    <span className="flex flex-wrap gap-x-3 gap-y-1 max-md:hidden">
      {PARTS.map(([name, colour]) => <span key={name} className="inline-flex items-center gap-1.5"><span aria-hidden="true" className="size-2.5 rounded-sm" style={{ background: `var(--c-series-${colour})` }} /> {t.trace.parts[name]}</span>)}
    </span>
  );
}

function Details({ event: e, onClose }: { event: Event; onClose: () => void }) {
  const t = useT();
  const f = useFormat();
  return (
    <Dialog open onClose={onClose} title={`${e.operation} ${e.path}`} wide>
      <div className="flex flex-col gap-4">
        <div>
          <Bar event={e} />
          <ul className="num mt-2 grid grid-cols-2 gap-x-6 gap-y-1 text-sm sm:grid-cols-4">
            {PARTS.map(([name, colour]) => <li key={name}><span className="flex items-center gap-1.5 text-xs text-soft"><span aria-hidden="true" className="size-2.5 rounded-sm" style={{ background: `var(--c-series-${colour})` }} /> {t.trace.parts[name]}</span> {ms(e[name], f)}</li>)}
          </ul>
        </div>
        <Facts rows={[
          [t.trace.status, <span key="s" className={clsx(e.status >= 400 && "font-medium text-bad")}>{e.status} {e.error}{e.cut && ` · ${t.trace.cut}`}</span>],
          [t.trace.total, t.trace.totalText(ms(e.micros, f), ms(e.first_byte_micros, f))],
          [t.trace.bytes, `${f.bytes(e.bytes_in)} / ${f.bytes(e.bytes_out)}`],
          [t.trace.request, <code key="r" className="break-all">{e.method} {e.path}{e.query && `?${e.query}`}</code>],
          [t.requestId, <a key="i" className="font-mono break-all underline" href={`#/why?request=${e.request_id}`}>{e.request_id}</a>],
          [t.login.accessKey, e.access_key || t.trace.nobody],
          [t.why.fields.ip, e.client],
          [t.why.fields.user_agent, <span key="u" className="break-all">{e.user_agent}</span>],
          [t.trace.arrived, f.full(e.time_ms)],
          ...(e.node == null ? [] : [[t.why.fields.node, String(e.node)] as [string, string]]),
        ]} />
      </div>
    </Dialog>
  );
}
