import { expect, test } from "vitest";
import { changed, rateOf, shareOf, written } from "./heal_limits";

const now = { max_rate: 100 * 1024 ** 2, scrub_max_rate: 0, busy_share: 25 };

test("a rate is in MiB per second, and nothing is no limit", () => {
  expect(rateOf("")).toBe(0);
  expect(rateOf(" 0 ")).toBe(0);
  expect(rateOf("1,5")).toBe(1.5 * 1024 ** 2);
  expect(rateOf("0.0625")).toBe(65_536);
  for (const bad of ["0.05", "-1", "fast", "1e30", "1 MiB"]) expect(rateOf(bad), bad).toBeNull();
});

test("a share is a whole number of percent", () => {
  expect([shareOf("1"), shareOf("100")]).toEqual([1, 100]);
  for (const bad of ["", "0", "101", "2.5", "-3", "x"]) expect(shareOf(bad), bad).toBeNull();
});

test("only what differs is sent", () => {
  expect(written(now)).toEqual({ max_rate: "100", scrub_max_rate: "", busy_share: "25" });
  expect(changed(now, written(now))).toEqual({});
  expect(changed(now, { max_rate: "", scrub_max_rate: "50", busy_share: "25" })).toEqual({ max_rate: 0, scrub_max_rate: 50 * 1024 ** 2 });
  expect(changed(now, { ...written(now), busy_share: "0" })).toBeNull();
  // A rate that was set elsewhere, in bytes, is kept exactly.
  const odd = { ...now, max_rate: 70_001 };
  expect(changed(odd, written(odd))).toEqual({});
});
