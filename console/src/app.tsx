// The frame around every screen: sign-in, navigation, uploads that go on.
import { Link, Outlet, useRouterState, type ErrorComponentProps } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import clsx from "clsx";
import { Dialog as RDialog } from "radix-ui";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { loadMessages, useT } from "./i18n";
import { LANGUAGES, setPref, usePrefs, type Language, type Theme } from "./lib/prefs";
import { screens } from "./lib/screens";
import { sessionQuery, useSession, useSignOut } from "./lib/session";
import { isField, isShortcut } from "./lib/shortcuts";
import { useUploads } from "./lib/uploads";
import { Login } from "./screens/login";
import { Button, Empty, IconButton, Loading, Problem, Select, Toasts } from "./ui";
import { Icon, Logo } from "./ui/icons";

const Uploads = lazy(() => import("./ui/uploads"));
const CommandBar = lazy(() => import("./ui/command_bar"));
const KeyHelp = lazy(() => import("./ui/command_bar").then((m) => ({ default: m.KeyHelp })));

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
  const [over, setOver] = useState<"bar" | "help" | null>(null);
  const first = useRef(true);
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const what = isShortcut(e, isField(e.target));
      // What is behind a dialog does not get keys.
      if (!what || e.defaultPrevented || document.querySelector('[role="dialog"]')) return;
      e.preventDefault();
      if (what === "search") main.current?.querySelector<HTMLInputElement>('input[type="search"]')?.focus();
      else setOver(what);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
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
              <Navigation onBar={null} />
            </RDialog.Content>
          </RDialog.Portal>
        </RDialog.Root>
        <Logo className="size-7" /> <span className="font-semibold">Ashlar</span>
        <IconButton icon="search" label={t.bar.title} className="ml-auto size-11!" onClick={() => setOver("bar")} />
      </header>
      <aside className="sticky top-0 hidden h-dvh overflow-y-auto border-r bg-surface lg:block"><Navigation onBar={() => setOver("bar")} /></aside>
      <main ref={main} id="main" tabIndex={-1} className="mx-auto w-full max-w-6xl px-4 py-6 outline-none sm:px-8 sm:py-8">
        <Suspense fallback={<Loading />}><Outlet /></Suspense>
      </main>
      {over && <Suspense>{over === "bar" ? <CommandBar onClose={() => setOver(null)} /> : <KeyHelp onClose={() => setOver(null)} />}</Suspense>}
    </div>
  );
}

function Navigation({ onBar }: { onBar: (() => void) | null }) {
  const t = useT();
  const session = useSession();
  const signOut = useSignOut();
  const prefs = usePrefs();
  const groups = screens(t);
  return (
    <div className="flex min-h-full flex-col">
      <div className="flex h-16 items-center gap-2.5 px-5">
        <Logo className="size-7" />
        <span className="text-lg font-semibold tracking-tight">Ashlar</span>
      </div>
      {onBar && (
        <div className="px-3 pb-3">
          <button type="button" onClick={onBar} className="flex h-8 w-full items-center gap-2 rounded-md border px-2.5 text-sm text-soft hover:bg-hover hover:text-text">
            <Icon name="search" className="size-4" /> {t.bar.title} <kbd className="ml-auto font-mono text-xs">{t.bar.key}</kbd>
          </button>
        </div>
      )}
      <nav aria-label={t.menu} className="flex-1 px-3 pb-4">
        {groups.map((group) => (
          <div key={group.title} className="mb-4">
            {group.title && <h2 className="mb-1 px-2.5 text-xs font-medium text-soft">{group.title}</h2>}
            <ul>
              {group.items.map((item) => (
                <li key={item.to}>
                  <Link
                    to={item.to} activeOptions={{ exact: item.exact ?? false }} activeProps={{ className: "bg-accent-soft text-accent-text!", "aria-current": "page" }}
                    className="flex h-8 items-center gap-3 rounded-md px-2.5 text-sm font-medium text-text hover:bg-hover max-lg:h-11"
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
