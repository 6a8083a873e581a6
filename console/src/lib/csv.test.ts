import { expect, test } from "vitest";
import { parseCsv, separatorOf } from "./csv";

test("values with quotes, separators and line ends in them are one value", () => {
  expect(parseCsv('a,b\r\n"x, ""y""","1\n2"\n\nlast,', 9, false)).toEqual([["a", "b"], ['x, "y"', "1\n2"], ["last", ""]]);
  expect(separatorOf("a;b;c,d\n1,2,3,4,5")).toBe(";");
  expect(parseCsv("a\tb\n1\t2", 9, false)).toEqual([["a", "b"], ["1", "2"]]);
});

test("a text that is cut has no half of a row, and no more rows than wanted", () => {
  expect(parseCsv('a,b\n1,2\n3,"x', 9, true)).toEqual([["a", "b"], ["1", "2"]]);
  expect(parseCsv("1\n2\n3\n", 2, false)).toEqual([["1"], ["2"]]);
  expect(parseCsv("", 2, false)).toEqual([]);
});
