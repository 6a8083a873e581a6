// The server's log, of all nodes: the last lines, then those to come.
import { useState } from "react";
import type { Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useStream } from "../lib/stream";
import { Badge, Empty, Field, Head, Input, Select } from "../ui";
import { StreamBanner, StreamControls } from "../ui/stream";

type Line = Schemas["LogLine"];
const KEEP = 2000;
const SHOWN = 500;

export function Logs() {
  const t = useT();
  const f = useFormat();
  const [level, setLevel] = useState("info");
  const [text, setText] = useState("");
  // A stream that begins again sends its last lines again.
  const stream = useStream<Line>({ url: `logs?follow=true&last=200&level=${level}`, keep: KEEP, key: (l) => `${l.node} ${l.time_ms} ${l.message}` });
  const wanted = text.toLowerCase();
  // Lines of the level that was chosen before stay until they are pushed out: they are left out here.
  const ranks = ["error", "warn", "info"];
  const found = stream.rows.filter((l) => ranks.indexOf(l.level) <= ranks.indexOf(level) && (wanted === "" || `${l.message} ${l.target}`.toLowerCase().includes(wanted)));
  return (
    <>
      <Head title={t.nav.logs} about={t.logs.about}><StreamControls stream={stream} /></Head>
      <StreamBanner stream={stream} />
      <div className="mb-4 flex flex-wrap items-end gap-3 rounded-xl border bg-surface p-3 shadow-card sm:px-4">
        <div className="min-w-48 flex-1"><Field label={t.logs.filter}>{(p) => <Input {...p} type="search" value={text} onChange={(e) => setText(e.target.value)} />}</Field></div>
        <div className="w-48 max-sm:w-full"><Field label={t.logs.level}>{(p) => <Select {...p} value={level} onChange={(e) => setLevel(e.target.value)}>{(["error", "warn", "info"] as const).map((l) => <option key={l} value={l}>{t.logs.levels[l]}</option>)}</Select>}</Field></div>
      </div>
      {stream.state !== "refused" && (
        <section className="rounded-xl border bg-surface shadow-card" aria-label={t.nav.logs}>
          <p role="status" className="num border-b px-4 py-2 text-xs text-soft">{t.countOf(f.count(Math.min(found.length, SHOWN)), f.count(stream.rows.length))}{stream.skipped > 0 && ` · ${t.stream.skipped(f.count(stream.skipped))}`}</p>
          {found.length === 0 ? <Empty icon="file" title={t.logs.none} text={wanted ? t.nothingMatches : t.logs.noneText} /> : (
            <ol className="max-h-[66dvh] overflow-y-auto text-[13px] leading-relaxed" tabIndex={0} aria-label={t.logs.list}>
              {found.slice(0, SHOWN).map((l, i) => (
                <li key={`${l.time_ms}-${found.length - i}`} className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 border-b px-4 py-1.5 last:border-0 sm:grid-cols-[9.5rem_3.5rem_minmax(0,1fr)]">
                  <time dateTime={new Date(l.time_ms).toISOString()} className="num text-xs leading-5 whitespace-nowrap text-soft">{f.exact(l.time_ms)}</time>
                  <span><Badge tone={l.level === "error" ? "bad" : l.level === "warn" ? "warn" : "plain"}>{l.level}</Badge></span>
                  <span className="break-words max-sm:col-span-2">{l.node != null && <span className="text-soft">{t.node(l.node)} · </span>}{l.message} <span className="text-xs text-soft">{l.target}</span></span>
                </li>
              ))}
            </ol>
          )}
        </section>
      )}
    </>
  );
}
