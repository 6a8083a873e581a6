// Lines of JSON that the server sends as they come: the trace and the log. No websocket: an answer that does not end, with an
// empty line every few seconds. Where nothing of it arrives, something in between collects the answer, and sends it on when it
// has ended: then the page asks for a few seconds at a time. A stream that is silent later is taken for broken and begun again.
import { useCallback, useEffect, useRef, useState } from "react";
import { Failure, failureOf, send } from "../api/client";

export type StreamState = "connecting" | "live" | "polling" | "waiting" | "held" | "refused";

/** The server sends an empty line every 5 seconds. */
const SILENCE_MS = 15_000;
const LONGEST_WAIT_MS = 30_000;
/** How long an answer is that is asked for as a whole. */
export const POLL_S = 5;
/** How often the page shows what came, and how much of it at once. */
const FLUSH_MS = 250;
const MOST_AT_ONCE = 200;

type Options<T> = {
  /** The call with its query, below the administration API. */
  url: string;
  /** How many rows are kept. */
  keep: number;
  /** Called when it begins again: rows that come twice are dropped by this key. */
  key?: (row: T) => string;
};

export type Stream<T> = {
  rows: T[];
  state: StreamState;
  problem: unknown;
  /** When it is tried again, in seconds. */
  retryIn: number;
  /** Rows that came faster than they can be shown. */
  skipped: number;
  paused: boolean;
  setPaused: (on: boolean) => void;
  clear: () => void;
};

/** Splits chunks into lines; a line may come in several chunks. */
export function lineSplitter(take: (line: string) => void): (chunk: string) => void {
  let rest = "";
  return (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") take(line);
  };
}

/** Milliseconds until the next attempt after so many that failed. */
export function waitAfter(failures: number): number {
  return Math.min(LONGEST_WAIT_MS, 1000 * 2 ** Math.min(failures, 10));
}

/** The call for a part of a stream, which ends by itself. */
export const partOf = (url: string) => `${url}${url.includes("?") ? "&" : "?"}seconds=${POLL_S}`;

export function useStream<T>({ url, keep, key }: Options<T>): Stream<T> {
  const [rows, setRows] = useState<T[]>([]);
  const [state, setState] = useState<StreamState>("connecting");
  const [problem, setProblem] = useState<unknown>(null);
  const [retryIn, setRetryIn] = useState(0);
  const [skipped, setSkipped] = useState(0);
  const [paused, setPaused] = useState(false);
  const keyOf = useRef(key);
  keyOf.current = key;
  const clear = useCallback(() => { setRows([]); setSkipped(0); }, []);
  useEffect(() => {
    if (paused) return;
    let ended = false;
    let controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let pending: T[] = [];
    const flush = setInterval(() => {
      if (pending.length === 0) return;
      const came = pending.slice(-MOST_AT_ONCE);
      const lost = pending.length - came.length;
      pending = [];
      if (lost > 0) setSkipped((n) => n + lost);
      setRows((old) => {
        const known = keyOf.current ? new Set(old.slice(0, keep).map(keyOf.current)) : null;
        const fresh = known ? came.filter((row) => !known.has(keyOf.current!(row))) : came;
        return [...fresh.reverse(), ...old].slice(0, keep);
      });
    }, FLUSH_MS);
    const later = (failures: number, why: unknown) => {
      setProblem(why);
      setState("waiting");
      const wait = waitAfter(failures);
      setRetryIn(Math.round(wait / 1000));
      timer = setTimeout(() => void run(failures + 1), wait);
    };
    const run = async (failures: number, part = false) => {
      controller = new AbortController();
      let heard = false;
      let silence: ReturnType<typeof setTimeout> | undefined;
      const listen = () => {
        clearTimeout(silence);
        silence = setTimeout(() => controller.abort(), SILENCE_MS);
      };
      if (!part) setState(failures === 0 ? "connecting" : "waiting");
      listen();
      try {
        const response = await send(`admin/${part ? partOf(url) : url}`, { signal: controller.signal });
        if (!response.ok) throw await failureOf(response);
        const reader = response.body!.getReader();
        const decoder = new TextDecoder();
        const split = lineSplitter((line) => {
          try {
            pending.push(JSON.parse(line) as T);
          } catch {
            // Half a line at the end of a broken stream: the next begins anew.
          }
        });
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          if (!heard) {
            heard = true;
            setState(part ? "polling" : "live");
            setProblem(null);
          }
          listen();
          split(decoder.decode(value, { stream: true }));
        }
        clearTimeout(silence);
        if (ended) return;
        if (part && heard) void run(0, true);
        else later(heard ? 0 : failures, null);
      } catch (error) {
        clearTimeout(silence);
        if (ended) return;
        if (error instanceof Failure && error.status >= 400 && error.status < 500) {
          setProblem(error);
          setState("refused");
          return;
        }
        // Nothing came for a long time: something in between holds it back until it ends.
        if (!heard && error instanceof DOMException) {
          if (part) {
            setState("held");
            timer = setTimeout(() => void run(failures + 1), waitAfter(failures));
          } else {
            void run(failures, true);
          }
          return;
        }
        later(heard ? 0 : failures, error instanceof DOMException ? null : error);
      }
    };
    void run(0);
    return () => {
      ended = true;
      clearInterval(flush);
      clearTimeout(timer);
      controller.abort();
    };
  }, [url, keep, paused]);
  return { rows, state, problem, retryIn, skipped, paused, setPaused, clear };
}
