// The messages of the console in the person's language. A message that is missing in a language does not compile. Only the
// language in use is loaded.
import { useSyncExternalStore } from "react";
import { prefsNow, type Language } from "../lib/prefs";
import type { en } from "./en";

export type Messages = typeof en;

const load: Record<Language, () => Promise<Messages>> = {
  en: () => import("./en").then((m) => m.en),
  de: () => import("./de").then((m) => m.de),
};

let messages: Messages | null = null;
const listeners = new Set<() => void>();

/** Loads the messages of the person's language; nothing can be shown before. */
export async function loadMessages(): Promise<void> {
  const { language } = prefsNow();
  const found = await load[language]();
  if (language !== prefsNow().language) return;
  messages = found;
  document.documentElement.lang = language;
  for (const call of listeners) call();
}

export function useT(): Messages {
  const found = useSyncExternalStore(
    (call) => {
      listeners.add(call);
      return () => listeners.delete(call);
    },
    () => messages,
  );
  if (!found) throw new Error("messages are used before they are loaded");
  return found;
}
