// An editor of JSON documents: it says where a document is wrong before it is sent.
import { useId } from "react";
import { useT } from "../i18n";
import { Icon } from "./icons";
import { TextArea } from ".";

/** Where and why a text is not JSON; null if it is. */
export function jsonProblem(text: string): { line: number | null; why: string } | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const line = /line (\d+)/.exec(why)?.[1];
    const position = /position (\d+)/.exec(why)?.[1];
    return { line: line ? Number(line) : position ? text.slice(0, Number(position)).split("\n").length : null, why };
  }
}

export function JsonEditor({ label, value, onChange, rows = 16, readOnly }: { label: string; value: string; onChange: (text: string) => void; rows?: number; readOnly?: boolean }) {
  const t = useT();
  const id = useId();
  const problem = value.trim() === "" ? null : jsonProblem(value);
  return (
    <div>
      <TextArea aria-label={label} aria-describedby={`${id}-state`} aria-invalid={problem ? true : undefined} rows={rows} value={value} readOnly={readOnly ?? false} onChange={(e) => onChange(e.target.value)} />
      <p id={`${id}-state`} role="status" className={`mt-1 flex items-center gap-1.5 text-xs ${problem ? "text-bad" : "text-soft"}`}>
        {value.trim() !== "" && <><Icon name={problem ? "bad" : "check"} className="size-3.5" /> {problem ? (problem.line ? t.json.wrongAt(problem.line, problem.why) : problem.why) : t.json.good}</>}
      </p>
    </div>
  );
}
