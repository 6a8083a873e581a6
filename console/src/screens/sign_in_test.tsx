// Tries a sign-in with a provider and shows what it says about the person, and which policies would apply. Nobody is
// signed in by it.
import { useMutation } from "@tanstack/react-query";
import clsx from "clsx";
import { useEffect, useState, type ReactNode } from "react";
import { api, Failure, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { leaveForTest, type TestReturn } from "../lib/session";
import { Badge, Button, CopyBox, Dialog, Field, Form, Input, Loading, Problem } from "../ui";
import { Icon } from "../ui/icons";
import { Facts } from "./object";

type Provider = Schemas["Provider"];
type Tested = Schemas["SignInTest"];

/** `back`: what the browser brought back from an OpenID Connect provider. */
export function SignInTest({ provider, back, onClose }: { provider: Pick<Provider, "kind" | "name"> & { values?: Provider["values"] }; back?: TestReturn["back"] | undefined; onClose: () => void }) {
  const t = useT();
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const test = useMutation({
    mutationFn: (body: object) => api("/idp/{kind}/{name}/test", "post", { path: { kind: provider.kind as "ldap", name: provider.name }, body: body as never }),
    onSettled: () => setPassword(""),
  });
  const leave = useMutation({ mutationFn: () => leaveForTest(provider.name) });
  const { mutate } = test;
  useEffect(() => {
    if (back && "code" in back) mutate(back);
  }, [back, mutate]);
  const shown = provider.values?.["display_name"] ?? (provider.name === "_" ? t.providers.kinds[provider.kind as "openid"] : provider.name);
  const ended = back && "error" in back ? new Failure(403, "ProviderEnded", back.error) : null;
  const command = provider.kind === "ldap" ? `ashlar admin idp ldap test it ${name || "NAME"}` : `ashlar admin idp openid test it ${provider.name} < token.txt`;
  return (
    <Dialog open onClose={onClose} title={t.signInTest.title(shown)} wide>
      <div className="flex flex-col gap-4">
        <p className="text-sm text-soft">{t.signInTest.about}</p>
        {provider.kind === "ldap" ? (
          <Form onSubmit={() => mutate({ username: name, password })} onCancel={onClose} submit={t.signInTest.action} busy={test.isPending} error={test.error} because={name === "" ? t.nameFirst : password === "" ? t.signInTest.passwordFirst : undefined}>
            <div className="grid gap-4 sm:grid-cols-2">
              <Field label={t.login.ldapUser}>{(p) => <Input {...p} autoFocus autoComplete="off" spellCheck={false} autoCapitalize="none" value={name} onChange={(e) => setName(e.target.value)} />}</Field>
              <Field label={t.login.ldapPassword}>{(p) => <Input {...p} type="password" autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />}</Field>
            </div>
          </Form>
        ) : back && test.isPending ? <Loading /> : (
          <>
            {(ended ?? test.error ?? leave.error) && <Problem error={ended ?? test.error ?? leave.error} />}
            <div><Button tone={back ? "plain" : "primary"} icon="idp" busy={leave.isPending} onClick={() => leave.mutate()}>{back ? t.signInTest.again : t.signInTest.goTo(shown)}</Button></div>
          </>
        )}
        {test.data && <Result tested={test.data} />}
        <CopyBox label={t.targets.command} text={command} />
      </div>
    </Dialog>
  );
}

function Result({ tested }: { tested: Tested }) {
  const t = useT();
  const who = tested.identity;
  const verdict = (good: boolean, title: string, text: string) => (
    <div role="status" className={clsx("flex gap-3 rounded-lg px-4 py-3", good ? "bg-good-soft" : "bg-bad-soft")}>
      <Icon name={good ? "good" : "bad"} className={clsx("size-6", good ? "text-good" : "text-bad")} />
      <div className="min-w-0"><p className="font-semibold">{title}</p><p className="text-sm break-words">{text}</p></div>
    </div>
  );
  if (!who) return verdict(false, t.signInTest.refused, tested.problem ?? "");
  const unknown = who.claimed_policies.filter((p) => !who.policies.includes(p));
  const badges = (list: string[], tone: "accent" | "plain" | "warn") => <span className="flex flex-wrap gap-1">{list.map((x) => <Badge key={x} tone={tone}>{x}</Badge>)}</span>;
  const values = (of: { [name: string]: string[] }, prefix: string): [string, ReactNode][] => Object.entries(of).map(([n, v]) => [`${prefix}:${n}`, <span key={n} className="font-mono text-[13px] break-all">{v.join(", ")}</span>]);
  return (
    <>
      {verdict(who.admitted, who.admitted ? t.signInTest.admitted : t.signInTest.notAdmitted, who.admitted ? t.signInTest.admittedText : t.signInTest.notAdmittedText)}
      <Facts rows={[
        [t.signInTest.name, <code key="n" className="break-all">{who.name}</code>],
        [t.signInTest.subject, <code key="s" className="break-all">{who.subject}</code>],
        ...(who.issuer ? [[t.providers.facts.issuer, <code key="i" className="break-all">{who.issuer}</code>] as [string, ReactNode]] : []),
        [t.nav.policies, who.policies.length > 0 ? badges(who.policies, "accent") : t.users.noPolicy],
        ...(unknown.length > 0 ? [[t.signInTest.unknown, badges(unknown, "warn")] as [string, ReactNode]] : []),
        [t.nav.groups, who.groups.length > 0 ? <span key="g" className="font-mono text-[13px] break-all whitespace-pre-line">{who.groups.join("\n")}</span> : t.users.noGroup],
        ...values(who.claims, "jwt"), ...values(who.attributes, "ldap"),
      ]} />
    </>
  );
}
