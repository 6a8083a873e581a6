import { expect, test } from "vitest";
import { pooled } from "./pool";

test("results keep their order, and no more calls run than may", async () => {
  let [running, most] = [0, 0];
  const out = await pooled([3, 1, 2, 0], 2, async (n) => {
    most = Math.max(most, ++running);
    for (let i = 0; i < n; i++) await Promise.resolve();
    running--;
    return n * 10;
  });
  expect(out).toEqual([30, 10, 20, 0]);
  expect(most).toBe(2);
  expect(await pooled([], 4, async () => 1)).toEqual([]);
  await expect(pooled([1], 4, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
});
