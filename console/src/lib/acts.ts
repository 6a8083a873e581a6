// What the person changed since the page was opened, as the calls that did it: the screen "Commands" shows them to repeat
// in a terminal. They are kept in the memory of the page only, without secrets, and forgotten when the session ends.
import { useSyncExternalStore } from "react";

/** A call of the gateway: `admin/...` or `s3/...`, with its query as it is sent. */
export type Call = { method: string; url: string; headers?: Record<string, string>; body?: string };
export type Act = Call & { id: number; at_ms: number };

/** How many are kept. */
const KEPT = 100;
/** Calls that send something and change nothing, and the parts of an upload, which is one act. */
const NO_ACT = /^admin\/(permissions|simulate|lifecycle\/|idp\/[^/]+\/[^/]+\/test)|^s3\/.*[?&](uploads|uploadId=|partNumber=)/;
const SECRET = /secret|password|token/i;
/** Settings whose values cannot be secrets. The type of the others is known to their screens only. */
const OPEN_SETTINGS = new Set(["enable", "comment"]);
/** Stands for a secret. */
export const HIDDEN = "…";

let acts: readonly Act[] = [];
let next = 1;
const listeners = new Set<() => void>();

function set(list: readonly Act[]) {
  acts = list;
  for (const call of listeners) call();
}

/** The body of a call of the administration API without secrets. */
function withoutSecrets(url: string, body: string): string {
  const whole = /^admin\/(settings|idp)\//.test(url);
  try {
    return JSON.stringify(JSON.parse(body, (name, value: unknown) => {
      if (typeof value !== "string") return value;
      return SECRET.test(name) || (whole && !OPEN_SETTINGS.has(name)) ? HIDDEN : value;
    }));
  } catch {
    return HIDDEN;
  }
}

/** Keeps a call that the server has carried out, if it changed something. */
export function remember(call: Call) {
  if (call.method === "GET" || call.method === "HEAD" || !/^(admin|s3)\//.test(call.url) || NO_ACT.test(call.url)) return;
  const kept: Act = { ...call, id: next++, at_ms: Date.now() };
  if (call.body !== undefined && call.url.startsWith("admin/")) kept.body = withoutSecrets(call.url, call.body);
  set([kept, ...acts].slice(0, KEPT));
}

export function forgetActs() {
  set([]);
}

/** The newest first. */
export function useActs(): readonly Act[] {
  return useSyncExternalStore((call) => {
    listeners.add(call);
    return () => listeners.delete(call);
  }, () => acts);
}

/** For tests. */
export const actsNow = () => acts;
