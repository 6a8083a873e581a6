// How fast a counter grows, from what was read of it in the last minute.
import { useRef } from "react";

export type Sample = { at_ms: number; value: number };
const SPAN_MS = 60_000;

/** The samples of the last minute with a new one; a counter that fell has begun anew. */
export function sampled(samples: readonly Sample[], next: Sample): readonly Sample[] {
  const last = samples.at(-1);
  if (last && next.at_ms <= last.at_ms) return samples;
  if (last && next.value < last.value) return [next];
  return [...samples.filter((s) => s.at_ms >= next.at_ms - SPAN_MS), next];
}

/** Per second; null: it was read once only. */
export function rateOf(samples: readonly Sample[]): number | null {
  const [first, last] = [samples[0], samples.at(-1)];
  return first && last && last.at_ms > first.at_ms ? ((last.value - first.value) * 1000) / (last.at_ms - first.at_ms) : null;
}

/** The rate of a counter that was read at `at_ms`. */
export function useRate(value: number | undefined, at_ms: number): number | null {
  const samples = useRef<readonly Sample[]>([]);
  if (value !== undefined) samples.current = sampled(samples.current, { at_ms, value });
  return rateOf(samples.current);
}
