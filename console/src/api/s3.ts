// S3 through the gateway: the operations that the screens need, with XML parsed by the browser.
import { Failure, HEADERS, gateway, send } from "./client";
import type { Call } from "../lib/acts";
import { crc32base64 } from "../lib/crc32";
import { scanXml } from "../lib/xml";

export type Item = { key: string; size: number; modified: string; etag: string; versionId?: string };
export type Page = { folders: string[]; items: Item[]; next: string | null };
export type Version = Item & { versionId: string; latest: boolean; marker: boolean };
export type Bucket = { name: string; created: string };
export type Tag = { key: string; value: string };

/** As S3 and signatures encode: browsers would change an apostrophe in a query, and a ticket would not fit any more. */
const encode = (value: string) => encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

/** The path of an object below the gateway, encoded. */
export function path(bucket: string, key = ""): string {
  return `/${encode(bucket)}/${key.split("/").map(encode).join("/")}`;
}

export function query(values: Record<string, string | undefined>): string {
  const pairs = Object.entries(values).filter((p): p is [string, string] => p[1] !== undefined);
  if (pairs.length === 0) return "";
  return `?${pairs.map(([k, v]) => (v === "" ? encode(k) : `${encode(k)}=${encode(v)}`)).join("&")}`;
}

function parse(xml: string): Document {
  return new DOMParser().parseFromString(xml, "application/xml");
}

export const text = (node: ParentNode, name: string) => node.querySelector(`:scope > ${name}`)?.textContent ?? "";
export const all = (node: ParentNode, name: string) => [...node.querySelectorAll(`:scope > ${name}`)];

/** The error that an S3 answer tells. */
export async function failure(response: Response): Promise<Failure> {
  const body = await response.text().catch(() => "");
  const id = response.headers.get("x-amz-request-id") ?? undefined;
  if (body.startsWith("{")) {
    const problem = JSON.parse(body) as { error: string; code: string };
    return new Failure(response.status, problem.code, problem.error, id);
  }
  const root = parse(body).documentElement;
  const code = text(root, "Code") || `HTTP${response.status}`;
  return new Failure(response.status, code, text(root, "Message") || response.statusText, id);
}

export async function s3(target: string, init: RequestInit = {}): Promise<Response> {
  const response = await send(`s3${target}`, init);
  if (!response.ok) throw await failure(response);
  return response;
}

async function xml(target: string, init?: RequestInit): Promise<Element> {
  return parse(await (await s3(target, init)).text()).documentElement;
}

/** The document, or null where S3 says that there is none. */
export async function optional(target: string): Promise<Element | null> {
  try {
    return await xml(target);
  } catch (error) {
    if (error instanceof Failure && error.status === 404 && error.code !== "NoSuchBucket" && error.code !== "NoSuchKey") return null;
    throw error;
  }
}

export const escape = (value: string) =>
  value.replace(/[<>&"']/g, (c) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "'": "&apos;" })[c] ?? c);

/** Sends a document, with the checksum that S3 wants of some. */
export async function put(target: string, body: string, method = "PUT", headers: Record<string, string> = {}): Promise<Response> {
  return carry(calls.put(target, body, method, headers));
}

/** The texts of an element's children by their names, the last of several. A selector for each of thousands would take longer than the answer. */
function fields(node: Element): Record<string, string> {
  const out: Record<string, string> = {};
  for (let child = node.firstElementChild; child; child = child.nextElementSibling) out[child.localName] = child.textContent ?? "";
  return out;
}

export type Buckets = { buckets: Bucket[]; next: string | null };

/** At most `limit` buckets (1 to 10,000) after a place that an earlier page named, in order of name. */
export async function listBuckets(limit: number, token: string | null, signal?: AbortSignal): Promise<Buckets> {
  const root = await xml(`/${query({ "max-buckets": String(limit), "continuation-token": token ?? undefined })}`, signal ? { signal } : {});
  const buckets = [...root.getElementsByTagName("Bucket")].map(fields);
  return { buckets: buckets.map((b) => ({ name: b.Name ?? "", created: b.CreationDate ?? "" })), next: text(root, "ContinuationToken") || null };
}

/** All buckets behind such a place. */
export async function listBucketsAfter(token: string | null, signal?: AbortSignal): Promise<Bucket[]> {
  const out: Bucket[] = [];
  for (let next = token; next !== null;) {
    const page = await listBuckets(10_000, next, signal);
    out.push(...page.buckets);
    next = page.next;
  }
  return out;
}

/** Calls that are not sent, to be shown. */
export const calls = {
  createBucket: (name: string, lock: boolean): Call => ({ method: "PUT", url: `s3${bucketPath(name)}`, headers: lock ? { "x-amz-bucket-object-lock-enabled": "true" } : {} }),
  deleteBucket: (name: string): Call => ({ method: "DELETE", url: `s3${bucketPath(name)}` }),
  put: (target: string, body: string, method = "PUT", headers: Record<string, string> = {}): Call => ({
    method, url: `s3${target}`, body, headers: { "x-amz-checksum-crc32": crc32base64(new TextEncoder().encode(body)), "content-type": "application/xml", ...headers },
  }),
  deleteObjects: (bucket: string, keys: Deleted[]): Call => calls.put(`${bucketPath(bucket)}?delete`, deleteXml(keys), "POST"),
  versioning: (bucket: string, on: boolean): Call => calls.put(`${bucketPath(bucket)}?versioning`, versioningXml(on)),
  remove: (target: string): Call => ({ method: "DELETE", url: `s3${target}` }),
  /** Without rules, tags, an algorithm or a document there is none any more. */
  lifecycle: (bucket: string, rules: string[]): Call => {
    const target = `${bucketPath(bucket)}?lifecycle`;
    return rules.length === 0 ? calls.remove(target) : calls.put(target, lifecycleXml(rules));
  },
  tags: (bucket: string, key: string | undefined, tags: Tag[]): Call => {
    const target = key === undefined ? `${bucketPath(bucket)}?tagging` : `${path(bucket, key)}?tagging`;
    const rows = tags.map((t) => `<Tag><Key>${escape(t.key)}</Key><Value>${escape(t.value)}</Value></Tag>`);
    return tags.length === 0 ? calls.remove(target) : calls.put(target, `<Tagging><TagSet>${rows.join("")}</TagSet></Tagging>`);
  },
  lock: (bucket: string, rule: { mode: string; days: number } | null): Call => {
    const body = rule ? `<Rule><DefaultRetention><Mode>${rule.mode}</Mode><Days>${rule.days}</Days></DefaultRetention></Rule>` : "";
    return calls.put(`${bucketPath(bucket)}?object-lock`, `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>${body}</ObjectLockConfiguration>`);
  },
  encryption: (bucket: string, algorithm: "AES256" | "aws:kms" | null, key = ""): Call => {
    const [target, id] = [`${bucketPath(bucket)}?encryption`, key ? `<KMSMasterKeyID>${escape(key)}</KMSMasterKeyID>` : ""];
    return algorithm === null ? calls.remove(target)
      : calls.put(target, `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>${algorithm}</SSEAlgorithm>${id}</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`);
  },
  policy: (bucket: string, document: string): Call => {
    const target = `${bucketPath(bucket)}?policy`;
    return document.trim() === "" ? calls.remove(target) : calls.put(target, document, "PUT", { "content-type": "application/json" });
  },
};

/** Carries out a call. */
export async function carry({ url, ...init }: Call): Promise<Response> {
  return s3(url.slice("s3".length), init);
}

export async function createBucket(name: string, lock: boolean): Promise<void> {
  await carry(calls.createBucket(name, lock));
}

export async function deleteBucket(name: string): Promise<void> {
  await carry(calls.deleteBucket(name));
}

export const bucketPath = (bucket: string) => `/${encodeURIComponent(bucket)}`;

export async function listObjects(bucket: string, prefix: string, token: string | null, signal?: AbortSignal): Promise<Page> {
  const target = bucketPath(bucket) + query({
    "list-type": "2", prefix, delimiter: "/", "max-keys": "1000", "encoding-type": "url", "continuation-token": token ?? undefined,
  });
  return objectsOf(await (await s3(target, signal ? { signal } : {})).text());
}

/** A page of a list of objects, as S3 describes it with keys encoded. */
export function objectsOf(xml: string): Page {
  const decoded = (value: string) => decodeURIComponent(value.replaceAll("+", " "));
  const page: Page = { folders: [], items: [], next: null };
  let [truncated, next, inFolder] = [false, "", false];
  let item: Item = { key: "", size: 0, modified: "", etag: "" };
  const whole = scanXml(xml, (name, text) => {
    switch (name) {
      case "Contents": item = { key: "", size: 0, modified: "", etag: "" }; break;
      case "Key": item.key = decoded(text); break;
      case "Size": item.size = Number(text); break;
      case "LastModified": item.modified = text; break;
      case "ETag": item.etag = text.replaceAll('"', ""); break;
      case "CommonPrefixes": inFolder = true; break;
      case "Prefix": if (inFolder) page.folders.push(decoded(text)); break;
      case "IsTruncated": truncated = text === "true"; break;
      case "NextContinuationToken": next = text; break;
    }
  }, (name) => {
    if (name === "Contents") page.items.push(item);
    else if (name === "CommonPrefixes") inFolder = false;
  });
  if (!whole) throw new Failure(0, "Unreachable", "");
  page.next = truncated ? next : null;
  return page;
}

/** The versions of one key, the newest first; at most 1000. */
export async function listVersions(bucket: string, key: string): Promise<Version[]> {
  const root = await xml(bucketPath(bucket) + query({ versions: "", prefix: key, "max-keys": "1000" }));
  return [...root.children]
    .filter((n) => (n.localName === "Version" || n.localName === "DeleteMarker") && text(n, "Key") === key)
    .map((n) => ({
      key, size: Number(text(n, "Size") || 0), modified: text(n, "LastModified"), etag: text(n, "ETag").replaceAll('"', ""),
      versionId: text(n, "VersionId"), latest: text(n, "IsLatest") === "true", marker: n.localName === "DeleteMarker",
    }));
}

type Deleted = { key: string; versionId?: string };

function deleteXml(keys: Deleted[]): string {
  const rows = keys.map((k) => `<Object><Key>${escape(k.key)}</Key>${k.versionId ? `<VersionId>${escape(k.versionId)}</VersionId>` : ""}</Object>`);
  return `<Delete><Quiet>true</Quiet>${rows.join("")}</Delete>`;
}

/** Deletes keys, at most 1000; answers those that could not be deleted, with the reason. */
export async function deleteObjects(bucket: string, keys: Deleted[]): Promise<{ key: string; why: string }[]> {
  const response = await carry(calls.deleteObjects(bucket, keys));
  const root = parse(await response.text()).documentElement;
  return all(root, "Error").map((e) => ({ key: text(e, "Key"), why: text(e, "Message") }));
}

export type Head = { size: number; type: string; modified: string; etag: string; versionId: string | null; all: [string, string][] };

export async function headObject(bucket: string, key: string, versionId?: string): Promise<Head> {
  const response = await send(`s3${path(bucket, key)}${query({ versionId })}`, { method: "HEAD" });
  if (!response.ok) throw new Failure(response.status, `HTTP${response.status}`, "", response.headers.get("x-amz-request-id") ?? undefined);
  const h = response.headers;
  return {
    size: Number(h.get("content-length")), type: h.get("content-type") ?? "", modified: h.get("last-modified") ?? "",
    etag: (h.get("etag") ?? "").replaceAll('"', ""), versionId: h.get("x-amz-version-id"),
    all: [...h.entries()].filter(([name]) => name.startsWith("x-amz-") && !["x-amz-request-id", "x-amz-id-2", "x-amz-version-id"].includes(name)
      || ["cache-control", "content-encoding", "content-disposition", "content-language", "expires"].includes(name) && !(name === "cache-control" && h.get(name) === "private, no-cache")),
  };
}

export async function getTags(bucket: string, key?: string): Promise<Tag[]> {
  const target = key === undefined ? `${bucketPath(bucket)}?tagging` : `${path(bucket, key)}?tagging`;
  const root = await optional(target);
  return root ? all(root, "TagSet").flatMap((s) => all(s, "Tag")).map((t) => ({ key: text(t, "Key"), value: text(t, "Value") })) : [];
}

export async function putTags(bucket: string, key: string | undefined, tags: Tag[]): Promise<void> {
  await carry(calls.tags(bucket, key, tags));
}

export type Versioning = "Enabled" | "Suspended" | "Off";

export async function getVersioning(bucket: string): Promise<Versioning> {
  const status = text(await xml(`${bucketPath(bucket)}?versioning`), "Status");
  return status === "Enabled" || status === "Suspended" ? status : "Off";
}

const versioningXml = (on: boolean) => `<VersioningConfiguration><Status>${on ? "Enabled" : "Suspended"}</Status></VersioningConfiguration>`;

export async function putVersioning(bucket: string, on: boolean): Promise<void> {
  await carry(calls.versioning(bucket, on));
}

export type Lock = { mode: "GOVERNANCE" | "COMPLIANCE"; days: number | null; years: number | null } | "no default" | null;

export async function getLock(bucket: string): Promise<Lock> {
  const root = await optional(`${bucketPath(bucket)}?object-lock`);
  if (!root) return null;
  const rule = root.querySelector("DefaultRetention");
  if (!rule) return "no default";
  const number = (name: string) => (text(rule, name) ? Number(text(rule, name)) : null);
  return { mode: text(rule, "Mode") as "GOVERNANCE", days: number("Days"), years: number("Years") };
}

export type Encryption = { algorithm: string; key: string } | null;

export async function getEncryption(bucket: string): Promise<Encryption> {
  const root = await optional(`${bucketPath(bucket)}?encryption`);
  const rule = root?.querySelector("ApplyServerSideEncryptionByDefault");
  return rule ? { algorithm: text(rule, "SSEAlgorithm"), key: text(rule, "KMSMasterKeyID") } : null;
}

export async function getPolicy(bucket: string): Promise<string> {
  try {
    return await (await s3(`${bucketPath(bucket)}?policy`)).text();
  } catch (error) {
    if (error instanceof Failure && error.code === "NoSuchBucketPolicy") return "";
    throw error;
  }
}

export type Rule = { id: string; enabled: boolean; prefix: string; days: number | null; noncurrentDays: number | null; abortDays: number | null; other: string[]; xml: string };

export async function getLifecycle(bucket: string): Promise<Rule[]> {
  const root = await optional(`${bucketPath(bucket)}?lifecycle`);
  if (!root) return [];
  return all(root, "Rule").map((r) => {
    const n = (selector: string) => {
      const value = r.querySelector(selector)?.textContent;
      return value ? Number(value) : null;
    };
    const known = new Set(["ID", "Status", "Prefix", "Filter", "Expiration", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"]);
    const other = [...r.children].map((c) => c.localName).filter((name) => !known.has(name));
    const filter = r.querySelector("Filter");
    if (filter && [...filter.querySelectorAll("*")].some((e) => e.localName !== "Prefix")) other.push("Filter");
    if (r.querySelector("Expiration > Date")) other.push("Expiration/Date");
    if (r.querySelector("Expiration > ExpiredObjectDeleteMarker")) other.push("ExpiredObjectDeleteMarker");
    if (r.querySelector("NewerNoncurrentVersions")) other.push("NewerNoncurrentVersions");
    return {
      id: text(r, "ID"), enabled: text(r, "Status") === "Enabled", prefix: r.querySelector("Prefix")?.textContent ?? "",
      days: n("Expiration > Days"), noncurrentDays: n("NoncurrentVersionExpiration > NoncurrentDays"), abortDays: n("AbortIncompleteMultipartUpload > DaysAfterInitiation"),
      other, xml: new XMLSerializer().serializeToString(r),
    };
  });
}

/** The XML of a rule made here. */
export function ruleXml(rule: Omit<Rule, "xml" | "other">): string {
  const days = (outer: string, inner: string, value: number | null) => (value === null ? "" : `<${outer}><${inner}>${value}</${inner}></${outer}>`);
  return `<Rule><ID>${escape(rule.id)}</ID><Status>${rule.enabled ? "Enabled" : "Disabled"}</Status><Filter><Prefix>${escape(rule.prefix)}</Prefix></Filter>${days("Expiration", "Days", rule.days)}${days("NoncurrentVersionExpiration", "NoncurrentDays", rule.noncurrentDays)}${days("AbortIncompleteMultipartUpload", "DaysAfterInitiation", rule.abortDays)}</Rule>`;
}

const lifecycleXml = (rules: string[]) => `<LifecycleConfiguration>${rules.join("")}</LifecycleConfiguration>`;

/** Opens an object in the browser's own download, or answers its address for an image, audio or video. */
export async function address(bucket: string, key: string, options: { versionId?: string; save?: boolean } = {}): Promise<string> {
  const name = key.split("/").pop() || key;
  const disposition = options.save ? `attachment; filename*=UTF-8''${encode(name)}` : undefined;
  const target = path(bucket, key) + query({ versionId: options.versionId, "response-content-disposition": disposition });
  return (await gateway.ticket(target)).url;
}

export async function download(bucket: string, key: string, versionId?: string): Promise<void> {
  save(await address(bucket, key, versionId ? { versionId, save: true } : { save: true }));
}

/** All objects whose keys begin with `prefix`, as an archive that the server sends as it reads. */
export async function downloadFolder(bucket: string, prefix: string): Promise<void> {
  save((await gateway.ticket(`${path(bucket, prefix)}?ashlar-zip`)).url);
}

/** The browser's own download; an answer with an error is a failed download, not a page that takes this one's place. */
function save(address: string) {
  const link = document.createElement("a");
  link.href = address;
  link.download = "";
  link.rel = "noopener";
  document.body.append(link);
  link.click();
  link.remove();
}

/** Sends bytes with progress, which `fetch` does not report. */
export function upload(
  target: string, body: Blob, headers: Record<string, string>, progress: (sent: number) => void, signal: AbortSignal,
): Promise<{ etag: string }> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `s3${target}`);
    for (const [name, value] of Object.entries({ ...HEADERS, ...headers })) request.setRequestHeader(name, value);
    request.upload.onprogress = (e) => progress(e.loaded);
    request.onload = async () => {
      if (request.status >= 200 && request.status < 300) resolve({ etag: request.getResponseHeader("etag") ?? "" });
      else reject(await failure(new Response(request.responseText, { status: request.status })));
    };
    request.onerror = () => reject(new Failure(0, "Unreachable", ""));
    request.onabort = () => reject(new DOMException("aborted", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(body);
  });
}

export async function beginUpload(bucket: string, key: string, type: string): Promise<string> {
  const root = await xml(`${path(bucket, key)}?uploads`, { method: "POST", headers: { "content-type": type || "application/octet-stream", "x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "COMPOSITE" } });
  return text(root, "UploadId");
}

/** An upload in parts that nobody completed or aborted. `ours`: it was begun here, so that parts can be added. */
export type Unfinished = { key: string; id: string; begun: string; ours: boolean };

/** Unfinished uploads of keys that begin with `prefix`: the first 1,000. */
export async function listUploads(bucket: string, prefix: string, signal?: AbortSignal): Promise<Unfinished[]> {
  const root = await xml(`${bucketPath(bucket)}${query({ uploads: "", prefix, "max-uploads": "1000", "encoding-type": "url" })}`, signal ? { signal } : {});
  return [...root.children].filter((n) => n.localName === "Upload").map((n) => {
    const u = fields(n);
    return { key: decodeURIComponent((u.Key ?? "").replace(/\+/g, " ")), id: u.UploadId ?? "", begun: u.Initiated ?? "", ours: u.ChecksumAlgorithm === "CRC32" && u.ChecksumType === "COMPOSITE" };
  });
}

/** `crc`: empty if the part has none. */
export type StoredPart = { number: number; size: number; etag: string; crc: string };

/** All parts of an upload that the server has. */
export async function listParts(bucket: string, key: string, id: string, signal?: AbortSignal): Promise<StoredPart[]> {
  const parts: StoredPart[] = [];
  for (let after: string | undefined; ;) {
    const root = await xml(path(bucket, key) + query({ uploadId: id, "max-parts": "1000", "part-number-marker": after }), signal ? { signal } : {});
    for (const node of root.children) {
      if (node.localName !== "Part") continue;
      const p = fields(node);
      parts.push({ number: Number(p.PartNumber), size: Number(p.Size), etag: p.ETag ?? "", crc: p.ChecksumCRC32 ?? "" });
    }
    if (text(root, "IsTruncated") !== "true") return parts;
    after = text(root, "NextPartNumberMarker");
  }
}

export async function completeUpload(bucket: string, key: string, id: string, parts: { etag: string; crc: string }[]): Promise<void> {
  const rows = parts.map((p, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escape(p.etag)}</ETag><ChecksumCRC32>${p.crc}</ChecksumCRC32></Part>`);
  const response = await s3(`${path(bucket, key)}${query({ uploadId: id })}`, {
    method: "POST", body: `<CompleteMultipartUpload>${rows.join("")}</CompleteMultipartUpload>`, headers: { "content-type": "application/xml" },
  });
  const root = parse(await response.text()).documentElement;
  // S3 can fail after it has begun to answer with 200.
  if (root.localName === "Error") throw new Failure(500, text(root, "Code"), text(root, "Message"));
}

export async function abortUpload(bucket: string, key: string, id: string): Promise<void> {
  await s3(`${path(bucket, key)}${query({ uploadId: id })}`, { method: "DELETE" });
}
