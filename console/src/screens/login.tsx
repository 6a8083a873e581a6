// Sign-in: an access key or the name of a user, a name of a directory (LDAP), an OpenID Connect provider, or the certificate that the
// browser showed when it connected.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import clsx from "clsx";
import { useEffect, useState } from "react";
import { Failure, gateway, type Session, type SignInOptions } from "../api/client";
import { loadMessages, useT } from "../i18n";
import { LANGUAGES, setPref, usePrefs, type Language } from "../lib/prefs";
import { begin, foundProviderReturn, leaveForProvider, providerOfLast } from "../lib/session";
import { Button, Field, Input, Problem, Select, Spinner } from "../ui";
import { Logo } from "../ui/icons";

type Way = "keys" | "ldap";

/** Who signed out here may still be signed in at the provider, which lets them in again without a password. */
function StillSignedIn({ names }: { names: SignInOptions["openid"] }) {
  const t = useT();
  const [provider] = useState(providerOfLast);
  const found = useQuery({ queryKey: ["session", "sign-out", provider], queryFn: () => gateway.signOutAt(provider!), enabled: provider !== null, retry: false, staleTime: Infinity });
  if (provider === null || !found.data?.url) return null;
  const name = names.find((p) => p.name === provider)?.display_name ?? provider;
  return (
    <div role="status" className="mb-4 rounded-lg bg-sunken px-3.5 py-3 text-sm">
      <p>{t.login.stillThere(name === "_" ? "OpenID Connect" : name)}</p>
      <a className="mt-1 inline-block font-medium text-accent-text underline" rel="noreferrer" href={found.data.url}>{t.login.signOutThere}</a>
    </div>
  );
}

export function Login() {
  const t = useT();
  const client = useQueryClient();
  const prefs = usePrefs();
  const options = useQuery({ queryKey: ["session", "options"], queryFn: gateway.signInOptions, staleTime: 60_000 });
  const [back] = useState(foundProviderReturn);
  const [chosen, setWay] = useState<Way>("keys");
  const [name, setName] = useState("");
  const [secret, setSecret] = useState("");
  const done = (session: Session) => begin(client, session);
  const signIn = useMutation({
    mutationFn: () => gateway.signIn(way === "ldap" ? { ldap_user: name, ldap_password: secret } : { access_key: name, secret_key: secret }),
    onSuccess: done,
    onError: () => setSecret(""),
  });
  const leave = useMutation({ mutationFn: leaveForProvider });
  const certify = useMutation({ mutationFn: () => gateway.signIn({ certificate: true }), onSuccess: done });
  const finish = useMutation({ mutationFn: gateway.signIn, onSuccess: done });
  const { mutate: end } = finish;
  useEffect(() => {
    if (back && "code" in back) end(back);
  }, [back, end]);
  const providers = options.data?.openid ?? [];
  const ldap = options.data?.ldap === true;
  const { certificates = false, certificate_shown: shown = false } = options.data ?? {};
  const way: Way = ldap ? chosen : "keys";
  const ended = back && "error" in back && !leave.isPending && !signIn.isPending ? new Failure(403, "ProviderEnded", back.error) : null;
  const returning = back !== null && "code" in back && (finish.isIdle || finish.isPending);
  const problem = finish.error ?? ended ?? leave.error ?? certify.error ?? options.error;
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <div className="w-full max-w-sm">
        <div className="mb-6 flex flex-col items-center gap-3">
          <Logo className="size-12" />
          <h1 className="text-xl font-semibold tracking-tight">{t.login.title}</h1>
        </div>
        {returning ? (
          <div role="status" className="flex items-center justify-center gap-3 rounded-xl border bg-surface p-8 text-sm shadow-card"><Spinner /> {t.login.returning}</div>
        ) : (
          <div className="rounded-xl border bg-surface p-6 shadow-card">
            {problem && <div className="mb-4"><Problem error={problem} /></div>}
            <StillSignedIn names={providers} />
            {ldap && (
              <div role="group" aria-label={t.login.how} className="mb-5 grid grid-cols-2 gap-1 rounded-lg bg-sunken p-1">
                {(["keys", "ldap"] as const).map((w) => (
                  <button key={w} type="button" aria-pressed={way === w} onClick={() => { setWay(w); setSecret(""); signIn.reset(); }} className={clsx("h-8 rounded-md text-sm font-medium", way === w ? "bg-surface text-accent-text shadow-card ring-1 ring-line-strong/40" : "text-soft hover:text-text")}>{t.login.ways[w]}</button>
                ))}
              </div>
            )}
            <form
              className="flex flex-col gap-4"
              onSubmit={(e) => {
                e.preventDefault();
                signIn.mutate();
              }}
            >
              <Field label={way === "ldap" ? t.login.ldapUser : t.login.accessKey}>
                {(p) => <Input {...p} name="username" autoComplete="username" autoFocus required spellCheck={false} autoCapitalize="none" value={name} onChange={(e) => setName(e.target.value)} />}
              </Field>
              <Field label={way === "ldap" ? t.login.ldapPassword : t.login.secretKey}>
                {(p) => <Input {...p} name="password" type="password" autoComplete="current-password" required value={secret} onChange={(e) => setSecret(e.target.value)} />}
              </Field>
              {signIn.error && <Problem error={signIn.error} />}
              <Button type="submit" tone="primary" busy={signIn.isPending} className="h-10!">{t.login.submit}</Button>
            </form>
            {(providers.length > 0 || certificates) && (
              <>
                <p className="my-4 flex items-center gap-3 text-xs text-soft before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line">{t.login.or}</p>
                <ul className="flex flex-col gap-2">
                  {providers.map((p) => (
                    <li key={p.name}>
                      <Button busy={leave.isPending && leave.variables === p.name} className="h-10! w-full" onClick={() => leave.mutate(p.name)}>
                        <span className="truncate">{t.login.with(p.display_name === "_" ? "OpenID Connect" : p.display_name)}</span>
                      </Button>
                    </li>
                  ))}
                  {certificates && (
                    <li>
                      <Button busy={certify.isPending} because={shown ? undefined : t.login.noCertificate} className="h-10! w-full" onClick={() => certify.mutate()}>{t.login.certificate}</Button>
                      {!shown && <p className="mt-1.5 px-1 text-xs text-soft">{t.login.noCertificate}</p>}
                    </li>
                  )}
                </ul>
              </>
            )}
          </div>
        )}
        {!returning && <p className="mt-4 px-2 text-xs leading-relaxed text-soft">{way === "ldap" ? t.login.ldapHint : t.login.first}</p>}
        <div className="mt-4 flex justify-center">
          <Select aria-label={t.language} value={prefs.language} onChange={(e) => { setPref("language", e.target.value as Language); void loadMessages(); }} className="h-8! w-auto! border-line! text-xs!">
            {LANGUAGES.map((l) => <option key={l.code} value={l.code}>{l.name}</option>)}
          </Select>
        </div>
      </div>
    </main>
  );
}
