// The object browser: pages of a listing as virtual rows, so that a folder of a million keys opens as fast as an empty one.
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { lazy, memo, Suspense, useEffect, useLayoutEffect, useMemo, useRef, useState, type ChangeEvent, type DragEvent, type RefObject } from "react";
import { Failure } from "../api/client";
import { listObjectsAt, restoreVersion } from "../api/rewind";
import { calls, deleteObjects, download, downloadFolder, listObjects, listUploads, type Item, type Page } from "../api/s3";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { addUploads, useUploads, whenUploaded } from "../lib/uploads";
import { useWindow } from "../lib/window";
import { browseRoute } from "../router";
import { Button, Confirm, Empty, IconButton, Input, Loading, Problem, Spinner, toast } from "../ui";
import { Menu } from "../ui/menu";
import { Icon } from "../ui/icons";
import { ObjectDialog } from "./object";
import { ShareDialog } from "./share";
import { UnfinishedDialog } from "./unfinished";

const RewindDialog = lazy(() => import("./rewind"));

const ROW = 44;

/** Rows before the end at which the next page is fetched. */
const AHEAD = 400;

type Row = { folder: string } | { item: Item };
const keyOf = (row: Row) => ("folder" in row ? row.folder : row.item.key);

/** The rows of each page and folder: long lists have many pages, and only the last one is new. */
const made = new WeakMap<Page, { folder: string; rows: Row[] }>();

function rowsOf(page: Page, folder: string): Row[] {
  const before = made.get(page);
  if (before?.folder === folder) return before.rows;
  const own = page.items.filter((i) => i.key !== folder || folder === "");
  const rows = [...page.folders.map((folder): Row => ({ folder })), ...own.map((item): Row => ({ item }))];
  if (page.folders.length > 0) rows.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  made.set(page, { folder, rows });
  return rows;
}

/** The rows of several pages, which are not copied when another page comes. */
class RowList {
  readonly length: number;
  /** The number of the first row of each page. */
  readonly #starts: number[] = [];
  constructor(readonly pages: Row[][]) {
    let length = 0;
    for (const page of pages) {
      this.#starts.push(length);
      length += page.length;
    }
    this.length = length;
  }
  at(index: number): Row | undefined {
    let [from, to] = [0, this.pages.length];
    while (to - from > 1) {
      const middle = (from + to) >> 1;
      if (this.#starts[middle]! <= index) from = middle;
      else to = middle;
    }
    return this.pages[from]?.[index - this.#starts[from]!];
  }
  chosen(keys: ReadonlySet<string>): { item: Item }[] {
    if (keys.size === 0) return [];
    return this.pages.flatMap((page) => page.filter((r): r is { item: Item } => "item" in r && keys.has(r.item.key)));
  }
}

/** What a row can ask for. */
type Acts = {
  open: (folder: string) => void;
  zip: (folder: string) => void;
  show: (key: string) => void;
  toggle: (key: string) => void;
  save: (key: string, versionId?: string) => void;
  restore: (key: string, versionId: string) => void;
  share: (key: string) => void;
  remove: (key: string) => void;
};

export function Browse() {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const navigate = useNavigate({ from: browseRoute.fullPath });
  const { bucket } = browseRoute.useParams();
  const search = browseRoute.useSearch();
  const prefix = search.prefix ?? "";
  const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
  // The instant that is shown; null: now.
  const instant = Date.parse(search.at ?? "");
  const at = Number.isNaN(instant) ? null : instant;
  const past = at === null ? undefined : t.rewind.past;
  const [rewinding, setRewinding] = useState(false);
  const showing = (to: string, then = search.at) => ({ ...(to ? { prefix: to } : {}), ...(then ? { at: then } : {}) });
  const [typed, setTyped] = useState(prefix.slice(folder.length));
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [removing, setRemoving] = useState<string[] | null>(null);
  const [sharing, setSharing] = useState<string | null>(null);
  const [over, setOver] = useState(false);
  const [going, setGoing] = useState(false);
  const files = useRef<HTMLInputElement>(null);
  const folders = useRef<HTMLInputElement>(null);
  const may = useMay(["s3:PutObject", `${bucket}/${folder}x`], ["s3:DeleteObject", `${bucket}/${folder}x`], ["s3:GetObject", `${bucket}/${folder}x`]);
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  const list = useInfiniteQuery({
    queryKey: ["objects", bucket, prefix, at],
    queryFn: ({ pageParam, signal }) => (at === null ? listObjects(bucket, prefix, pageParam, signal) : listObjectsAt(bucket, prefix, at, pageParam, signal)),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  // What a page that was closed has left; whoever may not see it can do without.
  const uploading = useUploads();
  const left = useQuery({ queryKey: ["unfinished", bucket, folder], queryFn: ({ signal }) => listUploads(bucket, folder, signal), retry: false, staleTime: 60_000 });
  const unfinished = (left.data ?? []).filter((u) => !uploading.some((own) => own.uploadId === u.id && own.state !== "failed"));
  const [continuing, setContinuing] = useState(false);
  const pages = list.data?.pages;
  const rows = useMemo(() => new RowList((pages ?? []).map((page) => rowsOf(page, folder))), [pages, folder]);
  const scroll = useRef<HTMLDivElement>(null);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const more = () => {
    if (hasNextPage && !isFetchingNextPage && !list.isFetchNextPageError) void fetchNextPage();
  };
  // What is typed is searched for by the server, a moment after the last letter.
  useEffect(() => {
    if (folder + typed === prefix) return;
    const timer = setTimeout(() => void navigate({ search: (before) => ({ ...(folder + typed ? { prefix: folder + typed } : {}), ...(before.at ? { at: before.at } : {}) }), replace: true }), 250);
    return () => clearTimeout(timer);
  }, [typed, folder, prefix, navigate]);
  const open = (to: string) => {
    setChosen(new Set());
    setTyped("");
    scroll.current?.scrollTo({ top: 0 });
    void navigate({ search: showing(to) });
  };
  useEffect(() => whenUploaded((name) => {
    if (name !== bucket) return;
    void client.invalidateQueries({ queryKey: ["objects", bucket] });
    void client.invalidateQueries({ queryKey: ["unfinished", bucket] });
  }), [bucket, client]);
  const remove = useMutation({
    mutationFn: async (keys: string[]) => {
      const failed = [];
      for (const batch of batches(keys)) failed.push(...await deleteObjects(bucket, batch));
      const first = failed[0];
      if (first) throw new Failure(403, "NotDeleted", t.notDeleted(failed.length, first.key, first.why));
    },
    onSuccess: (_, keys) => {
      toast(t.deleted(keys.length));
      setRemoving(null);
      setChosen(new Set());
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["objects", bucket] }),
  });
  const take = (event: ChangeEvent<HTMLInputElement>) => {
    const list = [...(event.target.files ?? [])];
    addUploads(bucket, folder, list.map((file) => ({ file, name: file.webkitRelativePath || file.name })));
    event.target.value = "";
  };
  const zip = (prefix: string) => void downloadFolder(bucket, prefix).then(() => toast(t.zip.begun), (e: Error) => toast(e.message, "bad"));
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (because("s3:PutObject") ?? past) return;
    addUploads(bucket, folder, await dropped(event.dataTransfer));
  };
  const parts = folder.split("/").filter(Boolean);
  const selected = useMemo(() => rows.chosen(chosen), [rows, chosen]);
  const acts: Acts = {
    open, zip,
    show: (key) => void navigate({ search: { ...search, object: key } }),
    toggle: (key) => {
      const next = new Set(chosen);
      if (!next.delete(key)) next.add(key);
      setChosen(next);
    },
    restore: (key, versionId) => void restoreVersion(bucket, key, versionId).then(
      () => { toast(t.rewind.restored(key.slice(folder.length))); void client.invalidateQueries({ queryKey: ["objects", bucket] }); },
      (e: Error) => toast(e.message, "bad"),
    ),
    save: (key, versionId) => void download(bucket, key, versionId).catch((e: Error) => toast(e.message, "bad")),
    share: setSharing,
    remove: (key) => setRemoving([key]),
  };
  const latest = useRef(acts);
  useLayoutEffect(() => { latest.current = acts; });
  return (
    <div onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={(e) => { if (!e.currentTarget.contains(e.relatedTarget as Node)) setOver(false); }} onDrop={(e) => void drop(e)}>
      <div className="mb-4 flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <h1 className="sr-only">{t.browseTitle(bucket)}</h1>
        {going ? (
          <form className="min-w-0 flex-1" onSubmit={(e) => { e.preventDefault(); open(String(new FormData(e.currentTarget).get("path") ?? "").replace(/^\/+/, "")); setGoing(false); }}>
            <Input name="path" aria-label={t.goTo} placeholder={t.goToHint} defaultValue={folder} autoFocus onBlur={() => setGoing(false)} onKeyDown={(e) => e.key === "Escape" && setGoing(false)} spellCheck={false} className="font-mono" />
          </form>
        ) : (
          <nav aria-label={t.breadcrumb} className="flex min-w-0 flex-wrap items-center text-lg font-semibold tracking-tight">
            <Link to="/buckets" className="rounded px-1 text-soft hover:text-text">{t.nav.buckets}</Link>
            <Icon name="chevron" className="size-4 text-soft" />
            <button type="button" onClick={() => open("")} className="max-w-60 truncate rounded px-1 hover:underline">{bucket}</button>
            {parts.map((part, i) => (
              <span key={i} className="flex min-w-0 items-center">
                <Icon name="chevron" className="size-4 text-soft" />
                <button type="button" onClick={() => open(`${parts.slice(0, i + 1).join("/")}/`)} className="max-w-60 truncate rounded px-1 hover:underline" aria-current={i === parts.length - 1 ? "location" : undefined}>{part}</button>
              </span>
            ))}
            <IconButton icon="edit" label={t.goTo} onClick={() => setGoing(true)} className="size-8!" />
          </nav>
        )}
        <div className="flex flex-wrap gap-2">
          <Button icon="settings" onClick={() => void navigate({ to: "/buckets/$bucket/settings", params: { bucket } })}>{t.settings}</Button>
          <Button icon="download" because={because("s3:GetObject") ?? past ?? (rows.length === 0 ? t.emptyFolder : undefined)} onClick={() => zip(folder)}>{t.zip.action}</Button>
          <Button icon="history" onClick={() => setRewinding(true)}>{t.rewind.action}</Button>
          <Button icon="folder" because={because("s3:PutObject") ?? past} onClick={() => folders.current?.click()}>{t.uploadFolder}</Button>
          {unfinished.length > 0 && <Button icon="refresh" onClick={() => setContinuing(true)}>{t.unfinished.action(unfinished.length)}</Button>}
          <Button icon="upload" tone="primary" because={because("s3:PutObject") ?? past} onClick={() => files.current?.click()}>{t.upload}</Button>
          <input ref={files} type="file" multiple hidden onChange={take} data-testid="files" />
          <input ref={(e) => { folders.current = e; e?.setAttribute("webkitdirectory", ""); }} type="file" hidden onChange={take} />
        </div>
      </div>
      {at !== null && (
        <div role="status" className="mb-3 flex flex-wrap items-center gap-3 rounded-lg bg-warn-soft px-3.5 py-2.5 text-sm">
          <Icon name="history" /> <span className="min-w-0 flex-1">{t.rewind.shown(f.when(at))}</span>
          <Button onClick={() => void navigate({ search: showing(prefix, "") })}>{t.rewind.now}</Button>
        </div>
      )}
      <div className={clsx("overflow-hidden rounded-xl border bg-surface shadow-card", over && "outline-2 outline-accent outline-dashed")}>
        <div className="flex min-h-14 flex-wrap items-center gap-2 border-b p-2.5 sm:px-4">
          {selected.length > 0 ? (
            <>
              <span className="text-sm font-medium">{t.chosen(selected.length)} · {f.bytes(selected.reduce((n, r) => n + r.item.size, 0))}</span>
              <div className="ml-auto flex gap-2">
                <Button onClick={() => setChosen(new Set())}>{t.unselect}</Button>
                <Button icon="download" because={because("s3:GetObject") ?? (selected.length > 20 ? t.tooManyDownloads : undefined)} onClick={async () => { for (const r of selected) await download(bucket, r.item.key); }}>{t.download}</Button>
                <Button icon="trash" tone="danger" because={because("s3:DeleteObject")} onClick={() => setRemoving(selected.map((r) => r.item.key))}>{t.remove}</Button>
              </div>
            </>
          ) : (
            <>
              <div className="relative min-w-40 flex-1 sm:max-w-80">
                <Icon name="search" className="absolute top-2.5 left-2.5 size-4 text-soft" />
                <Input type="search" aria-label={t.searchPrefix} placeholder={t.searchPrefix} value={typed} onChange={(e) => setTyped(e.target.value)} className="border-line! pl-8" spellCheck={false} />
              </div>
              <span role="status" className="num flex items-center gap-2 text-xs text-soft">
                {list.isFetching && <Spinner className="size-3.5" />}
                {list.isSuccess && (list.hasNextPage ? t.loadedSoFar(f.count(rows.length)) : t.entries(rows.length, f.count(rows.length)))}
              </span>
              <IconButton icon="refresh" label={t.refresh} className="ml-auto" onClick={() => void list.refetch()} />
            </>
          )}
        </div>
        {list.isPending ? <Loading /> : list.isError && rows.length === 0 ? <div className="p-4"><Problem error={list.error} retry={() => void list.refetch()} /></div> : rows.length === 0 ? (
          typed ? <Empty icon="search" title={t.nothingMatches} text={t.noPrefix(prefix)}><Button onClick={() => setTyped("")}>{t.clearSearch}</Button></Empty> : (
            at !== null ? <Empty icon="history" title={t.rewind.empty} text={t.rewind.emptyText} /> : (
              <Empty icon="folder" title={folder ? t.emptyFolder : t.emptyBucket} text={t.emptyText}>
                <Button icon="upload" tone="primary" because={because("s3:PutObject")} onClick={() => files.current?.click()}>{t.upload}</Button>
              </Empty>
            )
          )
        ) : (
          <Rows rows={rows} hasMore={hasNextPage} onEnd={more} label={t.browseTitle(bucket)} folder={folder} chosen={chosen} scroll={scroll}
            notGet={because("s3:GetObject")} notDelete={because("s3:DeleteObject")} notPut={because("s3:PutObject")} acts={latest} />
        )}
      </div>
      {list.isError && rows.length > 0 && <div className="mt-3"><Problem error={list.error} retry={() => void list.fetchNextPage()} /></div>}
      {removing && (
        <Confirm title={t.deleteTitle(removing.length)} action={t.remove} busy={remove.isPending} error={remove.error} calls={batches(removing).map((keys) => calls.deleteObjects(bucket, keys))} onConfirm={() => remove.mutate(removing)} onClose={() => { setRemoving(null); remove.reset(); }}
          text={<><p>{t.deleteText}</p><ul className="mt-2 max-h-40 overflow-y-auto rounded-md bg-sunken px-3 py-2 font-mono text-xs">{removing.slice(0, 50).map((k) => <li key={k} className="break-all">{k}</li>)}{removing.length > 50 && <li>…</li>}</ul></>} />
      )}
      {continuing && <UnfinishedDialog bucket={bucket} uploads={unfinished} because={because("s3:PutObject")} onClose={() => setContinuing(false)} />}
      {sharing && <ShareDialog bucket={bucket} objectKey={sharing} onClose={() => setSharing(null)} />}
      {rewinding && <Suspense><RewindDialog at={at} onClose={() => setRewinding(false)} onGo={(to) => { setRewinding(false); setChosen(new Set()); void navigate({ search: showing(prefix, new Date(to).toISOString()) }); }} /></Suspense>}
      {search.object !== undefined && (
        <ObjectDialog bucket={bucket} objectKey={search.object} onShare={setSharing} onRemove={(key) => setRemoving([key])}
          onClose={() => void navigate({ search: showing(prefix) })} />
      )}
    </div>
  );
}

/** As many keys as one call deletes. */
function batches(keys: string[]): { key: string }[][] {
  return Array.from({ length: Math.ceil(keys.length / 1000) }, (_, i) => keys.slice(i * 1000, (i + 1) * 1000).map((key) => ({ key })));
}

const GRID = "grid grid-cols-[1.5rem_minmax(0,1fr)_6.5rem_2.5rem] md:grid-cols-[1.5rem_minmax(0,1fr)_7rem_12rem_2.5rem] items-center gap-x-3 px-3 sm:px-4";
const ROWLOOK = "absolute inset-x-0 top-0 border-b text-sm hover:bg-hover/60";

const place = (start: number) => ({ height: ROW, transform: `translateY(${start}px)` });

// What is around the rows is not rendered again while they are scrolled.
function Rows({ rows, hasMore, onEnd, label, folder, chosen, scroll, notGet, notDelete, notPut, acts }: {
  rows: RowList; hasMore: boolean; onEnd: () => void; label: string; folder: string; chosen: ReadonlySet<string>; scroll: RefObject<HTMLDivElement | null>;
  notGet: string | undefined; notDelete: string | undefined; notPut: string | undefined; acts: RefObject<Acts>;
}) {
  const t = useT();
  const view = useWindow(scroll, rows.length + (hasMore ? 1 : 0), ROW);
  const last = view.end - 1;
  useEffect(() => {
    // The next page is there before the last row of this one is seen, unless somebody is very quick.
    if (last >= rows.length - AHEAD) onEnd();
  });
  return (
    <div ref={scroll} role="table" aria-label={label} aria-rowcount={hasMore ? -1 : rows.length + 1} tabIndex={0} className="h-[calc(100dvh-15rem)] min-h-72 overflow-y-auto contain-strict">
      <div role="rowgroup" className="sticky top-0 z-10 bg-surface">
        <div role="row" aria-rowindex={1} className={clsx(GRID, "h-9 border-b text-xs font-medium text-soft")}>
          <span role="columnheader"><span className="sr-only">{t.select}</span></span>
          <span role="columnheader">{t.name}</span>
          <span role="columnheader" className="text-right">{t.size}</span>
          <span role="columnheader" className="max-md:hidden">{t.modified}</span>
          <span role="columnheader"><span className="sr-only">{t.actions}</span></span>
        </div>
      </div>
      <div role="rowgroup" className="relative" style={{ height: view.height }}>
        <div role="presentation" className="absolute inset-x-0 top-0" style={{ transform: `translateY(${view.shift}px)` }}>
          {Array.from({ length: view.end - view.first }, (_, i) => {
            const index = view.first + i;
            const start = (index - view.base) * ROW;
            const row = rows.at(index);
            if (!row) return <div key="more" role="row" className="absolute inset-x-0 top-0 flex items-center justify-center gap-2 text-sm text-soft" style={place(start)}><span role="cell" className="flex items-center gap-2"><Spinner /> {t.loadingMore}</span></div>;
            return "folder" in row
              ? <FolderRow key={row.folder} path={row.folder} name={row.folder.slice(folder.length)} index={index} start={start} notGet={notGet} acts={acts} />
              : <ObjectRow key={row.item.key} item={row.item} name={row.item.key.slice(folder.length)} index={index} start={start} is={chosen.has(row.item.key)} notGet={notGet} notDelete={notDelete} notPut={notPut} acts={acts} />;
          })}
        </div>
      </div>
    </div>
  );
}

type RowProps = { name: string; index: number; start: number; notGet: string | undefined; acts: RefObject<Acts> };

// Rows are rendered when they come into view, and not again while others do.
const FolderRow = memo(function FolderRow({ path, name, index, start, notGet, acts }: RowProps & { path: string }) {
  const t = useT();
  return (
    <div role="row" aria-rowindex={index + 2} className={clsx(GRID, ROWLOOK)} style={place(start)}>
      <span role="cell" />
      <span role="cell" className="min-w-0"><button type="button" onClick={() => acts.current.open(path)} className="flex max-w-full items-center gap-2.5 text-left font-medium hover:underline"><Icon name="folder" className="size-5 text-accent" /><span className="truncate">{name}</span></button></span>
      <span role="cell" /><span role="cell" className="max-md:hidden" />
      <span role="cell"><Menu label={t.actionsFor(name)} items={[{ label: t.zip.action, icon: "download", because: notGet, onSelect: () => acts.current.zip(path) }]} /></span>
    </div>
  );
});

const ObjectRow = memo(function ObjectRow({ item, name, index, start, is, notGet, notDelete, notPut, acts }: RowProps & { item: Item; is: boolean; notDelete: string | undefined; notPut: string | undefined }) {
  const t = useT();
  const f = useFormat();
  // A version of the past has other things that one can do with it.
  const { key, versionId } = item;
  return (
    <div role="row" aria-rowindex={index + 2} aria-selected={is} className={clsx(GRID, ROWLOOK, is && "bg-accent-soft/50")} style={place(start)}>
      <span role="cell" className="flex"><input type="checkbox" aria-label={t.selectThis(name)} checked={is} disabled={versionId !== undefined} className="size-4 accent-[var(--c-accent)]" onChange={() => acts.current.toggle(key)} /></span>
      <span role="cell" className="min-w-0"><button type="button" onClick={() => acts.current.show(key)} className="flex max-w-full items-center gap-2.5 text-left hover:underline"><Icon name="file" className="size-5 text-soft" /><span className="truncate">{name || key}</span></button></span>
      <span role="cell" className="num text-right whitespace-nowrap">{f.bytes(item.size)}</span>
      <span role="cell" className="num truncate text-soft max-md:hidden">{f.when(item.modified)}</span>
      <span role="cell">
        <Menu label={t.actionsFor(name)} items={versionId !== undefined ? [
          { label: t.download, icon: "download", because: notGet, onSelect: () => acts.current.save(key, versionId) },
          { label: t.rewind.restore, icon: "restore", because: notPut, onSelect: () => acts.current.restore(key, versionId) },
        ] : [
          { label: t.details, icon: "info", onSelect: () => acts.current.show(key) },
          { label: t.download, icon: "download", because: notGet, onSelect: () => acts.current.save(key) },
          { label: t.share.action, icon: "link", because: notGet, onSelect: () => acts.current.share(key) },
          null,
          { label: t.remove, icon: "trash", danger: true, because: notDelete, onSelect: () => acts.current.remove(key) },
        ]} />
      </span>
    </div>
  );
});

/** The files of a drop, with those in folders. */
async function dropped(data: DataTransfer): Promise<{ file: File; name: string }[]> {
  const out: { file: File; name: string }[] = [];
  const walk = async (entry: FileSystemEntry, path: string): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((ok, no) => (entry as FileSystemFileEntry).file(ok, no));
      out.push({ file, name: path + file.name });
    } else {
      const reader = (entry as FileSystemDirectoryEntry).createReader();
      for (;;) {
        const some = await new Promise<FileSystemEntry[]>((ok, no) => reader.readEntries(ok, no));
        if (some.length === 0) return;
        for (const one of some) await walk(one, `${path}${entry.name}/`);
      }
    }
  };
  const entries = [...data.items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null);
  for (const entry of entries) await walk(entry, "");
  return out;
}
