// A link to one object, for somebody without an account.
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { gateway } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useSession } from "../lib/session";
import { Button, CopyBox, Dialog, Field, Input, Problem, Select, Toggle } from "../ui";
import { endpointOf } from "../lib/endpoint";

const CHOICES = [3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600];

export function ShareDialog({ bucket, objectKey, versionId, onClose }: { bucket: string; objectKey: string; versionId?: string; onClose: () => void }) {
  const t = useT();
  const f = useFormat();
  const session = useSession();
  const [seconds, setSeconds] = useState(24 * 3600);
  const [endpoint, setEndpoint] = useState(() => endpointOf(session?.s3_port));
  const [save, setSave] = useState(true);
  const make = useMutation({
    mutationFn: () => gateway.share({ bucket, key: objectKey, ...(versionId ? { version_id: versionId } : {}), seconds, endpoint, download: save }),
  });
  const change = <T,>(set: (v: T) => void) => (value: T) => {
    set(value);
    make.reset();
  };
  return (
    <Dialog open onClose={onClose} title={t.share.title(objectKey.split("/").pop() ?? objectKey)}>
      <form className="flex flex-col gap-4" onSubmit={(e) => { e.preventDefault(); make.mutate(); }}>
        <p className="text-sm text-soft">{t.share.about}</p>
        <Field label={t.share.life}>
          {(p) => <Select {...p} value={seconds} onChange={(e) => change(setSeconds)(Number(e.target.value))}>{CHOICES.map((s) => <option key={s} value={s}>{f.duration(s)}</option>)}</Select>}
        </Field>
        <Field label={t.share.endpoint} hint={t.share.endpointHint}>{(p) => <Input {...p} value={endpoint} spellCheck={false} onChange={(e) => change(setEndpoint)(e.target.value)} />}</Field>
        <Toggle label={t.share.save} checked={save} onChange={change(setSave)} />
        {make.error && <Problem error={make.error} />}
        {make.data ? (
          <>
            <CopyBox text={make.data.url} label={t.share.link} />
            <p className="text-xs text-soft">{t.share.until(f.when(make.data.expires_ms))} {!make.data.ends_with_session ? t.share.withKey : session?.signed_in_with ? t.share.withSession : t.share.withProvider}</p>
            <div className="flex justify-end"><Button onClick={onClose}>{t.close}</Button></div>
          </>
        ) : (
          <div className="flex justify-end gap-2"><Button onClick={onClose}>{t.cancel}</Button><Button type="submit" tone="primary" icon="link" busy={make.isPending}>{t.share.make}</Button></div>
        )}
      </form>
    </Dialog>
  );
}
