// Uploads straight from the browser: large files as S3 multipart uploads, with a checksum of every part, three parts at a
// time, each tried again after a failure. Leaving a screen does not stop them; closing the page does, and asks first. What the
// server has of a large file then is kept: whoever chooses the file again goes on with the parts that are missing.
import { useSyncExternalStore } from "react";
import { Failure } from "../api/client";
import { abortUpload, beginUpload, completeUpload, listParts, path, upload, type StoredPart } from "../api/s3";
import { remember } from "./acts";
import { base64, crc32 } from "./crc32";

export type State = "waiting" | "running" | "done" | "failed" | "cancelled";
export type Upload = {
  id: number; bucket: string; key: string; file: File; state: State; sent: number; error: Failure | null; began: number; control: AbortController;
  /** The multipart upload that it is, or goes on with. */
  uploadId: string | null;
};

const MIN_PART = 8 * 1024 * 1024;
const MAX_PART = 64 * 1024 * 1024;
const MAX_PARTS = 10_000;
/** What S3 takes as a part that is not the last one. */
const MIN_STORED = 5 * 1024 * 1024;
const PARTS_AT_ONCE = 3;
const FILES_AT_ONCE = 2;
const TRIES = 4;

let uploads: Upload[] = [];
let next = 1;
const listeners = new Set<() => void>();
const finished = new Set<(bucket: string) => void>();

function change(id: number, values: Partial<Upload>) {
  uploads = uploads.map((u) => (u.id === id ? { ...u, ...values } : u));
  for (const call of listeners) call();
}

export function useUploads(): Upload[] {
  return useSyncExternalStore(
    (call) => {
      listeners.add(call);
      return () => listeners.delete(call);
    },
    () => uploads,
  );
}

/** Calls back whenever an upload into a bucket is complete. */
export function whenUploaded(call: (bucket: string) => void): () => void {
  finished.add(call);
  return () => finished.delete(call);
}

/** The size of parts: between 8 and 64 MiB, more only where 10,000 parts would not be enough. */
export function partSize(size: number): number {
  const wanted = Math.ceil(size / 100 / MIN_PART) * MIN_PART;
  return Math.max(MIN_PART, Math.min(wanted, MAX_PART), Math.ceil(size / MAX_PARTS / MIN_PART) * MIN_PART);
}

/** The size of the parts of an upload that goes on: one that fits the parts which the server has, if there is one. */
export function resumedPartSize(stored: StoredPart[], size: number): number {
  const usual = partSize(size);
  const largest = Math.max(0, ...stored.map((p) => p.size));
  const fits = (part: number) => part >= MIN_STORED && Math.ceil(size / part) <= MAX_PARTS && stored.every((p) => p.size === Math.min(part, size - (p.number - 1) * part));
  // Parts that do not fit are sent again.
  return fits(usual) || !fits(largest) ? usual : largest;
}

/** Whether a call that failed can be made again: the server did not get it, or could not do it now. */
const isPassing = (error: Failure) => error.status === 0 || error.status >= 500;

async function again<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Failure && isPassing(error)) || attempt === TRIES || signal.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** attempt));
    }
  }
}

async function sendFile(item: Upload, progress: (sent: number) => void): Promise<void> {
  const { bucket, key, file, control: { signal } } = item;
  if (file.size <= partSize(file.size) && item.uploadId === null) {
    const crc = crc32(new Uint8Array(await file.arrayBuffer()));
    const headers: Record<string, string> = { "x-amz-checksum-crc32": base64(crc) };
    headers["content-type"] = file.type || "application/octet-stream";
    await again(signal, () => upload(path(bucket, key), file, headers, progress, signal));
    return;
  }
  const before = item.uploadId;
  const stored = before === null ? [] : await again(signal, () => listParts(bucket, key, before, signal));
  const id = before ?? await again(signal, () => beginUpload(bucket, key, file.type));
  change(item.id, { uploadId: id });
  try {
    await sendParts(item, id, stored, progress);
  } catch (error) {
    // Parts that nobody completes would occupy space; what a broken connection stopped can go on.
    if (!(error instanceof Failure && isPassing(error))) {
      await abortUpload(bucket, key, id).catch(() => undefined);
      change(item.id, { uploadId: null });
    }
    throw error;
  }
}

/** Sends the parts that the server does not have, and completes the upload. */
async function sendParts(item: Upload, id: string, stored: StoredPart[], progress: (sent: number) => void): Promise<void> {
  const { bucket, key, file, control: { signal } } = item;
  const size = stored.length > 0 ? resumedPartSize(stored, file.size) : partSize(file.size);
  const count = Math.max(1, Math.ceil(file.size / size));
  const there = new Map(stored.map((p) => [p.number, p]));
  const parts: { etag: string; crc: string }[] = [];
  const sent = new Array<number>(count).fill(0);
  let taken = 0;
  const worker = async () => {
    while (taken < count) {
      if (signal.aborted) throw new DOMException("aborted", "AbortError");
      const number = taken++;
      const blob = file.slice(number * size, (number + 1) * size);
      const crc = base64(crc32(new Uint8Array(await blob.arrayBuffer())));
      const note = (n: number) => {
        sent[number] = n;
        progress(sent.reduce((a, b) => a + b, 0));
      };
      // The checksum says that the file which was chosen again is the one of which this part is.
      const has = there.get(number + 1);
      if (has?.size === blob.size && has.crc === crc) {
        parts[number] = { etag: has.etag, crc };
        note(blob.size);
        continue;
      }
      const target = `${path(bucket, key)}?partNumber=${number + 1}&uploadId=${encodeURIComponent(id)}`;
      const { etag } = await again(signal, () => upload(target, blob, { "x-amz-checksum-crc32": crc }, note, signal));
      parts[number] = { etag, crc };
    }
  };
  await Promise.all(Array.from({ length: PARTS_AT_ONCE }, worker));
  await again(signal, () => completeUpload(bucket, key, id, parts));
}

async function start(item: Upload) {
  change(item.id, { state: "running", began: Date.now(), sent: 0, error: null });
  try {
    await sendFile(item, (sent) => change(item.id, { sent: Math.min(sent, item.file.size) }));
    remember({ method: "PUT", url: `s3${path(item.bucket, item.key)}` });
    change(item.id, { state: "done", sent: item.file.size });
    for (const call of finished) call(item.bucket);
  } catch (error) {
    const stopped = error instanceof DOMException && error.name === "AbortError";
    if (stopped) change(item.id, { state: "cancelled" });
    else change(item.id, { state: "failed", error: error instanceof Failure ? error : new Failure(0, "Error", String(error)) });
  }
  pump();
}

function pump() {
  const running = uploads.filter((u) => u.state === "running").length;
  const waiting = uploads.filter((u) => u.state === "waiting").slice(0, Math.max(0, FILES_AT_ONCE - running));
  for (const item of waiting) void start(item);
}

export function addUploads(bucket: string, prefix: string, files: { file: File; name: string }[]) {
  uploads = [
    ...uploads,
    ...files.map(({ file, name }): Upload => ({
      id: next++, bucket, key: prefix + name, file, state: "waiting", sent: 0, error: null, began: 0, control: new AbortController(), uploadId: null,
    })),
  ];
  pump();
  for (const call of listeners) call();
}

/** Goes on with an upload whose file was chosen again. */
export function resumeUpload(bucket: string, key: string, uploadId: string, file: File) {
  uploads = [...uploads, { id: next++, bucket, key, file, state: "waiting", sent: 0, error: null, began: 0, control: new AbortController(), uploadId }];
  pump();
  for (const call of listeners) call();
}

export function cancelUpload(id: number) {
  const item = uploads.find((u) => u.id === id);
  if (item?.state === "waiting") change(id, { state: "cancelled" });
  item?.control.abort();
}

export function retryUpload(id: number) {
  change(id, { state: "waiting", control: new AbortController() });
  pump();
}

export function clearUploads() {
  uploads = uploads.filter((u) => u.state === "waiting" || u.state === "running");
  for (const call of listeners) call();
}

addEventListener("beforeunload", (event) => {
  if (uploads.some((u) => u.state === "running" || u.state === "waiting")) event.preventDefault();
});
