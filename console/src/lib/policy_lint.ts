// What is probably wrong with a policy document, and how its names go on. The server checks a document when it is stored; this is for
// what it accepts and nobody can have meant, and for mistakes while somebody types.
import ACTIONS from "./actions.json";

type Level = "object" | "bucket" | "service" | "kms";
const LEVELS = ACTIONS as Record<string, Level>;
const NAMES = Object.keys(LEVELS);

export type Finding =
  | { what: "effect" | "no-action" | "no-resource"; statement: number }
  | { what: "action" | "arn" | "needs-objects" | "needs-bucket"; statement: number; name: string };

const list = (value: unknown): string[] => [value].flat().filter((v): v is string => typeof v === "string");

/** The actions that a name with `*` and `?` stands for. */
export function actionsOf(pattern: string): string[] {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  const matches = new RegExp(`^${source}$`, "i");
  return NAMES.filter((name) => matches.test(name));
}

/** Findings in the order of the statements; none if the text is not JSON. */
export function lint(text: string): Finding[] {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return [];
  }
  const statements = [(document as { Statement?: unknown } | null)?.Statement ?? []].flat();
  return statements.flatMap((s, statement) => (typeof s === "object" && s !== null ? lintStatement(s as Record<string, unknown>, statement + 1) : []));
}

function lintStatement(s: Record<string, unknown>, statement: number): Finding[] {
  const out: Finding[] = [];
  if (s.Effect !== "Allow" && s.Effect !== "Deny") out.push({ what: "effect", statement });
  const actions = list(s.Action);
  if (actions.length === 0 && list(s.NotAction).length === 0) out.push({ what: "no-action", statement });
  for (const name of [...actions, ...list(s.NotAction)]) if (actionsOf(name).length === 0) out.push({ what: "action", statement, name });
  const resources = [...list(s.Resource), ...list(s.NotResource)];
  for (const name of resources) if (name !== "*" && !/^arn:(aws|minio):(s3|kms)::/.test(name) && !/^arn:minio:kms:/.test(name)) out.push({ what: "arn", statement, name });
  const kinds = new Set(actions.flatMap(actionsOf).map((name) => LEVELS[name]));
  if (resources.length === 0 && (kinds.has("object") || kinds.has("bucket"))) out.push({ what: "no-resource", statement });
  // An action is named alone, so that a pattern that stands for both kinds is meant so.
  const own = list(s.Resource);
  if (own.length === 0 || own.some((r) => r === "*" || r.includes("${"))) return out;
  const objects = own.some((r) => /^arn:aws:s3:::[^/]*([/*?])/.test(r));
  const buckets = own.some((r) => /^arn:aws:s3:::[^/]+$/.test(r));
  for (const name of actions) {
    const levels = new Set(actionsOf(name).map((a) => LEVELS[a]));
    if (levels.size !== 1) continue;
    if (levels.has("object") && !objects) out.push({ what: "needs-objects", statement, name });
    if (levels.has("bucket") && !buckets) out.push({ what: "needs-bucket", statement, name });
  }
  return out;
}

/** Other words that a document has, as values or names. */
const WORDS = ["Allow", "Deny", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal", "Condition", "Statement", "Version", "Sid", "2012-10-17", "arn:aws:s3:::"];
const MOST = 8;

/** What the string at `caret` may become: where it begins, and the texts. Null: `caret` is not in a string that can go on. */
export function completions(text: string, caret: number): { from: number; options: string[] } | null {
  // Strings have no line ends, so the quotes of the line tell whether it is one.
  const line = text.slice(text.lastIndexOf("\n", caret - 1) + 1, caret);
  const quotes = line.replace(/\\./g, "__");
  if ((quotes.split('"').length - 1) % 2 === 0) return null;
  const typed = line.slice(quotes.lastIndexOf('"') + 1);
  if (typed === "" || typed.includes("*")) return null;
  const begins = (name: string) => name.toLowerCase().startsWith(typed.toLowerCase());
  const after = (name: string) => name.toLowerCase().includes(`:${typed.toLowerCase()}`);
  const options = [...WORDS.filter(begins), ...NAMES.filter(begins), ...NAMES.filter((n) => !begins(n) && after(n))].filter((o) => o !== typed).slice(0, MOST);
  return options.length > 0 ? { from: caret - typed.length, options } : null;
}
