// Asks for the secret key again before something that outlives the session or destroys, at most every few minutes.
import { useMutation } from "@tanstack/react-query";
import { useCallback, useRef, useState, type ReactNode } from "react";
import { gateway } from "../api/client";
import { useT } from "../i18n";
import { useSession } from "../lib/session";
import { Dialog, Field, Form, Input } from ".";

/** Until when the person of a session has confirmed, as this page knows. */
let confirmed = { session: 0, until: 0 };
/** Less than the server's time, so that a call that is sent now is still in it when it arrives. */
const SPARE_MS = 15_000;

/** `ensure` resolves to whether the person has confirmed; `dialog` is to be shown. */
export function useConfirmation(): { ensure: () => Promise<boolean>; dialog: ReactNode } {
  const session = useSession();
  const [asking, setAsking] = useState(false);
  const answer = useRef<(yes: boolean) => void>(() => {});
  const ensure = useCallback(async () => {
    // Who came with an identity provider has no secret here: their sessions may make keys, and destroy when they are new.
    if (!session?.signed_in_with) return true;
    if (confirmed.session === session.expires_ms && Date.now() < confirmed.until) return true;
    setAsking(true);
    return new Promise<boolean>((resolve) => { answer.current = resolve; });
  }, [session]);
  const end = (yes: boolean) => {
    setAsking(false);
    answer.current(yes);
  };
  const dialog = asking && session ? (
    <AskSecret
      signedInWith={session.signed_in_with}
      onDone={(seconds) => {
        confirmed = { session: session.expires_ms, until: Date.now() + seconds * 1000 - SPARE_MS };
        end(true);
      }}
      onClose={() => end(false)}
    />
  ) : null;
  return { ensure, dialog };
}

function AskSecret({ signedInWith, onDone, onClose }: { signedInWith: string; onDone: (seconds: number) => void; onClose: () => void }) {
  const t = useT();
  const [secret, setSecret] = useState("");
  const confirm = useMutation({ mutationFn: () => gateway.confirm(secret), onSuccess: ({ seconds }) => onDone(seconds), onError: () => setSecret("") });
  return (
    <Dialog open instead onClose={onClose} title={t.keys.confirm}>
      <Form onSubmit={() => confirm.mutate()} onCancel={onClose} submit={t.keys.confirmAction} busy={confirm.isPending} error={confirm.error}>
        <p className="text-sm">{t.keys.confirmText(signedInWith)}</p>
        <input type="text" name="username" autoComplete="username" value={signedInWith} readOnly hidden />
        <Field label={t.login.secretKey}>{(p) => <Input {...p} type="password" autoComplete="current-password" required autoFocus value={secret} onChange={(e) => setSecret(e.target.value)} />}</Field>
      </Form>
    </Dialog>
  );
}
