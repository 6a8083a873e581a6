// The commands that do what a call does: the call itself for `curl`, and the command of `ashlar` where one has the same
// effect. `it` is the alias, as in the documentation. A call without a rule has no command of `ashlar`, rather than a similar one.
import type { Call } from "./acts";

export type Where = { endpoint: string; region: string };
export type Command = { program: "ashlar" | "curl"; text: string };

/** A word of a POSIX shell. */
export const word = (text: string) => (/^[A-Za-z0-9_.,:=@%+/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const words = (...list: (string | false | undefined)[]) => list.filter((w): w is string => typeof w === "string").map(word).join(" ");
const here = (command: string, document: string) => `${command} <<'EOF'\n${document}\nEOF`;
const pretty = (value: unknown) => JSON.stringify(value, null, 2);

type Values = Record<string, unknown>;
type Given = { names: string[]; body: Values; xml: string; query: URLSearchParams; headers: Record<string, string> };
type Rule = [method: string, path: RegExp, command: (given: Given) => string | null];

const list = (value: unknown) => (Array.isArray(value) ? value.map(String) : []);
const admin = (...rest: (string | false | undefined)[]) => words("ashlar", "admin", ...rest);
const named = (target: string) => (target === "_" ? "" : `:${target}`);
const pairs = (values: unknown) => Object.entries((values ?? {}) as Record<string, string>).map(([n, v]) => `${n}=${v}`);
const provider = (verb: string) => ({ names: [kind, name], body }: Given) => admin("idp", kind, verb, "it", name !== "_" && name, ...pairs(body.values));

function attach(verb: string): Rule[2] {
  return ({ body }) => {
    const whom = typeof body.user === "string" ? ["--user", body.user] : typeof body.group === "string" ? ["--group", body.group] : null;
    return whom && admin("policy", verb, "it", ...list(body.policies), ...whom);
  };
}

/** What `accesskey create` and `edit` have in common; `edit` only takes an expiry and a policy away. */
function keyOptions(body: Values, isNew: boolean): { options: string[]; policy: string | null } {
  const options: string[] = [];
  for (const name of ["name", "description"]) if (typeof body[name] === "string" && !(isNew && body[name] === "")) options.push(`--${name}`, body[name] as string);
  if (body.expires_ms === 0) options.push("--no-expiry");
  else if (typeof body.expires_ms === "number") options.push("--expiry", `${new Date(body.expires_ms).toISOString().slice(0, 19)}Z`);
  if (body.policy === "") options.push("--no-policy");
  return { options, policy: body.policy == null || body.policy === "" ? null : pretty(body.policy) };
}

function key(verb: "create" | "edit", who: string | undefined, body: Values): string {
  const given = keyOptions(body, verb === "create");
  const command = (body.secret === undefined ? "" : "ASHLAR_KEY_SECRET=SECRET-KEY ") + admin("accesskey", verb, "it", who, ...given.options, given.policy !== null && "--policy", given.policy !== null && "-");
  return given.policy === null ? command : here(command, given.policy);
}

/** The options of `heal limit` for what an order has. */
function limitOptions(body: Values): string[] {
  const rate = (bytes: number) => (bytes === 0 ? "off" : bytes % 1024 ** 2 === 0 ? `${bytes / 1024 ** 2}MiB` : String(bytes));
  const options: string[] = [];
  if (typeof body.max_rate === "number") options.push("--max-rate", rate(body.max_rate));
  if (typeof body.scrub_max_rate === "number") options.push("--scrub-max-rate", rate(body.scrub_max_rate));
  if (typeof body.busy_share === "number") options.push("--busy-share", String(body.busy_share));
  return options;
}

const ADMIN: Rule[] = [
  ["PUT", /^users\/([^/]+)$/, ({ names: [name] }) => `ASHLAR_USER_SECRET=SECRET-KEY ${admin("user", "add", "it", name)}`],
  ["DELETE", /^users\/([^/]+)$/, ({ names: [name] }) => admin("user", "remove", "it", name)],
  ["POST", /^users\/([^/]+)\/(enable|disable|revoke)$/, ({ names: [name, verb] }) => admin("user", verb, "it", name)],
  ["DELETE", /^groups\/([^/]+)$/, ({ names: [name] }) => admin("group", "remove", "it", name)],
  ["POST", /^groups\/([^/]+)\/(enable|disable)$/, ({ names: [name, verb] }) => admin("group", verb, "it", name)],
  ["POST", /^groups\/([^/]+)\/members$/, ({ names: [name], body }) => {
    const [added, removed] = [list(body.add), list(body.remove)];
    return [added.length > 0 && admin("group", "add", "it", name, ...added), removed.length > 0 && admin("group", "remove", "it", name, ...removed)].filter(Boolean).join("\n") || null;
  }],
  ["PUT", /^policies\/([^/]+)$/, ({ names: [name], body }) => here(admin("policy", "create", "it", name, "-"), pretty(body))],
  ["DELETE", /^policies\/([^/]+)$/, ({ names: [name] }) => admin("policy", "remove", "it", name)],
  ["POST", /^policies\/attach$/, attach("attach")],
  ["POST", /^policies\/detach$/, attach("detach")],
  ["POST", /^keys$/, ({ body }) => key("create", typeof body.user === "string" ? body.user : undefined, body)],
  ["DELETE", /^keys\/([^/]+)$/, ({ names: [name] }) => admin("accesskey", "remove", "it", name)],
  ["PATCH", /^keys\/([^/]+)$/, ({ names: [name], body }) => (typeof body.enabled === "boolean" ? admin("accesskey", body.enabled ? "enable" : "disable", "it", name) : key("edit", name, body))],
  ["PUT", /^settings\/([^/]+)\/([^/]+)$/, ({ names: [of, target = ""], body }) => admin("config", "set", "it", `${of}${named(target)}`, ...pairs(body.values))],
  ["DELETE", /^settings\/([^/]+)\/([^/]+)$/, ({ names: [of, target = ""] }) => admin("config", "reset", "it", `${of}${named(target)}`)],
  ["PUT", /^idp\/([^/]+)\/([^/]+)$/, provider("add")],
  ["PATCH", /^idp\/([^/]+)\/([^/]+)$/, provider("update")],
  ["DELETE", /^idp\/([^/]+)\/([^/]+)$/, provider("remove")],
  ["POST", /^idp\/([^/]+)\/([^/]+)\/(enable|disable)$/, (given) => provider(given.names[2] ?? "")(given)],
  ["PUT", /^kms\/keys\/([^/]+)$/, ({ names: [name] }) => admin("kms", "key", "create", "it", name)],
  ["POST", /^kms\/keys\/([^/]+)\/rotate$/, ({ names: [name] }) => admin("kms", "key", "rotate", "it", name)],
  ["POST", /^drives\/(offline|online|replace)$/, ({ names: [verb], body }) => words("ashlar", "drive", verb, "it", String(body.drive), body.node != null && "--node", body.node != null && String(body.node))],
  ["POST", /^heal$/, ({ body }) => words("ashlar", "heal", "start", "it", body.deep === true && "--deep")],
  ["PUT", /^heal\/limits$/, ({ body }) => words("ashlar", "heal", "limit", "it", ...limitOptions(body))],
  ["DELETE", /^heal\/limits$/, () => words("ashlar", "heal", "limit", "it", "--reset")],
  ["POST", /^placement\/([^/]+)\/heal$/, ({ names: [object] }) => admin("placement", `it/${object}`, "--heal")],
  ["POST", /^events\/([^/]+)\/test$/, ({ names: [name] }) => words("ashlar", "event", "test", "it", name)],
  ["POST", /^dead-letters\/([^/]+)\/replay$/, ({ names: [name] }) => words("ashlar", "event", "dead-letters", "replay", "it", name)],
  ["DELETE", /^dead-letters\/([^/]+)$/, ({ names: [name], query }) => words("ashlar", "event", "dead-letters", "rm", "it", name, query.has("id") && "--id", query.get("id") ?? undefined)],
  ["PUT", /^quotas\/([^/]+)$/, ({ names: [bucket], body }) => words("ashlar", "quota", "set", `it/${bucket}`, "--size", String(body.quota))],
  ["DELETE", /^quotas\/([^/]+)$/, ({ names: [bucket] }) => words("ashlar", "quota", "clear", `it/${bucket}`)],
];

const unescape = (text: string) => text.replace(/&(lt|gt|amp|quot|apos);/g, (_, name: string) => ({ lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" })[name] ?? "");
/** The texts of all elements of a name, in a document that this page made. */
const texts = (xml: string, name: string) => [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map((m) => unescape(m[1] ?? ""));
const text = (xml: string, name: string) => texts(xml, name)[0];
const version = (query: URLSearchParams) => (query.has("versionId") ? ["--version-id", query.get("versionId") ?? ""] : []);

/** By the name of the subresource; "" is the bucket or the object itself. */
const BUCKET: Record<string, (given: Given & { it: string }) => string | null> = {
  "PUT ": ({ it, headers }) => words("ashlar", "mb", it, headers["x-amz-bucket-object-lock-enabled"] === "true" && "--with-lock"),
  "DELETE ": ({ it }) => words("ashlar", "rb", it),
  "PUT versioning": ({ it, xml }) => words("ashlar", "bucket", "versioning", text(xml, "Status") === "Enabled" ? "enable" : "suspend", it),
  "PUT object-lock": ({ it, xml }) => {
    const [mode, days] = [text(xml, "Mode"), text(xml, "Days")];
    return mode && days ? words("ashlar", "retention", "set", mode.toLowerCase(), `${days}d`, it, "--default") : words("ashlar", "retention", "clear", it, "--default");
  },
  "PUT encryption": ({ it, xml }) => {
    if (text(xml, "SSEAlgorithm") === "AES256") return words("ashlar", "encrypt", "set", "sse-s3", it);
    const id = text(xml, "KMSMasterKeyID");
    return words("ashlar", "encrypt", "set", "sse-kms", id, it);
  },
  "DELETE encryption": ({ it }) => words("ashlar", "encrypt", "clear", it),
  "PUT policy": ({ it, xml }) => here(words("ashlar", "anonymous", "set-json", "-", it), xml),
  "DELETE policy": ({ it }) => words("ashlar", "anonymous", "remove-json", it),
  "PUT website": ({ it, xml }) => website(it, xml),
  "DELETE website": ({ it }) => words("ashlar", "bucket", "website", "remove", it),
  "PUT logging": ({ it, xml }) => accessLog(it, xml),
  "PUT notification": ({ it, xml }) => (xml.includes("<Event>") ? here(words("ashlar", "event", "import", it), xml) : words("ashlar", "event", "rm", it, "--force")),
  "PUT lifecycle": ({ it, xml }) => here(words("ashlar", "ilm", "rule", "import", it), xml),
  "PUT cors": ({ it, xml }) => here(words("ashlar", "cors", "set", it, "-"), xml),
  "DELETE cors": ({ it }) => words("ashlar", "cors", "remove", it),
  "DELETE lifecycle": ({ it }) => words("ashlar", "ilm", "rule", "rm", it, "--all", "--force"),
  "PUT tagging": ({ it, xml, query }) => words("ashlar", "tag", "set", it, tagsOf(xml), ...version(query)),
  "DELETE tagging": ({ it, query }) => words("ashlar", "tag", "remove", it, ...version(query)),
  "POST delete": ({ it, xml }) => {
    const objects = [...xml.matchAll(/<Object>(.*?)<\/Object>/gs)].map((m) => ({ key: text(m[1] ?? "", "Key") ?? "", id: text(m[1] ?? "", "VersionId") }));
    const current = objects.filter((o) => o.id === undefined).map((o) => `${it}/${o.key}`);
    return [current.length > 0 && words("ashlar", "rm", ...current), ...objects.filter((o) => o.id !== undefined).map((o) => words("ashlar", "rm", "--version-id", o.id, `${it}/${o.key}`))].filter(Boolean).join("\n");
  },
};

/** Options where they say all of the document, otherwise the document. */
function website(it: string, xml: string): string {
  const command = ["ashlar", "bucket", "website", "set", it];
  const [host, protocol, index, key] = ["HostName", "Protocol", "Suffix", "Key"].map((name) => text(xml, name));
  if (xml.includes("<RoutingRules>")) return here(words(...command, "-"), xml);
  if (host !== undefined) return words(...command, "--redirect-to", protocol ? `${protocol}://${host}` : host);
  return words(...command, "--index", index, key !== undefined && "--error", key);
}

function accessLog(it: string, xml: string): string {
  const to = text(xml, "TargetBucket");
  if (to === undefined) return words("ashlar", "bucket", "logging", "remove", it);
  if (xml.includes("<TargetObjectKeyFormat")) return here(words("ashlar", "bucket", "logging", "set", it, "-"), xml);
  const prefix = text(xml, "TargetPrefix");
  return words("ashlar", "bucket", "logging", "set", it, "--to", to, !!prefix && "--prefix", prefix || undefined);
}

const OBJECT: typeof BUCKET = {
  "PUT ": ({ it }) => words("ashlar", "cp", "FILE", it),
  "DELETE ": ({ it, query }) => words("ashlar", "rm", ...version(query), it),
  "PUT tagging": BUCKET["PUT tagging"]!,
  "DELETE tagging": BUCKET["DELETE tagging"]!,
  "PUT retention": ({ it, xml, query, headers }) => {
    const [mode, until] = [text(xml, "Mode"), text(xml, "RetainUntilDate")];
    if (!mode || !until) return words("ashlar", "retention", "clear", it, ...version(query));
    const bypass = headers["x-amz-bypass-governance-retention"] === "true";
    return words("ashlar", "retention", "set", mode.toLowerCase(), until, bypass && "--bypass", it, ...version(query));
  },
  "PUT legal-hold": ({ it, xml, query }) => words("ashlar", "legalhold", text(xml, "Status") === "ON" ? "set" : "clear", it, ...version(query)),
};

function tagsOf(xml: string): string {
  const [keys, values] = [texts(xml, "Key"), texts(xml, "Value")];
  return keys.map((k, i) => `${encodeURIComponent(k)}=${encodeURIComponent(values[i] ?? "")}`).join("&");
}

function split(url: string): { names: string[]; query: URLSearchParams } {
  const [path = "", query = ""] = url.split("?");
  return { names: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query) };
}

function given(call: Call, names: string[], query: URLSearchParams): Given {
  let body: Values = {};
  try {
    body = JSON.parse(call.body || "{}") as Values;
  } catch {
    // A document of S3.
  }
  return { names, body, xml: call.body ?? "", query, headers: call.headers ?? {} };
}

/** The command of `ashlar` with the effect of a call; null: there is none. */
export function ashlarOf(call: Call): string | null {
  const { names, query } = split(call.url);
  if (names[0] === "admin") {
    const path = call.url.slice("admin/".length).split("?")[0] ?? "";
    for (const [method, pattern, command] of ADMIN) {
      const found = method === call.method && pattern.exec(path);
      if (found) return command(given(call, found.slice(1).map(decodeURIComponent), query));
    }
    return null;
  }
  const [, bucket = "", ...key] = names;
  const what = [...query.keys()].find((name) => name !== "versionId") ?? "";
  const isBucket = key.join("/") === "";
  const command = (isBucket ? BUCKET : OBJECT)[`${call.method} ${what}`];
  return command?.({ ...given(call, [], query), it: isBucket ? `it/${bucket}` : `it/${bucket}/${key.join("/")}` }) ?? null;
}

/** Headers of a call that matter to the server. */
const SENT = /^(content-type$|x-amz-)/;

/** The same call, signed by curl. */
export function curlOf(call: Call, where: Where): string {
  const [path = "", query = ""] = call.url.split("?");
  const base = path.startsWith("admin/") ? `ashlar/api/v1/${path.slice("admin/".length)}` : path.slice("s3/".length);
  // curl signs the query as it is written: sorted, and with `=` behind each name, as the signature wants it.
  const signed = query.split("&").filter(Boolean).map((p) => (p.includes("=") ? p : `${p}=`)).sort().join("&");
  const lines = [
    `curl --fail-with-body -X ${call.method} --aws-sigv4 aws:amz:${word(where.region)}:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"`,
    "-H 'x-amz-content-sha256: UNSIGNED-PAYLOAD'",
    ...Object.entries(call.headers ?? {}).filter(([name]) => SENT.test(name)).map(([name, value]) => `-H ${word(`${name}: ${value}`)}`),
    ...(call.body !== undefined ? [`--data-binary ${word(call.body)}`] : call.method === "PUT" && isObject(call) ? ["--upload-file FILE"] : []),
    word(`${where.endpoint}/${base}${signed ? `?${signed}` : ""}`),
  ];
  return lines.join(" \\\n  ");
}

/** Whether a call writes an object, whose bytes are not kept. */
const isObject = (call: Call) => /^s3\/[^/]+\/.+/.test(call.url) && !call.url.includes("?");

/** The commands of calls that are made one after the other. */
export function commandsOf(calls: readonly Call[], where: Where): Command[] {
  const ours = calls.map(ashlarOf);
  const curl = calls.map((call) => curlOf(call, where));
  // Either all of it or none: half of an act would mislead.
  return [...(ours.every((c) => c !== null) && ours.length > 0 ? [{ program: "ashlar" as const, text: ours.join("\n") }] : []), ...(curl.length > 0 ? [{ program: "curl" as const, text: curl.join("\n") }] : [])];
}
