// What protects the current version of an object against deletion: its retention and its legal hold.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { getLegalHold, getRetention, legalHoldCall, retentionCall, type Mode, type Retention } from "../api/object_lock";
import { carry, getLock } from "../api/s3";
import { useT } from "../i18n";
import type { Call } from "../lib/acts";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { Button, CommandPreview, Empty, Field, Input, Loading, Problem, Select, Toggle, toast } from "../ui";

const DAY_MS = 86_400_000;
/** The day of an instant, as a field for dates has it (UTC). */
const dayOf = (at: number | string) => new Date(at).toISOString().slice(0, 10);

export default function Protection({ bucket, name, versionId }: { bucket: string; name: string; versionId: string | null }) {
  const t = useT();
  const client = useQueryClient();
  const on = `${bucket}/${name}`;
  const may = useMay(["s3:PutObjectRetention", on], ["s3:PutObjectLegalHold", on], ["s3:BypassGovernanceRetention", on]);
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  const lock = useQuery({ queryKey: ["bucket", bucket, "lock"], queryFn: () => getLock(bucket), retry: false });
  const key = ["protection", bucket, name, versionId];
  const state = useQuery({
    queryKey: key, retry: false, enabled: lock.isSuccess && lock.data !== null,
    queryFn: async () => ({ retention: await getRetention(bucket, name, versionId), hold: await getLegalHold(bucket, name, versionId) }),
  });
  const change = useMutation({
    mutationFn: (call: () => Promise<unknown>) => call(),
    onSuccess: () => toast(t.saved),
    onSettled: () => client.invalidateQueries({ queryKey: key }),
  });
  if (lock.isError) return <Problem error={lock.error} />;
  if (lock.data === null) return <Empty icon="lock" title={t.objectLock.none} text={t.objectLock.noneText} />;
  if (state.isError) return <Problem error={state.error} />;
  if (!state.data) return <Loading />;
  const { retention, hold } = state.data;
  return (
    <div className="flex flex-col gap-6">
      <p className="text-sm text-soft">{t.objectLock.about}</p>
      <div className="flex flex-col gap-3">
        <Toggle label={t.objectLock.hold} hint={because("s3:PutObjectLegalHold") ?? t.objectLock.holdHint} checked={hold} disabled={because("s3:PutObjectLegalHold") !== undefined || change.isPending} onChange={(to) => change.mutate(() => carry(legalHoldCall(bucket, name, versionId, to)))} />
        <CommandPreview calls={because("s3:PutObjectLegalHold") ? [] : [legalHoldCall(bucket, name, versionId, !hold)]} />
      </div>
      <RetentionForm key={JSON.stringify(retention)} retention={retention} because={because("s3:PutObjectRetention")} noBypass={because("s3:BypassGovernanceRetention")} busy={change.isPending}
        callOf={(rule, bypass) => retentionCall(bucket, name, versionId, rule, bypass)} onSave={(call) => change.mutate(() => carry(call))} />
      {change.error && <Problem error={change.error} />}
    </div>
  );
}

function RetentionForm({ retention, because, noBypass, busy, callOf, onSave }: { retention: Retention | null; because: string | undefined; noBypass: string | undefined; busy: boolean; callOf: (rule: Retention | null, bypass: boolean) => Call; onSave: (call: Call) => void }) {
  const t = useT();
  const f = useFormat();
  const [now] = useState(() => Date.now());
  const [mode, setMode] = useState<Mode | "">(retention?.mode ?? "");
  const [day, setDay] = useState(retention ? dayOf(retention.until) : dayOf(now + 30 * DAY_MS));
  // To the end of the day that is chosen; a day that is not changed keeps its time.
  const until = retention && day === dayOf(retention.until) ? retention.until : `${day}T23:59:59Z`;
  const runs = retention !== null && Date.parse(retention.until) > now;
  const weaker = runs && (mode === "" || (retention.mode === "COMPLIANCE" && mode !== "COMPLIANCE") || Date.parse(until) < Date.parse(retention.until));
  const same = (retention?.mode ?? "") === mode && (mode === "" || until === retention?.until);
  const bad = mode !== "" && (day === "" || !(Date.parse(until) > now)) ? t.objectLock.past
    : weaker && retention.mode === "COMPLIANCE" ? t.objectLock.onlyLonger : weaker ? noBypass : undefined;
  const call = callOf(mode === "" ? null : { mode, until }, weaker);
  return (
    <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); if (!(because ?? bad) && !same && !busy) onSave(call); }}>
      <p className="text-sm">{retention ? (runs ? t.objectLock.until(retention.mode === "COMPLIANCE" ? t.lock.modeCompliance : t.lock.modeGovernance, f.when(retention.until)) : t.objectLock.over(f.when(retention.until))) : t.objectLock.noRetention}</p>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t.objectLock.retention} hint={mode === "COMPLIANCE" ? t.lock.compliance : mode === "GOVERNANCE" ? t.lock.governance : undefined}>
          {(p) => <Select {...p} value={mode} onChange={(e) => setMode(e.target.value as Mode | "")}><option value="">{t.lock.modeNone}</option><option value="GOVERNANCE">{t.lock.modeGovernance}</option><option value="COMPLIANCE">{t.lock.modeCompliance}</option></Select>}
        </Field>
        {mode !== "" && <Field label={t.objectLock.lastDay} hint={t.objectLock.lastDayHint} error={bad}>{(p) => <Input {...p} type="date" min={dayOf(now)} value={day} onChange={(e) => setDay(e.target.value)} />}</Field>}
      </div>
      {mode === "COMPLIANCE" && !same && <p className="rounded-md bg-warn-soft px-3 py-2 text-sm">{t.objectLock.forGood}</p>}
      <CommandPreview calls={(because ?? bad) || same ? [] : [call]} />
      <div><Button type="submit" busy={busy} because={because ?? bad ?? (same ? t.unchanged : undefined)}>{weaker ? t.objectLock.bypass : t.save}</Button></div>
    </form>
  );
}
