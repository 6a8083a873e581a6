// PDF documents, drawn by pdf.js (Mozilla). Reading happens in a worker of its own that is ended with the document; it may load
// nothing and evaluate no text, which the header of its file says (crates/console, assets.rs). Of the object only the parts are
// asked for that the pages in view need. What a document can do is to be drawn: no scripts, no forms, no links.
import { getDocument, PasswordException, PasswordResponses, PDFDataRangeTransport, PDFWorker, type PDFDocumentProxy, type PDFPageProxy } from "pdfjs-dist";
import PdfJsWorker from "pdfjs-dist/build/pdf.worker.mjs?worker";
import type { ReadPart } from "./ranges";

/** Longest document that is opened, in bytes: pdf.js sets aside as much memory as the document is long. */
export const PDF_LIMIT = 256 * 1024 * 1024;
/** Largest picture in a document that is unpacked, in pixels: a page of A4 at 600 dpi has 35 million. */
const PICTURE_LIMIT = 64 * 1024 * 1024;
/** Largest canvas, in pixels: browsers draw nothing on one that is too large. */
const CANVAS_LIMIT = 16 * 1024 * 1024;
const PART = 256 * 1024;

/** Why a document is not shown. */
export type Refused = "broken" | "encrypted";
/** Asks the person for the password of a document. `again`: the one before was wrong. */
export type AskPassword = (again: boolean) => Promise<string>;
export class NotShown extends Error {
  constructor(readonly why: Refused) {
    super(why);
  }
}

export type Pdf = { pages: number; page: (number: number) => Promise<PDFPageProxy>; close: () => void };

class Parts extends PDFDataRangeTransport {
  constructor(size: number, readonly read: ReadPart, readonly failed: (error: unknown) => void) {
    super(size, null);
  }

  override requestDataRange(from: number, to: number): void {
    this.read(from, to).then((part) => this.onDataRange(from, new Uint8Array(part)), this.failed);
  }
}

/**
 * Opens a document of `size` bytes. `lost`: a part could not be read, so that nothing more can be drawn; also called while it
 * is opened. Fails with `NotShown` if it is broken, or encrypted in a way that is not known.
 */
export async function openPdf(size: number, read: ReadPart, signal: AbortSignal, lost: (error: unknown) => void, ask: AskPassword): Promise<Pdf> {
  const port = new PdfJsWorker();
  const end = () => port.terminate();
  let task: ReturnType<typeof getDocument> | null = null;
  const close = () => {
    // The worker ends first: it may be busy with the document for ever, and then answers nothing.
    end();
    void task?.destroy().catch(() => {});
  };
  if (signal.aborted) {
    end();
    throw new DOMException("aborted", "AbortError");
  }
  signal.addEventListener("abort", close, { once: true });
  try {
    return await new Promise<Pdf>((resolve, reject) => {
      const failed = (error: unknown) => {
        lost(error);
        reject(error);
      };
      port.addEventListener("error", () => failed(new Error("the worker of pdf.js cannot be started")));
      signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")), { once: true });
      task = getDocument({
        range: new Parts(size, read, failed), worker: PDFWorker.create({ port, verbosity: 0 }), rangeChunkSize: PART, verbosity: 0,
        disableAutoFetch: true, disableStream: true, disableWorkerRendering: true, useWasm: false, enableXfa: false, maxImageSize: PICTURE_LIMIT,
      });
      task.onPassword = (give: (password: string) => void, why: number) => void ask(why === PasswordResponses.INCORRECT_PASSWORD).then(give, reject);
      task.promise.then((document: PDFDocumentProxy) => resolve({ pages: document.numPages, page: (n) => document.getPage(n), close }), (error: unknown) => {
        reject(new NotShown(error instanceof PasswordException ? "encrypted" : "broken"));
      });
    });
  } catch (error) {
    close();
    throw error;
  }
}

export type Drawing = { done: Promise<{ missing: boolean }>; cancel: () => void };

/**
 * Draws a page so that it is `width` wide, in pixels of the style sheet. `missing`: pictures are left out, because they are of a kind
 * that needs WebAssembly, or broken.
 */
export function draw(page: PDFPageProxy, canvas: HTMLCanvasElement, width: number): Drawing {
  const natural = page.getViewport({ scale: 1 });
  const shown = { width, height: (width * natural.height) / natural.width };
  const density = Math.min(window.devicePixelRatio || 1, Math.sqrt(CANVAS_LIMIT / (shown.width * shown.height)));
  const viewport = page.getViewport({ scale: (width / natural.width) * density });
  canvas.width = Math.max(1, Math.floor(viewport.width));
  canvas.height = Math.max(1, Math.floor(viewport.height));
  canvas.style.width = `${shown.width}px`;
  canvas.style.height = `${shown.height}px`;
  const task = page.render({ canvas, viewport });
  return { done: task.promise.then(() => ({ missing: hasMissing(page) })), cancel: () => task.cancel() };
}

/** Whether a picture of the page could not be unpacked: pdf.js then keeps nothing in its place. */
function hasMissing(page: PDFPageProxy): boolean {
  for (const objects of [page.objs, page.commonObjs] as Iterable<[string, unknown]>[]) {
    for (const [id, data] of objects) if (data === null && /img_/.test(id)) return true;
  }
  return false;
}

/** The words of a page, for screen readers: the beginning of what is long. */
export async function wordsOf(page: PDFPageProxy): Promise<string> {
  const { items } = await page.getTextContent();
  return items.map((item) => ("str" in item ? item.str + (item.hasEOL ? "\n" : "") : "")).join("").slice(0, 20_000);
}
