// The limits of healing and scrub: what is in force, and the dialog that changes them for all nodes.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, callOf, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { changed, rateOf, shareOf, written, type Written } from "../lib/heal_limits";
import { Button, Dialog, Field, Form, Input, toast } from "../ui";

type Stored = Schemas["StoredHealLimits"];

/** The rows of the card. */
export function useLimitRows(limits: Stored | undefined): [string, string][] {
  const t = useT();
  const f = useFormat();
  if (!limits) return [];
  const rate = (bytes: number) => (bytes === 0 ? t.limits.none : t.limits.rate(f.bytes(bytes)));
  return [
    [t.limits.heal, rate(limits.max_rate)],
    [t.limits.scrub, rate(limits.scrub_max_rate)],
    [t.limits.busy, f.percent(limits.busy_share / 100)],
  ];
}

/** The button of the card and its dialog. */
export function ChangeLimits({ limits, because }: { limits: Stored; because: string | undefined }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon="edit" because={because} onClick={() => setOpen(true)}>{t.limits.change}</Button>
      {open && <LimitsDialog limits={limits} onClose={() => setOpen(false)} />}
    </>
  );
}

function LimitsDialog({ limits, onClose }: { limits: Stored; onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [form, setForm] = useState<Written>(written(limits));
  const order = changed(limits, form);
  const put = { body: order ?? {} };
  const done = {
    onSuccess: () => { toast(t.done); onClose(); },
    onSettled: () => client.invalidateQueries({ queryKey: ["heal-limits"] }),
  };
  const set = useMutation({ mutationFn: () => api("/heal/limits", "put", put), ...done });
  const reset = useMutation({ mutationFn: () => api("/heal/limits", "delete"), ...done });
  const rates = [["max_rate", t.limits.heal, t.limits.healHint], ["scrub_max_rate", t.limits.scrub, t.limits.scrubHint]] as const;
  const ready = order !== null && Object.keys(order).length > 0;
  return (
    <Dialog open onClose={onClose} title={t.limits.title}>
      <Form submit={t.limits.set} busy={set.isPending} error={set.error ?? reset.error} because={order === null ? t.limits.bad : ready ? undefined : t.limits.unchanged} calls={ready ? [callOf("/heal/limits", "put", put)] : []} onSubmit={() => set.mutate()} onCancel={onClose}>
        <p className="text-sm text-soft">{t.limits.about}</p>
        {rates.map(([name, label, hint]) => (
          <Field key={name} label={`${label} (MiB/s)`} hint={hint} error={rateOf(form[name]) === null ? t.limits.badRate : undefined}>
            {(p) => <Input {...p} inputMode="decimal" placeholder={t.limits.none} value={form[name]} onChange={(e) => setForm({ ...form, [name]: e.target.value })} />}
          </Field>
        ))}
        <Field label={`${t.limits.busy} (%)`} hint={t.limits.busyHint} error={shareOf(form.busy_share) === null ? t.limits.badShare : undefined}>
          {(p) => <Input {...p} inputMode="numeric" value={form.busy_share} onChange={(e) => setForm({ ...form, busy_share: e.target.value })} />}
        </Field>
        {limits.stored.length > 0 && <div><Button busy={reset.isPending} onClick={() => reset.mutate()}>{t.limits.reset}</Button></div>}
      </Form>
    </Dialog>
  );
}
