// Sign-in with an access key, or the name and secret of a user.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { gateway, type Session } from "../api/client";
import { loadMessages, useT } from "../i18n";
import { LANGUAGES, setPref, usePrefs, type Language } from "../lib/prefs";
import { begin } from "../lib/session";
import { Button, Field, Input, Problem, Select } from "../ui";
import { Logo } from "../ui/icons";

export function Login() {
  const t = useT();
  const client = useQueryClient();
  const prefs = usePrefs();
  const [name, setName] = useState("");
  const [secret, setSecret] = useState("");
  const done = (session: Session) => {
    begin(client, session);
  };
  const signIn = useMutation({
    mutationFn: () => gateway.signIn({ access_key: name, secret_key: secret }),
    onSuccess: done,
    onError: () => setSecret(""),
  });
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <div className="w-full max-w-sm">
        <div className="mb-6 flex flex-col items-center gap-3">
          <Logo className="size-12" />
          <h1 className="text-xl font-semibold tracking-tight">{t.login.title}</h1>
        </div>
        <form
          className="flex flex-col gap-4 rounded-xl border bg-surface p-6 shadow-card"
          onSubmit={(e) => {
            e.preventDefault();
            signIn.mutate();
          }}
        >
          <Field label={t.login.accessKey}>
            {(p) => <Input {...p} name="username" autoComplete="username" autoFocus required spellCheck={false} autoCapitalize="none" value={name} onChange={(e) => setName(e.target.value)} />}
          </Field>
          <Field label={t.login.secretKey}>
            {(p) => <Input {...p} name="password" type="password" autoComplete="current-password" required value={secret} onChange={(e) => setSecret(e.target.value)} />}
          </Field>
          {signIn.error && <Problem error={signIn.error} />}
          <Button type="submit" tone="primary" busy={signIn.isPending} className="h-10!">{t.login.submit}</Button>
        </form>
        <p className="mt-4 px-2 text-xs leading-relaxed text-soft">{t.login.first}</p>
        <div className="mt-4 flex justify-center">
          <Select aria-label={t.language} value={prefs.language} onChange={(e) => { setPref("language", e.target.value as Language); void loadMessages(); }} className="h-8! w-auto! border-line! text-xs!">
            {LANGUAGES.map((l) => <option key={l.code} value={l.code}>{l.name}</option>)}
          </Select>
        </div>
      </div>
    </main>
  );
}
