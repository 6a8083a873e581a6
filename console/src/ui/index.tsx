// The components of the console. Behaviour that is hard to get right for keyboards and screen readers (dialogs, menus,
// switches, tooltips) is Radix's; everything else is here.
import clsx from "clsx";
import { Dialog as RDialog, Switch as RSwitch, Tooltip as RTooltip } from "radix-ui";
import { lazy, Suspense, useEffect, useId, useState, useSyncExternalStore, type ComponentProps, type FormEvent, type ReactNode } from "react";
import { Failure } from "../api/client";
import { useT } from "../i18n";
import type { Call } from "../lib/acts";
import { Icon, type IconName } from "./icons";

const ShowCommand = lazy(() => import("./show_command"));

type Tone = "plain" | "primary" | "danger" | "quiet";

const TONES: Record<Tone, string> = {
  plain: "bg-surface border-line-strong/45 hover:bg-hover text-text",
  primary: "bg-accent border-transparent hover:bg-accent-hover text-on-accent",
  danger: "bg-bad border-transparent hover:bg-bad-hover text-surface",
  quiet: "border-transparent hover:bg-hover text-text",
};

type ButtonProps = ComponentProps<"button"> & { tone?: Tone; icon?: IconName; busy?: boolean; because?: string | undefined };

/** A button. `because`: it is disabled, and this is the reason, which is shown and read. */
export function Button({ tone = "plain", icon, busy, because, className, children, type = "button", ...rest }: ButtonProps) {
  const off = because !== undefined;
  const button = (
    <button
      {...rest}
      type={type}
      aria-disabled={off || busy || undefined}
      onClick={off || busy ? (e) => e.preventDefault() : rest.onClick}
      className={clsx(
        "inline-flex h-9 items-center justify-center gap-2 rounded-md border px-3 text-sm font-medium whitespace-nowrap transition-colors select-none",
        TONES[tone], (off || rest.disabled) && "cursor-not-allowed! opacity-50", busy && "cursor-progress!", className,
      )}
    >
      {busy ? <Spinner /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
  return off ? <Tip text={because}>{button}</Tip> : button;
}

/** A button that shows only an icon. */
export function IconButton({ icon, label, className, ...rest }: Omit<ComponentProps<"button">, "children"> & { icon: IconName; label: string }) {
  return (
    <Tip text={label}>
      <button type="button" aria-label={label} {...rest} className={clsx("inline-grid size-9 place-items-center rounded-md text-soft transition-colors hover:bg-hover hover:text-text", className)}>
        <Icon name={icon} />
      </button>
    </Tip>
  );
}

export function Tip({ text, children }: { text: string; children: ReactNode }) {
  return (
    <RTooltip.Root delayDuration={250}>
      <RTooltip.Trigger asChild>{children}</RTooltip.Trigger>
      <RTooltip.Portal>
        <RTooltip.Content sideOffset={6} collisionPadding={8} className="fade z-50 max-w-72 rounded-md bg-text px-2.5 py-1.5 text-xs text-ground shadow-float">
          {text}
        </RTooltip.Content>
      </RTooltip.Portal>
    </RTooltip.Root>
  );
}

export function Spinner({ className = "size-4" }: { className?: string }) {
  return (
    <svg viewBox="0 0 24 24" className={clsx("shrink-0 animate-spin", className)} fill="none" stroke="currentColor" strokeWidth="3" strokeLinecap="round" aria-hidden="true">
      <path d="M12 3a9 9 0 1 1-9 9" />
    </svg>
  );
}

const FIELD = "h-9 w-full rounded-md border border-line-strong bg-surface px-2.5 text-sm text-text";

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input {...rest} className={clsx(FIELD, className)} />;
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea spellCheck={false} {...rest} className={clsx(FIELD, "h-auto py-2 font-mono text-[13px] leading-relaxed", className)} />;
}

export function Select({ className, children, ...rest }: ComponentProps<"select">) {
  return <select {...rest} className={clsx(FIELD, "pr-7", className)}>{children}</select>;
}

/** A label with its field. `hint` is read with the field. */
export function Field({ label, hint, error, children }: { label: string; hint?: ReactNode; error?: string | undefined; children: (props: { id: string; "aria-describedby"?: string; "aria-invalid"?: true }) => ReactNode }) {
  const id = useId();
  const about = hint || error ? `${id}-about` : undefined;
  return (
    <div className="flex flex-col gap-1.5">
      <label htmlFor={id} className="text-sm font-medium">{label}</label>
      {children({ id, ...(about ? { "aria-describedby": about } : {}), ...(error ? { "aria-invalid": true as const } : {}) })}
      {about && (
        <p id={about} className={clsx("text-xs", error ? "text-bad" : "text-soft")}>{error ?? hint}</p>
      )}
    </div>
  );
}

export function Toggle({ label, hint, checked, onChange, disabled }: { label: string; hint?: ReactNode; checked: boolean; onChange: (on: boolean) => void; disabled?: boolean }) {
  const id = useId();
  return (
    <div className="flex items-start gap-3">
      <RSwitch.Root
        id={id} checked={checked} onCheckedChange={onChange} disabled={disabled ?? false} aria-describedby={hint ? `${id}-about` : undefined}
        className="relative mt-0.5 h-5 w-9 shrink-0 rounded-full bg-line-strong transition-colors data-[state=checked]:bg-accent disabled:opacity-50"
      >
        <RSwitch.Thumb className="block size-4 translate-x-0.5 rounded-full bg-white transition-transform data-[state=checked]:translate-x-[18px]" />
      </RSwitch.Root>
      <div>
        <label htmlFor={id} className="text-sm font-medium">{label}</label>
        {hint && <p id={`${id}-about`} className="text-xs text-soft">{hint}</p>}
      </div>
    </div>
  );
}

/** A dialog. On phones it fills the screen's width from below. */
/** `instead`: while it is open, it is shown in the place of the dialog that opened it. */
export function Dialog({ open, onClose, title, children, wide, instead }: { open: boolean; onClose: () => void; title: string; children: ReactNode; wide?: boolean; instead?: boolean }) {
  const t = useT();
  return (
    <RDialog.Root open={open} onOpenChange={(on) => !on && onClose()}>
      <RDialog.Portal>
        <RDialog.Overlay data-instead={instead} className="veil fade fixed inset-0 z-40 bg-black/45" />
        <RDialog.Content
          aria-describedby={undefined}
          onOpenAutoFocus={(e) => {
            // The first field, or the dialog itself: the button that closes it would show its hint at once.
            e.preventDefault();
            const box = e.currentTarget as HTMLElement;
            (box.querySelector<HTMLElement>("[autofocus], input:not([type=checkbox]), textarea, select") ?? box).focus();
          }}
          className={clsx(
            "rise fixed z-40 flex max-h-[92dvh] w-full flex-col bg-surface shadow-float outline-none max-sm:inset-x-0 max-sm:bottom-0 max-sm:rounded-t-xl",
            "sm:top-1/2 sm:left-1/2 sm:-translate-x-1/2 sm:-translate-y-1/2 sm:rounded-xl", wide ? "sm:max-w-3xl" : "sm:max-w-lg",
          )}
        >
          <div className="flex items-center justify-between gap-4 border-b px-5 py-3">
            <RDialog.Title className="min-w-0 truncate font-semibold">{title}</RDialog.Title>
            <RDialog.Close asChild>
              <IconButton icon="close" label={t.close} className="-mr-2" />
            </RDialog.Close>
          </div>
          <div className="overflow-y-auto px-5 py-4">{children}</div>
        </RDialog.Content>
      </RDialog.Portal>
    </RDialog.Root>
  );
}

/** What will be sent, as commands; nothing where there is nothing to send. */
export function CommandPreview({ calls }: { calls: readonly Call[] }) {
  return calls.length > 0 ? <Suspense><ShowCommand calls={calls} /></Suspense> : null;
}

/** A form in a dialog: its fields, its error, its buttons. `calls`: what it will send, to be shown as commands. */
export function Form({ onSubmit, onCancel, submit, busy, error, danger, because, calls, children }: {
  onSubmit: () => void; onCancel: () => void; submit: string; busy?: boolean; error?: unknown; danger?: boolean; because?: string | undefined; calls?: readonly Call[] | undefined; children?: ReactNode;
}) {
  const t = useT();
  const send = (e: FormEvent) => {
    e.preventDefault();
    if (because === undefined && !busy) onSubmit();
  };
  return (
    <form onSubmit={send} className="flex flex-col gap-4">
      {children}
      <CommandPreview calls={calls ?? []} />
      {error ? <Problem error={error} /> : null}
      <div className="flex justify-end gap-2 pt-1">
        <Button onClick={onCancel}>{t.cancel}</Button>
        <Button type="submit" tone={danger ? "danger" : "primary"} busy={busy ?? false} because={because}>{submit}</Button>
      </div>
    </form>
  );
}

/** Asks before something is destroyed; where much is at stake, the name has to be typed. */
export function Confirm({ title, text, action, typed, onConfirm, onClose, busy, error, calls }: {
  title: string; text: ReactNode; action: string; typed?: string; onConfirm: () => void; onClose: () => void; busy?: boolean; error?: unknown; calls?: readonly Call[] | undefined;
}) {
  const t = useT();
  const [name, setName] = useState("");
  return (
    <Dialog open onClose={onClose} title={title}>
      <Form onSubmit={onConfirm} onCancel={onClose} submit={action} danger busy={busy ?? false} error={error} calls={calls} because={typed && name !== typed ? t.typeFirst(typed) : undefined}>
        <div className="text-sm leading-relaxed">{text}</div>
        {typed && (
          <Field label={t.typeName(typed)}>{(p) => <Input {...p} autoFocus autoComplete="off" value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        )}
      </Form>
    </Dialog>
  );
}

/** What went wrong, and what to do. */
export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  const t = useT();
  const { text, advice, id } = t.explain(error instanceof Failure ? error : new Failure(0, "Error", String(error)));
  return (
    <div role="alert" className="flex gap-3 rounded-lg bg-bad-soft px-3.5 py-3 text-sm">
      <Icon name="bad" className="mt-0.5 size-5 text-bad" />
      <div className="min-w-0 flex-1">
        <p className="font-medium break-words">{text}</p>
        {advice && <p className="mt-0.5">{advice}</p>}
        {id && <p className="mt-1 text-xs">{t.requestId} <a className="font-mono underline" href={`#/why?request=${id}`}>{id}</a></p>}
      </div>
      {retry && <Button onClick={retry} icon="refresh" className="self-start">{t.retry}</Button>}
    </div>
  );
}

/** A list that is empty: what to do next. */
export function Empty({ icon, title, text, children }: { icon: IconName; title: string; text: ReactNode; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center px-6 py-14 text-center">
      <div className="mb-3 grid size-12 place-items-center rounded-full bg-sunken text-soft"><Icon name={icon} className="size-6" /></div>
      <h2 className="font-semibold">{title}</h2>
      <p className="mt-1 max-w-md text-sm text-soft">{text}</p>
      {children && <div className="mt-4 flex flex-wrap justify-center gap-2">{children}</div>}
    </div>
  );
}

export function Badge({ tone = "plain", icon, children }: { tone?: "plain" | "good" | "warn" | "bad" | "accent"; icon?: IconName; children: ReactNode }) {
  const tones = {
    plain: "bg-sunken text-soft", good: "bg-good-soft text-good", warn: "bg-warn-soft text-warn", bad: "bg-bad-soft text-bad", accent: "bg-accent-soft text-accent-text",
  };
  return (
    <span className={clsx("inline-flex items-center gap-1 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap", tones[tone])}>
      {icon && <Icon name={icon} className="size-3.5" />}
      {children}
    </span>
  );
}

export function Card({ title, actions, children, className }: { title?: ReactNode; actions?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <section className={clsx("rounded-xl border bg-surface shadow-card", className)}>
      {title && (
        <header className="flex min-h-12 items-center justify-between gap-3 border-b px-4 py-1.5 sm:px-5">
          <h2 className="text-sm font-semibold">{title}</h2>
          {actions}
        </header>
      )}
      {children}
    </section>
  );
}

/** The head of a screen. */
export function Head({ title, about, children }: { title: ReactNode; about?: ReactNode; children?: ReactNode }) {
  return (
    <div className="mb-5 flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
      <div className="min-w-0">
        <h1 className="text-xl font-semibold tracking-tight break-words">{title}</h1>
        {about && <p className="mt-0.5 max-w-2xl text-sm text-soft">{about}</p>}
      </div>
      {children && <div className="flex flex-wrap items-center gap-2">{children}</div>}
    </div>
  );
}

/** A part of a whole, in words for screen readers. */
export function Meter({ value, label, tone = "accent" }: { value: number; label: string; tone?: "accent" | "warn" | "bad" }) {
  const share = Math.max(0, Math.min(1, Number.isFinite(value) ? value : 0));
  const tones = { accent: "bg-accent", warn: "bg-warn", bad: "bg-bad" };
  return (
    <div role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)} className="h-2 overflow-hidden rounded-full bg-sunken">
      <div className={clsx("h-full rounded-full transition-[width]", tones[tone])} style={{ width: `${share * 100}%` }} />
    </div>
  );
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS browsers have no clipboard for pages: the old way still works.
    const area = document.createElement("textarea");
    area.value = text;
    (document.querySelector('[role="dialog"]') ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A text to copy. `block`: of several lines; `headed`: with its label above, and the whole width for the text. */
export function CopyBox({ text, label, block, headed }: { text: string; label: string; block?: boolean; headed?: boolean }) {
  const t = useT();
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const button = (
    <Button tone="quiet" icon={done ? "check" : "copy"} className="m-0.5 h-8" aria-label={t.copyThis(label)} onClick={async () => setDone(await copy(text))}>
      <span aria-live="polite">{done ? t.copied : t.copy}</span>
    </Button>
  );
  const code = <pre tabIndex={0} aria-label={label} className="min-w-0 flex-1 overflow-x-auto px-3 py-2 text-[13px] leading-relaxed">{text}</pre>;
  if (headed) return <div className="rounded-md border bg-sunken"><div className="flex items-center justify-between gap-2 border-b pl-3"><span className="text-xs font-medium text-soft">{label}</span>{button}</div>{code}</div>;
  return <div className={clsx("flex rounded-md border bg-sunken", block ? "items-start" : "items-center")}>{code}{button}</div>;
}

export function Loading() {
  const t = useT();
  return <div role="status" className="flex items-center justify-center gap-2 py-14 text-sm text-soft"><Spinner /> {t.loading}</div>;
}

// Short messages that something is done.
type Toast = { id: number; text: string; tone: "good" | "bad" };
let toasts: Toast[] = [];
let nextToast = 1;
const listeners = new Set<() => void>();

function setToasts(list: Toast[]) {
  toasts = list;
  for (const call of listeners) call();
}

export function toast(text: string, tone: "good" | "bad" = "good") {
  const id = nextToast++;
  setToasts([...toasts, { id, text, tone }]);
  setTimeout(() => setToasts(toasts.filter((t) => t.id !== id)), tone === "good" ? 5000 : 10_000);
}

export function Toasts() {
  const list = useSyncExternalStore((call) => {
    listeners.add(call);
    return () => listeners.delete(call);
  }, () => toasts);
  return (
    <div role="status" aria-live="polite" className="pointer-events-none fixed inset-x-4 bottom-4 z-50 flex flex-col items-center gap-2 sm:inset-x-auto sm:left-1/2 sm:-translate-x-1/2">
      {list.map((t) => (
        <div key={t.id} className="rise flex max-w-lg items-center gap-2.5 rounded-lg bg-text px-4 py-2.5 text-sm text-ground shadow-float">
          <Icon name={t.tone === "good" ? "check" : "bad"} /> <span className="break-words">{t.text}</span>
        </div>
      ))}
    </div>
  );
}
