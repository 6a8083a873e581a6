// The limits of healing and scrub as a person writes them: rates in MiB per second, the share in percent.

export type Limits = { max_rate: number; scrub_max_rate: number; busy_share: number };
/** What the fields of the form hold; a rate that is empty is no limit. */
export type Written = { [name in keyof Limits]: string };

export const MIB = 1024 ** 2;
/** The lowest rate that a server takes, in bytes per second. */
export const LOWEST_RATE = 64 * 1024;

export function written(limits: Limits): Written {
  const rate = (bytes: number) => (bytes === 0 ? "" : String(bytes / MIB));
  return { max_rate: rate(limits.max_rate), scrub_max_rate: rate(limits.scrub_max_rate), busy_share: String(limits.busy_share) };
}

/** Bytes per second, 0: no limit; null: it is no rate, or too low. */
export function rateOf(text: string): number | null {
  const bytes = Math.round(Number(text.trim().replace(",", ".")) * MIB);
  return bytes === 0 || (bytes >= LOWEST_RATE && Number.isSafeInteger(bytes)) ? bytes : null;
}

/** Percent; null: it is no whole number from 1 to 100. */
export function shareOf(text: string): number | null {
  const share = /^\d{1,3}$/.test(text.trim()) ? Number(text) : 0;
  return share >= 1 && share <= 100 ? share : null;
}

/** The limits that differ from those in force; null: some field cannot be used. */
export function changed(now: Limits, form: Written): Partial<Limits> | null {
  const next = { max_rate: rateOf(form.max_rate), scrub_max_rate: rateOf(form.scrub_max_rate), busy_share: shareOf(form.busy_share) };
  const order: Partial<Limits> = {};
  for (const name of ["max_rate", "scrub_max_rate", "busy_share"] as const) {
    const value = next[name];
    if (value === null) return null;
    if (value !== now[name]) order[name] = value;
  }
  return order;
}
