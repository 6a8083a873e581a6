// "Show the command": what a dialog is about to do, for a terminal. In a file of its own, so that the first page does not load it.
import { useState } from "react";
import { CopyBox } from ".";
import { useT } from "../i18n";
import type { Call } from "../lib/acts";
import { commandsOf } from "../lib/commands";
import { endpointOf } from "../lib/endpoint";
import { useSession } from "../lib/session";

/** The commands of calls, each to copy. */
export function Commands({ calls }: { calls: readonly Call[] }) {
  const session = useSession();
  const commands = commandsOf(calls, { endpoint: endpointOf(session?.s3_port), region: session?.region ?? "us-east-1" });
  return (
    <div className="flex flex-col gap-2">
      {commands.map(({ program, text }) => <CopyBox key={program} headed label={program} text={text} />)}
    </div>
  );
}

export default function ShowCommand({ calls }: { calls: readonly Call[] }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)} className="rounded-md border px-3 py-2">
      <summary className="cursor-pointer text-sm text-soft hover:text-text">{t.commands.show}</summary>
      {open && <div className="mt-2 flex flex-col gap-2"><Commands calls={calls} /><p className="text-xs text-soft">{t.commands.secrets}</p></div>}
    </details>
  );
}
