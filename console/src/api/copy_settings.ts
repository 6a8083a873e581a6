// The settings of one bucket for another, as documents that are not looked into. Objects are not copied.
import { api, Failure } from "./client";
import { bucketPath, put, s3 } from "./s3";

/** Documents that a bucket has. A new version of each is valid for any bucket, except where it names its own. */
const DOCUMENTS = ["versioning", "encryption", "lifecycle", "cors", "website", "notification", "logging", "tagging", "object-lock", "policy"] as const;
export type Setting = (typeof DOCUMENTS)[number] | "quota";

/** Whether a document that S3 answers where nothing was set says nothing. */
function isEmpty(document: string): boolean {
  const root = new DOMParser().parseFromString(document, "application/xml").documentElement;
  return root.childElementCount === 0;
}

/** The policy of a bucket for another one: its resources name the bucket. */
export function policyFor(document: string, from: string, to: string): string {
  const own = new RegExp(`^(arn:aws:s3:::)${from.replaceAll(".", "\\.")}(?=$|/)`);
  const renamed = (value: unknown): unknown => (Array.isArray(value) ? value.map(renamed) : typeof value === "string" ? value.replace(own, `$1${to}`) : value);
  const policy = JSON.parse(document) as { Statement?: Record<string, unknown> | Record<string, unknown>[] };
  for (const statement of [policy.Statement ?? []].flat()) {
    for (const name of ["Resource", "NotResource"]) if (name in statement) statement[name] = renamed(statement[name]);
  }
  return JSON.stringify(policy);
}

async function copyOne(what: Setting, from: string, to: string): Promise<void> {
  if (what === "quota") {
    const { quota } = await api("/quotas/{bucket}", "get", { path: { bucket: from } });
    if (quota) await api("/quotas/{bucket}", "put", { path: { bucket: to }, body: { quota } as never });
    return;
  }
  let document;
  try {
    document = await (await s3(`${bucketPath(from)}?${what}`)).text();
  } catch (error) {
    // There is none.
    if (error instanceof Failure && error.status === 404 && error.code !== "NoSuchBucket") return;
    throw error;
  }
  if (what === "policy") await put(`${bucketPath(to)}?policy`, policyFor(document, from, to), "PUT", { "content-type": "application/json" });
  else if (!isEmpty(document)) await put(`${bucketPath(to)}?${what}`, document);
}

/** Copies what can be copied; answers what could not, with the reason. */
export async function copySettings(from: string, to: string): Promise<{ what: Setting; why: string }[]> {
  const failed = [];
  for (const what of [...DOCUMENTS, "quota"] as const) {
    try {
      await copyOne(what, from, to);
    } catch (error) {
      failed.push({ what, why: error instanceof Error ? error.message : String(error) });
    }
  }
  return failed;
}
