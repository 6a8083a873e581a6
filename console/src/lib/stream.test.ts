import { expect, test } from "vitest";
import { lineSplitter, partOf, waitAfter } from "./stream";

test("lines that come in pieces are put together, and keep-alives are left out", () => {
  const lines: string[] = [];
  const take = lineSplitter((line) => lines.push(line));
  for (const chunk of ['{"a":', "1}", "\n\n", '{"b":2}\n{"c"', ":3}\n", "\n", '{"d"']) take(chunk);
  expect(lines).toEqual(['{"a":1}', '{"b":2}', '{"c":3}']);
});

test("attempts are further and further apart, at most half a minute", () => {
  expect([0, 1, 2, 3].map(waitAfter)).toEqual([1000, 2000, 4000, 8000]);
  expect(waitAfter(1000)).toBe(30_000);
});

test("a part of a stream keeps the conditions", () => {
  expect(partOf("trace")).toBe("trace?seconds=5");
  expect(partOf("trace?errors=true")).toBe("trace?errors=true&seconds=5");
});
