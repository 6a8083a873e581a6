// Settings that are changed while the server runs: what each means, where its value is from, and what a change will do
// before it is made. Targets and providers are the server's own list, so that a new subsystem needs no change here.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { useMemo, useRef, useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useDescribed } from "../i18n/settings";
import { useFormat } from "../lib/format";
import { formatLine, ONLY, parseLines, type SettingLine } from "../lib/lines";
import { useMay } from "../lib/session";
import { Badge, Button, Card, Confirm, CopyBox, Dialog, Empty, Field, Form, Head, Input, Loading, Problem, Toggle, toast } from "../ui";
import { Icon } from "../ui/icons";
import { Menu } from "../ui/menu";

type Setting = Schemas["Setting"];
type Subsystem = Schemas["Subsystem"];
type Row = { target: string; stored: Setting | null; environment: Record<string, string> };
type Editing = { subsystem: Subsystem; row: Row | null };

const HIDDEN = "*redacted*";
/** Settings that are read and have no effect, so that a configuration of MinIO can be taken over. */
const WITHOUT_EFFECT = /^(of MinIO|not implemented)/;

export function Settings() {
  const t = useT();
  const client = useQueryClient();
  const may = useMay("admin:ConfigUpdate");
  const because = may("admin:ConfigUpdate") === false ? t.needs("admin:ConfigUpdate") : undefined;
  const [text, setText] = useState("");
  const [editing, setEditing] = useState<Editing | null>(null);
  const [removing, setRemoving] = useState<{ subsystem: string; target: string } | null>(null);
  const [importing, setImporting] = useState<SettingLine[] | null>(null);
  const file = useRef<HTMLInputElement>(null);
  const all = useQuery({ queryKey: ["settings"], queryFn: ({ signal }) => api("/settings", "get", { signal }), retry: false });
  const done = () => Promise.all(["settings", "events", "providers"].map((key) => client.invalidateQueries({ queryKey: [key] })));
  const remove = useMutation({
    mutationFn: (of: { subsystem: string; target: string }) => api("/settings/{subsystem}/{target}", "delete", { path: of as never }),
    onSuccess: () => { toast(t.done); setRemoving(null); }, onSettled: done,
  });
  const take = async (chosen: File | undefined) => {
    if (!chosen) return;
    const lines = parseLines(await chosen.text());
    if (typeof lines === "string") toast(t.config.badFile(lines), "bad");
    else setImporting(lines);
  };
  const data = all.data;
  const rowsOf = (s: Subsystem): Row[] => {
    const stored = data?.settings.filter((x) => x.subsystem === s.name) ?? [];
    const environment = data?.environment.filter((x) => x.subsystem === s.name) ?? [];
    return [...new Set([...stored, ...environment].map((x) => x.target))].sort().map((target) => ({
      target, stored: stored.find((x) => x.target === target) ?? null, environment: environment.find((x) => x.target === target)?.values ?? {},
    }));
  };
  const described = useDescribed();
  const wanted = text.trim().toLowerCase();
  const fits = (s: Subsystem) => wanted === "" || [s, ...s.names].some((x) => [x.name, x.help, described(x.help).text].some((y) => y.toLowerCase().includes(wanted)));
  const found = (data?.subsystems ?? []).filter(fits);
  const groups = [
    { title: t.config.events, of: found.filter((s) => s.name.startsWith("notify_")) },
    { title: t.config.identity, of: found.filter((s) => s.name.startsWith("identity_")) },
    { title: t.config.others, of: found.filter((s) => !/^(notify|identity)_/.test(s.name)) },
  ].filter((g) => g.of.length > 0);
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([(data?.settings ?? []).map((s) => `${formatLine(s)}\n`).join("")], { type: "text/plain" }));
    link.download = "settings.txt";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <>
      <Head title={t.nav.config} about={t.config.about}>
        <Button icon="download" disabled={!data} onClick={save}>{t.config.export}</Button>
        <Button icon="upload" because={because} onClick={() => file.current?.click()}>{t.config.import}</Button>
        <input ref={file} type="file" accept=".txt,text/plain" hidden data-testid="settings-file" onChange={(e) => { void take(e.target.files?.[0]); e.target.value = ""; }} />
      </Head>
      {all.isPending ? <Loading /> : all.isError ? <Problem error={all.error} retry={() => void all.refetch()} /> : (
        <>
          <p className="mb-4 flex items-start gap-2 rounded-lg bg-sunken px-3.5 py-2.5 text-sm"><Icon name="info" className="mt-0.5 size-4 text-soft" /><span>{t.config.restart} <Link to="/audit" search={{ operation: "SettingPut" }} className="text-accent-text underline">{t.config.history}</Link></span></p>
          <div className="relative mb-5 max-w-md">
            <Icon name="search" className="absolute top-2.5 left-2.5 size-4 text-soft" />
            <Input type="search" aria-label={t.config.filter} placeholder={t.config.filter} value={text} onChange={(e) => setText(e.target.value)} className="pl-8" />
          </div>
          {groups.length === 0 && <Card><Empty icon="search" title={t.nothingMatches} text={t.config.noMatch(text)}><Button onClick={() => setText("")}>{t.clearSearch}</Button></Empty></Card>}
          {groups.map((g) => (
            <section key={g.title} className="mb-7">
              <h2 className="mb-2.5 font-semibold">{g.title}</h2>
              <ul className="divide-y rounded-xl border bg-surface shadow-card">
                {g.of.map((s) => <Part key={s.name} subsystem={s} rows={rowsOf(s)} because={because} onEdit={(row) => setEditing({ subsystem: s, row })} onRemove={(target) => setRemoving({ subsystem: s.name, target })} />)}
              </ul>
            </section>
          ))}
        </>
      )}
      {editing && <Edit {...editing} taken={rowsOf(editing.subsystem).map((r) => r.target)} onClose={() => setEditing(null)} onDone={done} />}
      {importing && data && <Import lines={importing} present={data.settings} subsystems={data.subsystems} onClose={() => setImporting(null)} onDone={done} />}
      {removing && <Confirm title={t.config.removeTitle(nameOf(removing))} text={t.config.removeText} action={t.remove} typed={nameOf(removing)} busy={remove.isPending} error={remove.error} calls={[callOf("/settings/{subsystem}/{target}", "delete", { path: { subsystem: removing.subsystem, target: removing.target } as never })]} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }} />}
    </>
  );
}

const nameOf = (of: { subsystem: string; target: string }) => (of.target === ONLY ? of.subsystem : `${of.subsystem}:${of.target}`);

/** A subsystem with its targets. */
function Part({ subsystem: s, rows, because, onEdit, onRemove }: { subsystem: Subsystem; rows: Row[]; because: string | undefined; onEdit: (row: Row | null) => void; onRemove: (target: string) => void }) {
  const t = useT();
  const f = useFormat();
  const help = useDescribed()(s.help);
  const provider = s.name.startsWith("identity_");
  return (
    <li className="px-4 py-3 sm:px-5">
      <div className="flex items-center justify-between gap-4">
        <div className="min-w-0">
          <h3 className="font-mono text-[13px] font-semibold">{s.name}</h3>
          <p className="text-sm text-soft" lang={help.lang}>{help.text}</p>
        </div>
        {provider ? <Link to="/providers" className="text-sm text-accent-text underline">{t.nav.providers}</Link> : (s.several || rows.length === 0) && (
          <Button icon="plus" because={because} onClick={() => onEdit(null)}>{s.several ? t.config.add : t.config.configure}</Button>
        )}
      </div>
      {rows.length > 0 && (
        <ul className="mt-2.5 divide-y rounded-lg border">
          {rows.map((r) => {
            const values = { ...r.stored?.values, ...r.environment };
            const off = values["enable"] === "off";
            return (
              <li key={r.target} className="flex items-start gap-3 px-3 py-2">
                <div className="min-w-0 flex-1">
                  <p className="flex flex-wrap items-center gap-2 text-sm">
                    <span className="font-medium break-all">{r.target === ONLY ? t.config.only : r.target}</span>
                    <Badge tone={off ? "plain" : "good"}>{off ? t.disabled : t.enabled}</Badge>
                    {Object.keys(r.environment).length > 0 && <Badge tone="accent">{t.config.fromEnvironment}</Badge>}
                    {r.stored && <span className="num text-xs text-soft">{t.config.changed(f.when(r.stored.changed_ms))}</span>}
                  </p>
                  <dl className="mt-1 flex flex-wrap gap-x-4 gap-y-0.5 text-xs">
                    {Object.entries(values).filter(([n]) => n !== "enable").map(([n, v]) => (
                      <div key={n} className="flex min-w-0 gap-1.5"><dt className="text-soft">{n}</dt><dd className="min-w-0 truncate font-mono">{v === HIDDEN ? t.providers.hidden : v.length > 80 ? `${v.slice(0, 80)}…` : v}</dd></div>
                    ))}
                  </dl>
                </div>
                {!provider && (
                  <Menu label={t.actionsFor(`${s.name} ${r.target}`)} items={[
                    { label: t.edit, icon: "edit", because, onSelect: () => onEdit(r) },
                    { label: t.remove, icon: "trash", danger: true, because: because ?? (r.stored ? undefined : t.config.environmentStays), onSelect: () => onRemove(r.target) },
                  ]} />
                )}
              </li>
            );
          })}
        </ul>
      )}
    </li>
  );
}

/** Old and new values of a change, one below the other. */
function Changes({ before, after }: { before: Record<string, string>; after: Record<string, string> }) {
  const t = useT();
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((n) => (before[n] ?? "") !== (after[n] ?? ""));
  if (names.length === 0) return <p className="text-sm text-soft">{t.unchanged}</p>;
  const shown = (value: string) => (value === "" ? <i className="font-sans text-soft">{t.config.empty}</i> : value === HIDDEN ? <i className="font-sans">{t.providers.hidden}</i> : value);
  return (
    <ul className="flex flex-col gap-1.5 text-[13px]">
      {names.map((n) => (
        <li key={n} className="grid grid-cols-1 gap-x-3 gap-y-0.5 font-mono sm:grid-cols-[10rem_minmax(0,1fr)]">
          <span className="text-soft">{n}</span>
          <span className="break-all"><del className="rounded bg-bad-soft px-1 no-underline">{shown(before[n] ?? "")}</del> <span aria-hidden="true">→</span> <ins className="rounded bg-good-soft px-1 no-underline">{shown(after[n] ?? "")}</ins></span>
        </li>
      ))}
    </ul>
  );
}

function Edit({ subsystem: s, row, taken, onClose, onDone }: Editing & { taken: string[]; onClose: () => void; onDone: () => unknown }) {
  const t = useT();
  const described = useDescribed();
  const stored = row?.stored?.values ?? {};
  const [target, setTarget] = useState(row?.target ?? (s.several ? "" : ONLY));
  const [values, setValues] = useState<Record<string, string>>(Object.fromEntries(Object.entries(stored).map(([n, v]) => [n, v === HIDDEN ? "" : v])));
  const [more, setMore] = useState(false);
  const secret = new Set(s.names.filter((n) => n.secret).map((n) => n.name));
  // What is unchanged is not sent; an emptied value is removed, except a secret, which cannot be seen here.
  const changed = Object.fromEntries(Object.entries(values).filter(([n, v]) => (stored[n] === HIDDEN ? v !== "" : v !== (stored[n] ?? ""))));
  const after = { ...stored, ...Object.fromEntries(Object.entries(changed).map(([n, v]) => [n, secret.has(n) && v !== "" ? HIDDEN : v])) };
  const before = Object.fromEntries(Object.entries(stored).map(([n, v]) => [n, n in changed && v === HIDDEN ? "•••" : v]));
  const save = useMutation({
    mutationFn: () => api("/settings/{subsystem}/{target}", "put", { path: { subsystem: s.name, target } as never, body: { values: changed } as never }),
    onSuccess: () => { toast(t.config.applied); onClose(); }, onSettled: () => { onDone(); },
  });
  const bad = row ? undefined : target === "" ? t.nameFirst : !/^[A-Za-z0-9_.-]+$/.test(target) ? t.config.badName : taken.includes(target) ? t.config.nameTaken : undefined;
  const plain = s.names.filter((n) => n.name !== "enable");
  const useful = plain.filter((n) => !WITHOUT_EFFECT.test(n.help) || (values[n.name] ?? "") !== "");
  const rest = plain.filter((n) => !useful.includes(n));
  const field = (n: Schemas["SettingName"]) => {
    const fixed = row?.environment[n.name];
    return (
      <Field key={n.name} label={n.name} hint={<><span lang={described(n.help).lang}>{described(n.help).text}</span>{fixed !== undefined && ` (${t.providers.fixed})`}</>}>
        {(p) => (
          <Input {...p} className="font-mono text-[13px]!" spellCheck={false} autoCapitalize="none" type={n.secret ? "password" : "text"} autoComplete={n.secret ? "new-password" : "off"} disabled={fixed !== undefined}
            placeholder={stored[n.name] === HIDDEN ? t.providers.keepSecret : ""} value={fixed !== undefined ? (fixed === HIDDEN ? "" : fixed) : (values[n.name] ?? "")} onChange={(e) => setValues({ ...values, [n.name]: e.target.value })} />
        )}
      </Field>
    );
  };
  const command = `ashlar admin config set it ${s.name}${target === ONLY || target === "" ? "" : `:${target}`} ${Object.entries(changed).map(([n, v]) => `${n}='${secret.has(n) ? "…" : v}'`).join(" ")}`;
  return (
    <Dialog open onClose={onClose} title={row ? t.providers.editTitle(nameOf({ subsystem: s.name, target })) : t.config.addTitle(s.name)} wide>
      <Form onSubmit={() => save.mutate()} onCancel={onClose} submit={t.config.apply} busy={save.isPending} error={save.error} because={bad ?? (Object.keys(changed).length === 0 ? t.unchanged : undefined)}>
        <p className="text-sm text-soft" lang={described(s.help).lang}>{described(s.help).text}</p>
        {!row && s.several && <Field label={t.name} hint={t.config.nameHint} error={target !== "" ? bad : undefined}>{(p) => <Input {...p} autoFocus autoComplete="off" spellCheck={false} autoCapitalize="none" value={target} onChange={(e) => setTarget(e.target.value)} />}</Field>}
        {s.names.some((n) => n.name === "enable") && <Toggle label={t.enabled} hint={t.config.enableHint} checked={values["enable"] !== "off"} disabled={row?.environment["enable"] !== undefined} onChange={(on) => setValues({ ...values, enable: on ? "on" : "off" })} />}
        <div className="grid gap-4 sm:grid-cols-2">{useful.map(field)}</div>
        {rest.length > 0 && <div><Button tone="quiet" aria-expanded={more} onClick={() => setMore(!more)}><Icon name="chevron" className={clsx("size-4 transition-transform", more && "rotate-90")} /> {t.config.withoutEffect(rest.length)}</Button></div>}
        {more && <div className="grid gap-4 sm:grid-cols-2">{rest.map(field)}</div>}
        {Object.keys(changed).length > 0 && (
          <div className="flex flex-col gap-3 rounded-lg border p-3">
            <h3 className="text-sm font-medium">{t.config.changes}</h3>
            <Changes before={before} after={after} />
            <CopyBox label={t.targets.command} text={command} />
          </div>
        )}
      </Form>
    </Dialog>
  );
}

/** Settings of a file: what each changes, then one after the other. */
function Import({ lines, present, subsystems, onClose, onDone }: { lines: SettingLine[]; present: Setting[]; subsystems: Subsystem[]; onClose: () => void; onDone: () => unknown }) {
  const t = useT();
  const [failed, setFailed] = useState<{ name: string; error: unknown }[]>([]);
  const [applied, setApplied] = useState(0);
  const plan = useMemo(() => lines.map((l) => {
    const before = present.find((s) => s.subsystem === l.subsystem && s.target === l.target)?.values ?? {};
    // Settings that a line does not name stay; a hidden secret stays.
    const after = { ...before, ...Object.fromEntries(Object.entries(l.values).filter(([, v]) => v !== HIDDEN)) };
    const known = subsystems.find((s) => s.name === l.subsystem);
    return { line: l, before, after, known, changes: Object.keys(after).some((n) => (before[n] ?? "") !== (after[n] ?? "")) };
  }), [lines, present, subsystems]);
  const todo = plan.filter((p) => p.known && p.changes);
  const run = useMutation({
    mutationFn: async () => {
      const wrong = [];
      for (const p of todo) {
        try {
          await api("/settings/{subsystem}/{target}", "put", { path: { subsystem: p.line.subsystem, target: p.line.target } as never, body: { values: p.line.values } as never });
          setApplied((n) => n + 1);
        } catch (error) {
          wrong.push({ name: nameOf(p.line), error });
        }
      }
      setFailed(wrong);
      return wrong.length;
    },
    onSuccess: (wrong) => { if (wrong === 0) { toast(t.config.applied); onClose(); } }, onSettled: () => { onDone(); },
  });
  return (
    <Dialog open onClose={onClose} title={t.config.importTitle} wide>
      <Form onSubmit={() => run.mutate()} onCancel={onClose} submit={t.config.applyAll(todo.length)} busy={run.isPending} because={todo.length === 0 ? t.unchanged : applied + failed.length > 0 && !run.isPending ? t.config.appliedSome(applied, failed.length) : undefined}>
        <p className="text-sm text-soft">{t.config.importText}</p>
        <ul className="divide-y rounded-lg border">
          {plan.map((p) => (
            <li key={nameOf(p.line)} className="px-3 py-2.5">
              <p className="mb-1.5 flex items-center gap-2 font-mono text-[13px] font-semibold">{nameOf(p.line)} {!p.known && <Badge tone="bad">{t.config.unknown}</Badge>}</p>
              {p.known && <Changes before={p.before} after={p.after} />}
            </li>
          ))}
        </ul>
        {failed.map((x) => <div key={x.name}><p className="mb-1 font-mono text-[13px]">{x.name}</p><Problem error={x.error} /></div>)}
      </Form>
    </Dialog>
  );
}
