// The keys that work on every screen.

export type Shortcut = "bar" | "search" | "help";

/** What a key asks for. `typing`: it goes into a field. */
export function isShortcut(e: { key: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean }, typing: boolean): Shortcut | null {
  if ((e.ctrlKey || e.metaKey) && !e.altKey) return e.key.toLowerCase() === "k" ? "bar" : null;
  if (typing || e.altKey) return null;
  return e.key === "/" ? "search" : e.key === "?" ? "help" : null;
}

/** Whether what is typed goes into an element. */
export function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
