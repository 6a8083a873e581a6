// A PDF document, a page at a time: whatever its length, one page is read and drawn.
import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode, type RefObject } from "react";
import { download, type Head } from "../api/s3";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { draw, NotShown, openPdf, PDF_LIMIT, wordsOf, type Drawing, type Pdf, type Refused } from "../lib/pdf";
import { partsOf } from "../lib/ranges";
import { Button, Empty, Field, IconButton, Input, Loading, Problem } from "../ui";

/** Widths of a page, as parts of the room that there is. */
const ZOOMS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];
const FIT = ZOOMS.indexOf(1);

type State = { at: "opening" } | { at: "locked"; wrong: boolean; give: (password: string) => void } | { at: "open"; pdf: Pdf } | { at: "refused"; why: Refused | "large" } | { at: "failed"; error: unknown };

export default function PdfPreview({ bucket, name, head }: { bucket: string; name: string; head: Head }) {
  const t = useT();
  const f = useFormat();
  const [state, setState] = useState<State>({ at: "opening" });
  useEffect(() => {
    if (head.size > PDF_LIMIT) return setState({ at: "refused", why: "large" });
    const stop = new AbortController();
    const failed = (error: unknown) => {
      if (!stop.signal.aborted) setState(error instanceof NotShown ? { at: "refused", why: error.why } : { at: "failed", error });
    };
    const ask = (wrong: boolean) => new Promise<string>((give) => {
      if (!stop.signal.aborted) setState({ at: "locked", wrong, give: (password) => { setState({ at: "opening" }); give(password); } });
    });
    setState({ at: "opening" });
    openPdf(head.size, partsOf(bucket, name, head.etag, stop.signal), stop.signal, failed, ask).then((pdf) => !stop.signal.aborted && setState({ at: "open", pdf }), failed);
    return () => stop.abort();
  }, [bucket, name, head.etag, head.size]);
  const save = <Button icon="download" onClick={() => void download(bucket, name)}>{t.download}</Button>;
  if (state.at === "opening") return <Loading />;
  if (state.at === "locked") return <Locked wrong={state.wrong} onGive={state.give}>{save}</Locked>;
  if (state.at === "refused") return <Empty icon="file" title={t.noPreview} text={state.why === "large" ? t.pdf.large(f.bytes(PDF_LIMIT)) : t.pdf[state.why]}>{save}</Empty>;
  if (state.at === "failed") return <><Problem error={state.error} /><p className="mt-3">{save}</p></>;
  return <Pages name={name} pdf={state.pdf} />;
}

/** Asks for the password of a document, which stays in the page. */
function Locked({ wrong, onGive, children }: { wrong: boolean; onGive: (password: string) => void; children: ReactNode }) {
  const t = useT();
  const [password, setPassword] = useState("");
  return (
    <form className="mx-auto flex max-w-sm flex-col gap-4 py-10" onSubmit={(e) => { e.preventDefault(); if (password !== "") onGive(password); }}>
      <p className="text-sm">{t.pdf.locked}</p>
      <Field label={t.login.ldapPassword} hint={t.pdf.lockedHint} error={wrong && password === "" ? t.pdf.wrong : undefined}>
        {(p) => <Input {...p} type="password" autoComplete="off" autoFocus value={password} onChange={(e) => setPassword(e.target.value)} />}
      </Field>
      <div className="flex flex-wrap gap-2"><Button type="submit" tone="primary" because={password === "" ? t.signInTest.passwordFirst : undefined}>{t.pdf.open}</Button>{children}</div>
    </form>
  );
}

function Pages({ name, pdf }: { name: string; pdf: Pdf }) {
  const t = useT();
  const f = useFormat();
  const [number, setNumber] = useState(1);
  const [zoom, setZoom] = useState(FIT);
  const room = useRef<HTMLDivElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(room);
  const shown = usePage(pdf, number, (width - 2) * (ZOOMS[zoom] ?? 1), t.pdf.pageOf(number, pdf.pages, name), place);
  const go = (to: number) => {
    setNumber(Math.min(pdf.pages, Math.max(1, to)));
    room.current?.scrollTo(0, 0);
  };
  const keys: Record<string, () => void> = {
    PageDown: () => go(number + 1), PageUp: () => go(number - 1), Home: () => go(1), End: () => go(pdf.pages),
    "+": () => setZoom(Math.min(ZOOMS.length - 1, zoom + 1)), "-": () => setZoom(Math.max(0, zoom - 1)), "0": () => setZoom(FIT),
  };
  const onKey = (e: KeyboardEvent) => {
    const act = keys[e.key];
    if (!act || e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLInputElement) return;
    e.preventDefault();
    act();
  };
  return (
    <div onKeyDown={onKey}>
      <div role="group" aria-label={t.pdf.controls} className="mb-2 flex flex-wrap items-center gap-x-4 gap-y-1">
        <div className="flex items-center gap-1">
          <IconButton icon="back" label={t.pdf.previous} disabled={number === 1} className="disabled:opacity-40" onClick={() => go(number - 1)} />
          <PageNumber key={number} number={number} onGo={go} />
          <span className="num text-sm text-soft">{t.pdf.of(f.count(pdf.pages))}</span>
          <IconButton icon="chevron" label={t.pdf.next} disabled={number === pdf.pages} className="disabled:opacity-40" onClick={() => go(number + 1)} />
        </div>
        <div className="flex items-center gap-1">
          <IconButton icon="minus" label={t.pdf.smaller} disabled={zoom === 0} className="disabled:opacity-40" onClick={() => setZoom(zoom - 1)} />
          <Button className="num" disabled={zoom === FIT} onClick={() => setZoom(FIT)}>{zoom === FIT ? t.pdf.fits : t.pdf.fit(f.percent(ZOOMS[zoom] ?? 1))}</Button>
          <IconButton icon="plus" label={t.pdf.larger} disabled={zoom === ZOOMS.length - 1} className="disabled:opacity-40" onClick={() => setZoom(zoom + 1)} />
        </div>
      </div>
      <div ref={room} tabIndex={0} role="region" aria-label={t.pdf.pageOf(number, pdf.pages, name)} aria-busy={shown.at === "drawing"} className="h-[60dvh] overflow-auto rounded-lg [scrollbar-gutter:stable] border bg-sunken">
        <div ref={place} className="mx-auto w-fit" />
        {shown.at === "drawn" && shown.words && <p className="sr-only">{shown.words}</p>}
      </div>
      {shown.at === "broken" && <p role="alert" className="mt-2 text-sm text-bad">{t.pdf.brokenPage}</p>}
      {shown.at === "drawn" && shown.missing && <p role="status" className="mt-2 text-sm">{t.pdf.missing}</p>}
    </div>
  );
}

function PageNumber({ number, onGo }: { number: number; onGo: (to: number) => void }) {
  const t = useT();
  const [text, setText] = useState(String(number));
  const commit = () => {
    if (/^\d+$/.test(text)) onGo(Number(text));
    else setText(String(number));
  };
  return (
    <input
      aria-label={t.pdf.page} inputMode="numeric" value={text} onChange={(e) => setText(e.target.value)} onBlur={commit} onKeyDown={(e) => e.key === "Enter" && commit()}
      className="num h-8 w-14 rounded-md border border-line-strong bg-surface px-2 text-right text-sm"
    />
  );
}

/** The width of an element inside of its borders, without a scroll bar; 0 before it is known. */
function useWidth(of: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = of.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, [of]);
  return width;
}

type Shown = { at: "drawing" } | { at: "drawn"; missing: boolean; words: string } | { at: "broken" };

/** Draws a page `width` wide; what was drawn before stays until the page is ready. */
function usePage(pdf: Pdf, number: number, width: number, label: string, place: RefObject<HTMLElement | null>): Shown {
  const [shown, setShown] = useState<Shown>({ at: "drawing" });
  useEffect(() => {
    if (width <= 0) return;
    let [gone, drawing] = [false, null as Drawing | null];
    setShown({ at: "drawing" });
    const run = async () => {
      const page = await pdf.page(number);
      if (gone) return;
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", label);
      drawing = draw(page, canvas, width);
      const { missing } = await drawing.done;
      const words = await wordsOf(page).catch(() => "");
      if (gone) return;
      place.current?.replaceChildren(canvas);
      setShown({ at: "drawn", missing, words });
      page.cleanup();
    };
    run().catch(() => {
      if (gone) return;
      place.current?.replaceChildren();
      setShown({ at: "broken" });
    });
    return () => {
      gone = true;
      drawing?.cancel();
    };
  }, [pdf, number, width, label, place]);
  return shown;
}
