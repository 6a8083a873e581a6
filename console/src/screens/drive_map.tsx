// All drives of a server at a glance, like the bays of its enclosure, and how many more drives data can lose.
import clsx from "clsx";
import type { Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { Card, Meter } from "../ui";

type Drive = Schemas["DriveState"];
type Info = Schemas["Info"];

/** How many times slower than the middle one of its peers a drive has to be to be named, and at least by how many milliseconds. */
const SLOW = { times: 2, by: 2 };

/** The middle time of a group commit of the drives that serve; null: too few of them to compare. */
export function commonCommitMs(drives: Drive[]): number | null {
  const times = drives.filter((d) => d.state === "online" && d.commit_ms != null).map((d) => d.commit_ms!).sort((a, b) => a - b);
  return times.length >= 3 ? times[times.length >> 1]! : null;
}

/** How many times slower a drive is than the middle one; null: it is not noticeably. */
export function slowness(drive: Drive, common: number | null): number | null {
  if (common === null || drive.commit_ms == null || drive.commit_ms < common * SLOW.times || drive.commit_ms - common < SLOW.by) return null;
  return drive.commit_ms / Math.max(common, 0.1);
}

const TONES: Record<string, string> = {
  online: "border-good bg-good-soft", joining: "border-accent bg-accent-soft", "read-only": "border-warn bg-warn-soft", unknown: "border-warn bg-warn-soft",
};

/** The bays of a server. A bay leads to the card of its drive, whose element has the id `drive-ID`. */
export function Bays({ drives }: { drives: Drive[] }) {
  const t = useT();
  return (
    <ul className="mb-3 flex flex-wrap gap-1.5" aria-label={t.drives.bays}>
      {drives.map((d, i) => {
        const state = t.driveState[d.state as keyof typeof t.driveState] ?? d.state;
        const used = d.capacity && d.free != null ? (d.capacity - d.free) / d.capacity : 0;
        const go = () => {
          const card = document.getElementById(`drive-${d.id}`);
          card?.scrollIntoView({ block: "center" });
          card?.focus({ preventScroll: true });
        };
        return (
          <li key={d.id}>
            <button type="button" onClick={go} aria-label={t.drives.bay(i + 1, d.path, state)} title={`${d.path}: ${state}`} className={clsx("num relative grid h-11 w-9 place-items-center overflow-hidden rounded border-2 text-xs font-medium", TONES[d.state] ?? "border-bad bg-bad-soft")}>
              <span aria-hidden="true" className="absolute inset-x-0 bottom-0 bg-line-strong/30" style={{ height: `${Math.round(used * 100)}%` }} />
              <span className="relative">{i + 1}</span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}

/** How many placement groups can lose how many more drives and still serve all requests: the redundancy that is there now. */
export function Ledger({ info }: { info: Info }) {
  const t = useT();
  const f = useFormat();
  const groups = info.groups;
  if (groups.length === 0) return null;
  const serving = groups.filter((g) => g.readable && g.writable);
  const most = Math.max(info.writes_tolerate, ...serving.map((g) => g.spare));
  const rows = [
    { label: t.ledger.unreadable, n: groups.filter((g) => !g.readable).length, tone: "bad" as const },
    { label: t.ledger.unwritable, n: groups.filter((g) => g.readable && !g.writable).length, tone: "bad" as const },
    ...Array.from({ length: most + 1 }, (_, spare) => ({ label: t.ledger.canLose(spare), n: serving.filter((g) => g.spare === spare).length, tone: spare === 0 ? ("warn" as const) : ("accent" as const) })),
  ].filter((r) => r.n > 0 || r.tone !== "bad");
  return (
    <Card title={t.ledger.title} className="mt-6">
      <div className="p-4 sm:px-5">
        <p className="mb-3 text-sm text-soft">{t.ledger.about(info.reads_tolerate)}</p>
        <ul className="flex flex-col gap-2.5">
          {rows.map((r) => (
            <li key={r.label} className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 gap-y-1 text-sm sm:grid-cols-[14rem_minmax(0,1fr)_6rem]">
              <span className={clsx(r.tone === "bad" && "font-medium text-bad")}>{r.label}</span>
              <span className="num text-right sm:order-last">{t.countOf(f.count(r.n), f.count(groups.length))}</span>
              <span className="max-sm:col-span-2"><Meter value={r.n / groups.length} label={r.label} tone={r.tone} /></span>
            </li>
          ))}
        </ul>
      </div>
    </Card>
  );
}
