// Retention and legal hold of one version of an object.
import type { Call } from "../lib/acts";
import { calls, escape, optional, path, query, text } from "./s3";

export type Mode = "GOVERNANCE" | "COMPLIANCE";
/** `until`: an instant in ISO 8601. */
export type Retention = { mode: Mode; until: string };

const target = (bucket: string, key: string, versionId: string | null, what: string) => path(bucket, key) + query({ [what]: "", versionId: versionId ?? undefined });

/** The retention of a version; null: it has none. */
export async function getRetention(bucket: string, key: string, versionId: string | null): Promise<Retention | null> {
  const root = await optional(target(bucket, key, versionId, "retention"));
  const mode = root && text(root, "Mode");
  return root && mode ? { mode: mode as Mode, until: text(root, "RetainUntilDate") } : null;
}

/** The call that changes a retention. `bypass`: one in governance mode is shortened or removed, which needs a permission of its own. */
export function retentionCall(bucket: string, key: string, versionId: string | null, rule: Retention | null, bypass: boolean): Call {
  const body = rule ? `<Mode>${rule.mode}</Mode><RetainUntilDate>${escape(rule.until)}</RetainUntilDate>` : "";
  return calls.put(target(bucket, key, versionId, "retention"), `<Retention>${body}</Retention>`, "PUT", bypass ? { "x-amz-bypass-governance-retention": "true" } : {});
}

export async function getLegalHold(bucket: string, key: string, versionId: string | null): Promise<boolean> {
  const root = await optional(target(bucket, key, versionId, "legal-hold"));
  return root !== null && text(root, "Status") === "ON";
}

/** The call that puts a version under legal hold, or lifts it. */
export function legalHoldCall(bucket: string, key: string, versionId: string | null, on: boolean): Call {
  return calls.put(target(bucket, key, versionId, "legal-hold"), `<LegalHold><Status>${on ? "ON" : "OFF"}</Status></LegalHold>`);
}
