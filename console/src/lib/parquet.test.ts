import { expect, test } from "vitest";
import { metadataLength, readMetadata, TAIL } from "./parquet";

/** The end of a file with three rows in two groups, made by pyarrow 26: id int64, name string, when timestamp, tags list of strings. */
const FILE = Uint8Array.from(atob([
  "FQQZfDUAGAZzY2hlbWEVCAAVBCUCGAJpZAAVDCUCGARuYW1lJQBMHAAAABUEJQIYBHdoZW4lEkyMEhwcAAAAAAA1AhgEdGFncxUCFQZMPAAAADUEGARsaXN0FQIAFQwlAhgHZWxlbWVu",
  "dCUATBwAAAAWBhksGUwmABwVBBk1AAYQGRgCaWQVAhYEFswBFtQBJkgmCBwYCAIAAAAAAAAAGAgBAAAAAAAAABYAKAgCAAAAAAAAABgIAQAAAAAAAAAREQAZLBUEFQAVAgAVABUQFQIA",
  "PCkGGSYABAAAACYAHBUMGTUABhAZGARuYW1lFQIWBBZ8FoQBJpACJtwBHDYAKAFiGAFhEREAGSwVBBUAFQIAFQAVEBUCADwWBBkGGSYABAAAACYAHBUEGTUABhAZGAR3aGVuFQIWBBbM",
  "ARbUASagAybgAhwYCAEAAAAAAAAAGAgAAAAAAAAAABYAKAgBAAAAAAAAABgIAAAAAAAAAAAREQAZLBUEFQAVAgAVABUQFQIAPCkGGSYABAAAACYAHBUMGTUABhAZOAR0YWdzBGxpc3QH",
  "ZWxlbWVudBUCFgQWgAEWiAEm3gQmtAQcNgIoAXgYAXgREQAZLBUEFQAVAgAVABUQFQIAPBYCGSYEABlGAAIAAgAAABaUBRYEJggWtAUAGUwmABwVBBk1AAYQGRgCaWQVAhYCFrwBFsQB",
  "JuwFJrwFHBgIAwAAAAAAAAAYCAMAAAAAAAAAFgAoCAMAAAAAAAAAGAgDAAAAAAAAABERABksFQQVABUCABUAFRAVAgA8KQYZJgACAAAAJgAcFQwZNQAGEBkYBG5hbWUVAhYCFlQWWiae",
  "ByaABxw2AgAZLBUEFQAVAgAVABUQFQIAPBYAGQYZJgIAAAAAJgAcFQQZNQAGEBkYBHdoZW4VAhYCFrwBFsQBJooIJtoHHBgIAgAAAAAAAAAYCAIAAAAAAAAAFgAoCAIAAAAAAAAAGAgC",
  "AAAAAAAAABERABksFQQVABUCABUAFRAVAgA8KQYZJgACAAAAJgAcFQwZNQAGEBk4BHRhZ3MEbGlzdAdlbGVtZW50FQIWAhZgFmYmvAkmngkcNgIAGSwVBBUAFQIAFQAVEBUCADwWABkm",
  "AgAZRgIAAAAAAAAWrAQWAia8BRbIBAAoIHBhcnF1ZXQtY3BwLWFycm93IHZlcnNpb24gMjYuMC4xGUwcAAAcAAAcAAAcAAAAkAMAAFBBUjE=",
].join("")), (c) => c.charCodeAt(0));

test("columns and rows of a file are read from its end", () => {
  const length = metadataLength(FILE.subarray(-TAIL));
  expect(length).toBe(FILE.length - TAIL);
  const found = readMetadata(FILE.subarray(0, length!));
  expect([found.rows, found.groups]).toEqual([3, 2]);
  expect(found.createdBy).toContain("parquet-cpp-arrow");
  expect(found.columns.map((c) => [c.depth, c.name, c.type, c.optional, c.repeated])).toEqual([
    [0, "id", "INT64", true, false], [0, "name", "STRING", true, false], [0, "when", "TIMESTAMP", true, false],
    [0, "tags", "LIST", true, false], [1, "list", "GROUP", false, true], [2, "element", "STRING", true, false],
  ]);
});

test("what is no metadata is refused and never read for ever", () => {
  expect(metadataLength(new TextEncoder().encode("no parquet"))).toBeNull();
  expect(metadataLength(new Uint8Array(3))).toBeNull();
  for (let end = 0; end < FILE.length - TAIL; end += 7) expect(() => readMetadata(FILE.subarray(0, end))).toThrow();
  // Each changed byte gives an error or other columns, and ends.
  for (let at = 0; at < FILE.length - TAIL; at++) {
    const changed = FILE.slice(0, -TAIL);
    changed[at]! ^= 0x5a;
    try {
      readMetadata(changed);
    } catch (error) {
      expect(error).toBeInstanceOf(Error);
    }
  }
});
