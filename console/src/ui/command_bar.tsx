// The command bar: screens, buckets, users and paths by their names; and the list of keys. Loaded when it is opened first.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { useEffect, useId, useRef, useState } from "react";
import { api } from "../api/client";
import { useT } from "../i18n";
import { screens } from "../lib/screens";
import { Dialog, Input } from ".";
import { Icon, type IconName } from "./icons";

type Entry = { id: string; icon: IconName; label: string; detail?: string; go: () => void };

/** Buckets that are shown at once. */
const BUCKETS = 8;

/** `s3://BUCKET/PREFIX`, `BUCKET/PREFIX` or an ARN of S3; null: it names no place in a bucket. */
export function placeOf(text: string): { bucket: string; prefix: string } | null {
  const found = /^(?:s3:\/\/|arn:aws:s3:::)?([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\/(.*)$/.exec(text.trim());
  return found ? { bucket: found[1]!, prefix: found[2]! } : null;
}

export default function CommandBar({ onClose }: { onClose: () => void }) {
  const t = useT();
  const navigate = useNavigate();
  const id = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const wanted = text.trim().toLowerCase();
  const [asked, setAsked] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setAsked(wanted), 150);
    return () => clearTimeout(timer);
  }, [wanted]);
  const buckets = useQuery({
    queryKey: ["buckets", "bar", asked], enabled: asked !== "" && placeOf(asked) === null, retry: false,
    queryFn: ({ signal }) => api("/usage", "get", { query: { contains: asked, limit: BUCKETS, brief: true }, signal }),
  });
  const done = (go: () => void) => () => { onClose(); go(); };
  const place = placeOf(text);
  const entries: Entry[] = [
    ...(place ? [{ id: "place", icon: "folder" as const, label: t.bar.goTo(`${place.bucket}/${place.prefix}`), go: done(() => void navigate({ to: "/buckets/$bucket", params: { bucket: place.bucket }, search: place.prefix ? { prefix: place.prefix } : {} })) }] : []),
    ...screens(t).flatMap((g) => g.items.map((s) => ({ ...s, detail: g.title })))
      .filter((s) => wanted === "" || `${s.detail} ${s.label}`.toLowerCase().includes(wanted))
      .map((s) => ({ id: s.to, icon: s.icon, label: s.label, detail: s.detail, go: done(() => void navigate({ to: s.to })) })),
    ...(wanted === "" ? [] : (buckets.data?.buckets ?? []).flatMap((b) => [
      { id: `b ${b.bucket}`, icon: "bucket" as const, label: b.bucket, detail: t.browse, go: done(() => void navigate({ to: "/buckets/$bucket", params: { bucket: b.bucket } })) },
      { id: `s ${b.bucket}`, icon: "settings" as const, label: b.bucket, detail: t.settings, go: done(() => void navigate({ to: "/buckets/$bucket/settings", params: { bucket: b.bucket } })) },
    ])),
    ...(wanted === "" ? [] : [{ id: "audit", icon: "audit" as const, label: t.bar.audit(text.trim()), go: done(() => void navigate({ to: "/audit", search: { user: text.trim() } })) }]),
  ];
  const active = Math.min(at, entries.length - 1);
  useEffect(() => list.current?.children[active]?.scrollIntoView({ block: "nearest" }), [active]);
  return (
    <Dialog open onClose={onClose} title={t.bar.title}>
      <Input
        role="combobox" aria-label={t.bar.label} aria-expanded="true" aria-controls={id} aria-activedescendant={entries[active] ? `${id}-${active}` : undefined} aria-autocomplete="list"
        placeholder={t.bar.hint} value={text} autoFocus spellCheck={false} autoCapitalize="none" autoComplete="off" onChange={(e) => { setText(e.target.value); setAt(0); }}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            const step = e.key === "ArrowDown" ? 1 : -1;
            setAt((active + step + entries.length) % Math.max(1, entries.length));
          } else if (e.key === "Enter") {
            e.preventDefault();
            entries[active]?.go();
          }
        }}
      />
      <ul ref={list} id={id} role="listbox" aria-label={t.bar.title} className="mt-3 max-h-80 overflow-y-auto">
        {entries.map((e, i) => (
          <li key={e.id} id={`${id}-${i}`} role="option" aria-selected={i === active} onClick={e.go} onMouseMove={() => setAt(i)} className={clsx("flex cursor-pointer items-center gap-3 rounded-md px-2.5 py-2 text-sm", i === active && "bg-hover")}>
            <Icon name={e.icon} className="size-4.5 text-soft" /> <span className="min-w-0 truncate">{e.label}</span> {e.detail && <span className="ml-auto text-xs text-soft">{e.detail}</span>}
          </li>
        ))}
      </ul>
      <p role="status" className="mt-2 text-xs text-soft">{entries.length === 0 ? t.nothingMatches : t.bar.keys}</p>
    </Dialog>
  );
}

/** Which keys do what. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
  const t = useT();
  const control = /mac/i.test(navigator.platform) ? "⌘" : t.keysHelp.control;
  const rows: [keys: string[], text: string][] = [
    [[control, "K"], t.keysHelp.bar], [["/"], t.keysHelp.search], [["?"], t.keysHelp.help], [["Tab"], t.keysHelp.tab], [["↑", "↓"], t.keysHelp.arrows], [["Esc"], t.keysHelp.escape],
  ];
  return (
    <Dialog open onClose={onClose} title={t.keysHelp.title}>
      <dl className="divide-y text-sm">
        {rows.map(([keys, text]) => (
          <div key={text} className="flex items-center justify-between gap-4 py-2.5">
            <dt className="order-last flex shrink-0 gap-1">{keys.map((k) => <kbd key={k} className="rounded border bg-sunken px-1.5 py-0.5 font-mono text-xs">{k}</kbd>)}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
