import { expect, test } from "vitest";
import { rateOf, sampled, type Sample } from "./rate";

const after = (...read: [number, number][]) => read.reduce<readonly Sample[]>((s, [at_ms, value]) => sampled(s, { at_ms, value }), []);

test("a rate is of the last minute", () => {
  expect(rateOf(after())).toBeNull();
  expect(rateOf(after([0, 100]))).toBeNull();
  expect(rateOf(after([0, 100], [5000, 150], [10_000, 300]))).toBe(20);
  // What is older than a minute does not count.
  expect(rateOf(after([0, 0], [60_000, 600], [120_000, 600]))).toBe(0);
});

test("a counter that began anew, and an answer that is shown again", () => {
  expect(rateOf(after([0, 1000], [5000, 10], [10_000, 60]))).toBe(10);
  expect(after([0, 1], [0, 1])).toHaveLength(1);
});
