// Settings as lines, as `ashlar admin config export` writes and `config import` reads them:
//
//   SUBSYSTEM[:TARGET] NAME="VALUE" ...

export type SettingLine = { subsystem: string; target: string; values: Record<string, string> };

/** The target of a subsystem that has only one. */
export const ONLY = "_";

export function formatLine(s: SettingLine): string {
  const values = Object.entries(s.values).map(([name, value]) => ` ${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`);
  return `${s.subsystem}${s.target === ONLY ? "" : `:${s.target}`}${values.join("")}`;
}

/** Splits each line into words; quotes keep spaces and line ends in a word. Null: a quote is not closed. */
function words(text: string): string[][] | null {
  const lines: string[][] = [[]];
  let word = "";
  let begun = false;
  let quoted = false;
  let comment = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (comment && c !== "\n") continue;
    if (c === "\\" && quoted) word += text[++i] ?? "";
    else if (c === '"' && (quoted || word === "" || word.endsWith("="))) {
      quoted = !quoted;
      begun = true;
    } else if (c === "#" && !begun && !quoted && lines.at(-1)!.length === 0) comment = true;
    else if (/\s/.test(c) && !quoted) {
      if (begun) lines.at(-1)!.push(word);
      word = "";
      begun = false;
      if (c === "\n") {
        comment = false;
        lines.push([]);
      }
    } else {
      word += c;
      begun = true;
    }
  }
  if (quoted) return null;
  if (begun) lines.at(-1)!.push(word);
  return lines.filter((l) => l.length > 0);
}

/** The settings of a text. A string: the line that is not understood; empty: a quote is not closed. */
export function parseLines(text: string): SettingLine[] | string {
  const lines = words(text);
  if (lines === null) return "";
  const out: SettingLine[] = [];
  for (const [subject, ...rest] of lines) {
    const [subsystem = "", target = ""] = subject!.split(":");
    const values: Record<string, string> = {};
    let last: string | null = null;
    for (const word of rest) {
      const at = word.indexOf("=");
      if (at > 0 && /^[a-z_]+$/.test(word.slice(0, at))) {
        last = word.slice(0, at);
        if (last in values) return subject!;
        values[last] = word.slice(at + 1);
      } else if (last !== null) values[last] += ` ${word}`;
      else return subject!;
    }
    if (!/^[a-z_]+$/.test(subsystem)) return subject!;
    out.push({ subsystem, target: target || ONLY, values });
  }
  return out;
}
