import { expect, test } from "vitest";
import { windowOf } from "./window";

const [ROW, VIEW] = [44, 660];

test("the visible rows are rendered, with some beside them, at their own places", () => {
  expect(windowOf(0, ROW, 0, VIEW)).toEqual({ first: 0, end: 0, height: 0, base: 0, shift: 0 });
  expect(windowOf(1000, ROW, 0, VIEW)).toEqual({ first: 0, end: 31, height: 44_000, base: 0, shift: 0 });
  const { first, end, base, shift } = windowOf(1000, ROW, 500 * ROW, VIEW);
  expect([first, end, base, shift]).toEqual([488, 531, 0, 0]);
  expect(windowOf(1000, ROW, 44_000 - VIEW, VIEW).end).toBe(1000);
  // The list became shorter than what was scrolled by.
  expect(windowOf(3, ROW, 44_000, VIEW)).toMatchObject({ first: 3, end: 3 });
});

test("each of a million rows can be scrolled to, although no browser has an area of that height", () => {
  const count = 1_000_000;
  const { height } = windowOf(count, ROW, 0, VIEW);
  expect(height).toBeLessThan(17_800_000);
  let seen = 0;
  const wrong = [];
  for (let top = 0; top <= height - VIEW; top += 200) {
    const { first, end, base, shift } = windowOf(count, ROW, top, VIEW);
    // Rows that are seen are rendered, without a gap to those before, and small numbers place them.
    const [from, to] = [base + Math.ceil((top - shift) / ROW), base + Math.floor((top + VIEW - shift) / ROW)];
    if (first > from || end < Math.min(count, to) || from > seen + 1 || (end - base) * ROW > 1_000_000) wrong.push({ top, first, end, from, to, seen });
    seen = to;
  }
  expect(wrong).toEqual([]);
  expect(windowOf(count, ROW, height - VIEW, VIEW).end).toBe(count);
});
