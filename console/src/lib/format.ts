// Numbers with units, in the person's language.
import { usePrefs, type Language } from "./prefs";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

// A formatter is expensive to make, and `toLocaleString` with options makes one at each call.
const made = new Map<string, Intl.NumberFormat>();

function numbers(language: Language, digits: number): Intl.NumberFormat {
  const name = `${language} ${digits}`;
  const there = made.get(name);
  if (there) return there;
  const formatter = new Intl.NumberFormat(language, { maximumFractionDigits: digits });
  made.set(name, formatter);
  return formatter;
}

export function bytes(n: number, language: Language): string {
  let unit = 0;
  let value = n;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${numbers(language, digits).format(value)}\u00a0${UNITS[unit]}`;
}

/** Seconds, in the two largest units. */
export function duration(seconds: number, language: Language): string {
  const units: [number, string][] = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const parts: string[] = [];
  let rest = Math.max(0, Math.round(seconds));
  for (const [size, unit] of units) {
    const n = Math.floor(rest / size);
    if (n > 0 || (size === 1 && parts.length === 0)) {
      parts.push(n.toLocaleString(language, { style: "unit", unit, unitDisplay: "short" }));
    } else if (parts.length > 0) break;
    rest -= n * size;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export type Format = ReturnType<typeof makeFormat>;

function makeFormat(chosen: Language) {
  // The person's own region, for instance British dates, where it is of the same language.
  const language = (navigator.languages.find((l) => l.split("-")[0] === chosen) ?? chosen) as Language;
  const when = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
  const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
  const day = new Intl.DateTimeFormat(language, { day: "numeric", month: "short" });
  const exact = new Intl.DateTimeFormat(language, { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const full = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });
  return {
    bytes: (n: number) => bytes(n, language),
    count: (n: number) => numbers(language, 3).format(n),
    decimal: (n: number, digits = 1) => numbers(language, digits).format(n),
    percent: (n: number) => n.toLocaleString(language, { style: "percent", maximumFractionDigits: n < 0.1 ? 1 : 0 }),
    duration: (seconds: number) => duration(seconds, language),
    when: (value: string | number) => (value === "" ? "–" : when.format(new Date(value))),
    clock: (value: number) => clock.format(value),
    day: (value: number) => day.format(value),
    /** Day and time to the second, short. */
    exact: (value: number) => exact.format(value),
    full: (value: string | number) => full.format(new Date(value)),
  };
}

// Each row of a list asks for one.
const formats = new Map<Language, Format>();

export function useFormat(): Format {
  const { language } = usePrefs();
  let format = formats.get(language);
  if (!format) formats.set(language, (format = makeFormat(language)));
  return format;
}
