// Sizes of parts: of new uploads, and of those that go on.
import { beforeAll, expect, test, vi } from "vitest";

const MiB = 1024 * 1024;
let partSize: (size: number) => number;
let resumedPartSize: (stored: { number: number; size: number; etag: string; crc: string }[], size: number) => number;

beforeAll(async () => {
  vi.stubGlobal("addEventListener", () => undefined);
  ({ partSize, resumedPartSize } = await import("./uploads"));
});

const parts = (...sizes: [number: number, size: number][]) => sizes.map(([number, size]) => ({ number, size, etag: "", crc: "" }));

test("parts are 8 MiB or more, and at most 10,000", () => {
  expect(partSize(9 * MiB)).toBe(8 * MiB);
  expect(partSize(2000 * MiB)).toBe(24 * MiB);
  expect(Math.ceil((5 * 1024 * 1024 * MiB) / partSize(5 * 1024 * 1024 * MiB))).toBeLessThanOrEqual(10_000);
});

test("an upload goes on with parts of the size that the server has", () => {
  expect(resumedPartSize(parts([1, 16 * MiB], [3, 16 * MiB]), 100 * MiB)).toBe(16 * MiB);
  expect(resumedPartSize(parts([2, 16 * MiB], [3, 4 * MiB]), 36 * MiB)).toBe(16 * MiB);
  // Only the last part is there, or parts that are too small: the usual size.
  expect(resumedPartSize(parts([3, 6 * MiB]), 22 * MiB)).toBe(8 * MiB);
  expect(resumedPartSize(parts([1, 16 * MiB], [2, 12 * MiB], [3, 16 * MiB]), 100 * MiB)).toBe(8 * MiB);
  expect(resumedPartSize(parts([1, MiB]), 22 * MiB)).toBe(8 * MiB);
  expect(resumedPartSize([], 22 * MiB)).toBe(8 * MiB);
});
