// The client of the administration API, typed by its OpenAPI document, and of the gateway's own calls.
//
// Addresses are relative to the page, `.../console/`: whatever path a proxy puts in front, calls go through it.
// Every error that a person can see is a `Failure`: what happened, and what to do.
import { remember, type Call } from "../lib/acts";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** An error of a call, in words for the person who caused it. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId?: string,
  ) {
    super(message);
  }
}

type Methods = "get" | "put" | "post" | "delete" | "patch";
type Operation<P extends keyof paths, M extends Methods> = NonNullable<paths[P][M]>;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : undefined;
type Params<O, K extends "path" | "query"> = O extends { parameters: { [key in K]?: infer V } } ? V : never;
type Answer<O> = O extends { responses: infer R }
  ? { [S in keyof R]: R[S] extends { content: { "application/json": infer A } } ? A : never }[keyof R]
  : never;
type Options<O> = {
  path?: Params<O, "path">;
  query?: Params<O, "query">;
  body?: Body<O>;
  signal?: AbortSignal;
};

let onEnd: () => void = () => {};
/** What is called when the server says that the session has ended. */
export function whenSessionEnds(call: () => void) {
  onEnd = call;
}

export const HEADERS = { "x-ashlar-console": "1" };

/** Sends a call to the gateway; a network error becomes a `Failure`. */
export async function send(url: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { ...init, headers: { ...HEADERS, ...init.headers }, credentials: "same-origin" });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new Failure(0, "Unreachable", "");
  }
  if (response.ok && init.method !== undefined) remember(callOfRequest(url, init));
  if (response.status === 401 && !url.startsWith("session") && url !== "confirm") {
    const problem = await response.clone().json().catch(() => null);
    if (problem?.code === "SessionEnded") onEnd();
  }
  return response;
}

/** A request as a call that can be shown. */
function callOfRequest(url: string, init: RequestInit): Call {
  const { method = "GET", body, headers } = init;
  const text = typeof body === "string" ? body : body instanceof Uint8Array ? new TextDecoder().decode(body) : undefined;
  return { method, url, headers: { ...(headers as Record<string, string> | undefined) }, ...(text === undefined ? {} : { body: text }) };
}

/** The error of an answer that has one. */
export async function failureOf(response: Response): Promise<Failure> {
  const body = await response.json().catch(() => null);
  const id = response.headers.get("x-amz-request-id") ?? undefined;
  return new Failure(response.status, body?.code ?? "Error", body?.error ?? `HTTP ${response.status}`, id);
}

async function json<T>(response: Response): Promise<T> {
  if (!response.ok) throw await failureOf(response);
  return (await response.json().catch(() => null)) as T;
}

/** A call of the administration API, not sent. */
export function callOf<P extends keyof paths, M extends Methods>(path: P, method: M, options: Options<Operation<P, M>> = {}): Call {
  const values = (options.path ?? {}) as Record<string, string | number>;
  let url = `admin${String(path).replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])))}`;
  const query = Object.entries((options.query ?? {}) as Record<string, unknown>).filter(([, v]) => v !== undefined);
  if (query.length > 0) url += `?${new URLSearchParams(query.map(([k, v]) => [k, String(v)]))}`;
  const call: Call = { method: method.toUpperCase(), url };
  if (options.body !== undefined) {
    call.body = JSON.stringify(options.body);
    call.headers = { "content-type": "application/json" };
  }
  return call;
}

/** A call of the administration API. */
export async function api<P extends keyof paths, M extends Methods>(
  path: P,
  method: M,
  options: Options<Operation<P, M>> = {},
): Promise<Answer<Operation<P, M>>> {
  const { url, ...init } = callOf(path, method, options);
  return json(await send(url, options.signal ? { ...init, signal: options.signal } : init));
}

/** Who is signed in, as the gateway says. */
export type Session = {
  user: string;
  root: boolean;
  federated: boolean;
  /** The OpenID Connect provider that vouched for the person. */
  provider: string | null;
  restricted: boolean;
  /** The access key; empty: an identity provider vouched for the person. */
  signed_in_with: string;
  groups: string[];
  policies: string[];
  expires_ms: number;
  now_ms: number;
  region: string;
  s3_port: number | null;
  version: string;
};

/** How people can sign in, besides access keys. */
export type SignInOptions = { openid: { name: string; display_name: string }[]; ldap: boolean; certificates: boolean; certificate_shown: boolean };

export type SignInWith = { access_key: string; secret_key: string } | { ldap_user: string; ldap_password: string } | { code: string; state: string } | { certificate: true };

async function own<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  return json<T>(await send(path, init));
}

export const gateway = {
  session: async () => {
    const found = await own<Session | { user: null }>("GET", "session");
    return found.user === null ? null : (found as Session);
  },
  signInOptions: () => own<SignInOptions>("GET", "sign-in"),
  /** The address of a provider at which to sign in. */
  beginSignIn: (provider: string) => own<{ url: string }>("POST", "sign-in", { provider }),
  signIn: (body: SignInWith) => own<Session>("POST", "session", body),
  /** Says the secret again; for some seconds, access keys can be changed. */
  confirm: (secret_key: string) => own<{ seconds: number }>("POST", "confirm", { secret_key }),
  signOut: () => own("DELETE", "session"),
  /** The address at which a browser ends its session at a provider; null: the provider has none. */
  signOutAt: (provider: string) => own<{ url: string | null }>("POST", "sign-out", { provider }),
  ticket: (target: string) => own<{ url: string }>("POST", "ticket", { target }),
  share: (body: { bucket: string; key: string; version_id?: string; seconds: number; endpoint: string; download: boolean }) =>
    own<{ url: string; expires_ms: number; ends_with_session: boolean }>("POST", "share", body),
};
