// What the person changed since the page was opened, as commands to repeat it.
import { useT } from "../i18n";
import { useActs } from "../lib/acts";
import { useFormat } from "../lib/format";
import { Card, Empty, Head } from "../ui";
import { Commands } from "../ui/show_command";

export function CommandLog() {
  const t = useT();
  const f = useFormat();
  const acts = useActs();
  return (
    <>
      <Head title={t.nav.commands} about={t.commands.about} />
      {acts.length === 0 ? <Card><Empty icon="terminal" title={t.commands.none} text={t.commands.noneText} /></Card> : (
        <>
          <p className="mb-3 text-sm text-soft">{t.commands.secrets}</p>
          <ol className="flex flex-col gap-3">
            {acts.map((act) => (
              <li key={act.id} className="rounded-xl border bg-surface p-4 shadow-card sm:px-5">
                <p className="num mb-2 text-xs text-soft">{f.when(act.at_ms)}</p>
                <Commands calls={[act]} />
              </li>
            ))}
          </ol>
        </>
      )}
    </>
  );
}
