// Asks for the instant to which a folder is rewound.
import { useState } from "react";
import { useT } from "../i18n";
import { Dialog, Field, Form, Input } from "../ui";

/** An instant as fields for date and time have it: local, without seconds. */
function local(at: number): string {
  const d = new Date(at);
  return new Date(at - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export default function RewindDialog({ at, onClose, onGo }: { at: number | null; onClose: () => void; onGo: (at: number) => void }) {
  const t = useT();
  const [now] = useState(() => Date.now());
  const [text, setText] = useState(local(at ?? now - 86_400_000));
  const chosen = new Date(text).getTime();
  const bad = Number.isNaN(chosen) ? t.rewind.timeFirst : chosen > now ? t.rewind.future : undefined;
  return (
    <Dialog open onClose={onClose} title={t.rewind.action}>
      <Form onSubmit={() => onGo(chosen)} onCancel={onClose} submit={t.rewind.go} because={bad}>
        <p className="text-sm leading-relaxed text-soft">{t.rewind.about}</p>
        <Field label={t.rewind.at} error={bad}>{(p) => <Input {...p} type="datetime-local" max={local(now)} value={text} onChange={(e) => setText(e.target.value)} />}</Field>
      </Form>
    </Dialog>
  );
}
