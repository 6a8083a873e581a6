// The frame around every screen: sign-in, navigation, uploads that go on.
import { Link, Outlet, useRouterState, type ErrorComponentProps } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import clsx from "clsx";
import { Dialog as RDialog } from "radix-ui";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { loadMessages, useT } from "./i18n";
import { LANGUAGES, setPref, usePrefs, type Language, type Theme } from "./lib/prefs";
import { sessionQuery, useSession, useSignOut } from "./lib/session";
import { useUploads } from "./lib/uploads";
import { Login } from "./screens/login";
import { Button, Empty, IconButton, Loading, Problem, Select, Toasts } from "./ui";
import { Icon, Logo, type IconName } from "./ui/icons";

const Uploads = lazy(() => import("./ui/uploads"));

export function App() {
  const session = useQuery(sessionQuery);
  const uploads = useUploads();
  if (session.isPending) return <Loading />;
  if (session.isError) return <main className="mx-auto max-w-xl p-8"><Problem error={session.error} retry={() => void session.refetch()} /></main>;
  if (session.data === null) return <><Login /><Toasts /></>;
  return (
    <>
      <Frame />
      {uploads.length > 0 && <Suspense><Uploads /></Suspense>}
      <Toasts />
    </>
  );
}

function Frame() {
  const t = useT();
  const path = useRouterState({ select: (s) => s.location.pathname });
  const main = useRef<HTMLElement>(null);
  const [open, setOpen] = useState(false);
  const first = useRef(true);
  // A new screen: screen readers and the keyboard begin at its top.
  useEffect(() => {
    setOpen(false);
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
  }, [path]);
  return (
    <div className="lg:grid lg:grid-cols-[15rem_minmax(0,1fr)]">
      <a href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus(); }} className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2">{t.skip}</a>
      <header className="sticky top-0 z-30 flex h-14 items-center gap-2 border-b bg-surface px-2 lg:hidden">
        <RDialog.Root open={open} onOpenChange={setOpen}>
          <RDialog.Trigger asChild><IconButton icon="menu" label={t.menu} className="size-11!" /></RDialog.Trigger>
          <RDialog.Portal>
            <RDialog.Overlay className="fade fixed inset-0 z-40 bg-black/45" />
            <RDialog.Content aria-describedby={undefined} className="fixed inset-y-0 left-0 z-40 w-72 max-w-[85vw] overflow-y-auto border-r bg-surface outline-none">
              <RDialog.Title className="sr-only">{t.menu}</RDialog.Title>
              <Navigation />
            </RDialog.Content>
          </RDialog.Portal>
        </RDialog.Root>
        <Logo className="size-7" /> <span className="font-semibold">Ashlar</span>
      </header>
      <aside className="sticky top-0 hidden h-dvh overflow-y-auto border-r bg-surface lg:block"><Navigation /></aside>
      <main ref={main} id="main" tabIndex={-1} className="mx-auto w-full max-w-6xl px-4 py-6 outline-none sm:px-8 sm:py-8">
        <Suspense fallback={<Loading />}><Outlet /></Suspense>
      </main>
    </div>
  );
}

function Navigation() {
  const t = useT();
  const session = useSession();
  const signOut = useSignOut();
  const prefs = usePrefs();
  const groups: { title: string; items: { to: string; icon: IconName; label: string; exact?: boolean }[] }[] = [
    { title: "", items: [{ to: "/", icon: "home", label: t.nav.overview, exact: true }, { to: "/connect", icon: "connect", label: t.nav.connect }] },
    { title: t.nav.data, items: [{ to: "/buckets", icon: "bucket", label: t.nav.buckets }] },
    {
      title: t.nav.access, items: [
        { to: "/users", icon: "users", label: t.nav.users }, { to: "/groups", icon: "group", label: t.nav.groups },
        { to: "/keys", icon: "key", label: t.nav.keys }, { to: "/policies", icon: "policy", label: t.nav.policies }, { to: "/providers", icon: "idp", label: t.nav.providers }, { to: "/why", icon: "why", label: t.nav.why },
        { to: "/audit", icon: "audit", label: t.nav.audit },
      ],
    },
    {
      title: t.nav.system, items: [
        { to: "/drives", icon: "drive", label: t.nav.drives }, { to: "/trace", icon: "trace", label: t.nav.trace }, { to: "/logs", icon: "file", label: t.nav.logs },
        { to: "/targets", icon: "bell", label: t.nav.targets }, { to: "/encryption", icon: "lock", label: t.nav.encryption }, { to: "/settings", icon: "settings", label: t.nav.config },
      ],
    },
  ];
  return (
    <div className="flex min-h-full flex-col">
      <div className="flex h-16 items-center gap-2.5 px-5">
        <Logo className="size-7" />
        <span className="text-lg font-semibold tracking-tight">Ashlar</span>
      </div>
      <nav aria-label={t.menu} className="flex-1 px-3 pb-4">
        {groups.map((group) => (
          <div key={group.title} className="mb-4">
            {group.title && <h2 className="mb-1 px-2.5 text-xs font-medium text-soft">{group.title}</h2>}
            <ul>
              {group.items.map((item) => (
                <li key={item.to}>
                  <Link
                    to={item.to} activeOptions={{ exact: item.exact ?? false }} activeProps={{ className: "bg-accent-soft text-accent-text!", "aria-current": "page" }}
                    className="flex h-9 items-center gap-3 rounded-md px-2.5 text-sm font-medium text-text hover:bg-hover max-lg:h-11"
                  >
                    <Icon name={item.icon} /> {item.label}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
      <div className="border-t p-4 text-sm">
        <p className="truncate font-medium" title={session?.user}>{session?.user}</p>
        <p className="mb-3 text-xs text-soft">{session?.root ? t.root : session?.federated ? t.federated : t.user}</p>
        <div className="mb-2 grid grid-cols-2 gap-2">
          <Select aria-label={t.theme.label} value={prefs.theme} onChange={(e) => setPref("theme", e.target.value as Theme)} className="h-8! border-line! px-1.5! text-xs!">
            <option value="system">{t.theme.system}</option>
            <option value="light">{t.theme.light}</option>
            <option value="dark">{t.theme.dark}</option>
          </Select>
          <Select aria-label={t.language} value={prefs.language} onChange={(e) => { setPref("language", e.target.value as Language); void loadMessages(); }} className="h-8! border-line! px-1.5! text-xs!">
            {LANGUAGES.map((l) => <option key={l.code} value={l.code}>{l.name}</option>)}
          </Select>
        </div>
        <Button icon="out" tone="quiet" className="w-full justify-start! px-2!" onClick={() => void signOut()}>{t.signOut}</Button>
        <p className="mt-2 text-xs text-soft">{t.version(session?.version ?? "")} · <a className="underline" href="./assets/licences.txt" target="_blank" rel="noreferrer">{t.licences}</a></p>
      </div>
    </div>
  );
}

export function NotFound() {
  const t = useT();
  return (
    <Empty icon="search" title={t.notFound} text={t.notFoundText}>
      <Link to="/" className={clsx("text-accent-text underline")}>{t.nav.overview}</Link>
    </Empty>
  );
}

export function Trouble({ error, reset }: ErrorComponentProps) {
  return <Problem error={error} retry={reset} />;
}
