// What a person prefers on this device: theme and language. Nothing secret is ever kept in the browser's storage.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
export type Language = "en" | "de";
export const LANGUAGES: { code: Language; name: string }[] = [
  { code: "en", name: "English" },
  { code: "de", name: "Deutsch" },
];

type Prefs = { theme: Theme; language: Language };

function read(name: string): string | null {
  try {
    return localStorage.getItem(`ashlar.${name}`);
  } catch {
    return null; // Storage is forbidden: the choice lasts until the page is closed.
  }
}

function initial(): Prefs {
  const theme = read("theme");
  const language = read("language");
  return {
    theme: theme === "light" || theme === "dark" ? theme : "system",
    language: language === "de" || language === "en" ? language : navigator.language.toLowerCase().startsWith("de") ? "de" : "en",
  };
}

let prefs = initial();
const listeners = new Set<() => void>();
const dark = matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  return prefs.theme === "dark" || (prefs.theme === "system" && dark.matches);
}

function apply() {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
}

dark.addEventListener("change", () => {
  apply();
  prefs = { ...prefs };
  for (const call of listeners) call();
});
apply();

export function setPref<K extends keyof Prefs>(name: K, value: Prefs[K]) {
  prefs = { ...prefs, [name]: value };
  try {
    localStorage.setItem(`ashlar.${name}`, value);
  } catch {
    // As above.
  }
  apply();
  for (const call of listeners) call();
}

export function prefsNow(): Prefs {
  return prefs;
}

export function usePrefs(): Prefs {
  return useSyncExternalStore(
    (call) => {
      listeners.add(call);
      return () => listeners.delete(call);
    },
    () => prefs,
  );
}
