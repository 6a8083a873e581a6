import { expect, test } from "vitest";
import { COLUMN_LIMIT, openParquet, readMetadata, readRows, type Parquet } from "./parquet";
import { GZIP1, GZIP2, KINDS, MIXED } from "./parquet.fixtures";
import type { ReadPart } from "./ranges";

/** Reads of these bytes, and which were asked for. */
function reads(bytes: Uint8Array<ArrayBuffer>) {
  const asked: [number, number][] = [];
  const read: ReadPart = async (from, to) => {
    asked.push([from, to]);
    return bytes.slice(from, to).buffer;
  };
  return { read, asked };
}

async function open(bytes: Uint8Array<ArrayBuffer>): Promise<Parquet> {
  const file = await openParquet(bytes.length, reads(bytes).read);
  if (!file) throw new Error("it is no Parquet file");
  return file;
}

test("columns and rows of a file are read from its end", async () => {
  const { read, asked } = reads(KINDS);
  const found = (await openParquet(KINDS.length, read))!;
  expect(asked.every(([from]) => from > 8) && asked.length === 2).toBe(true);
  expect([found.rows, found.groups]).toEqual([3, 2]);
  expect(found.createdBy).toContain("parquet-cpp-arrow");
  const kinds = found.columns.map((c) => [c.depth, c.name, c.type, c.optional, c.repeated]);
  expect(kinds.slice(0, 6)).toEqual([
    [0, "id", "INT64", true, false], [0, "name", "STRING", true, false], [0, "price", "DECIMAL(9, 2)", true, false], [0, "huge", "DECIMAL(38, 3)", true, false],
    [0, "day", "DATE", true, false], [0, "at", "TIMESTAMP", true, false],
  ]);
  expect(kinds.slice(11, 14)).toEqual([[0, "tags", "LIST", true, false], [1, "list", "GROUP", false, true], [2, "element", "STRING", true, false]]);
});

test("values are exact, of every kind, over the border of two groups", async () => {
  const found = await readRows(await open(KINDS), reads(KINDS).read, 0, 3);
  expect(found.left).toEqual([]);
  const of = (name: string) => found.rows.map((row) => row[found.names.indexOf(name)]);
  expect(of("id")).toEqual(["1", "2", "9007199254740993"]);
  expect(of("name")).toEqual(["a", "äöü", null]);
  expect(of("price")).toEqual(["0.10", "-12.34", null]);
  expect(of("huge")).toEqual(["12345678901234567890123456.789", "-0.001", "0.000"]);
  expect(of("day")).toEqual(["2026-01-02", "1969-12-31", null]);
  expect(of("at")).toEqual(["1970-01-01 00:00:00.000001Z", "2026-01-02 03:04:05.123456Z", "1969-12-31 23:59:59.999999Z"]);
  expect(of("local")).toEqual(["1970-01-01 00:00:00", "2026-01-02 03:04:05.123456789", "1969-12-31 23:59:59.999999999"]);
  expect(of("time")).toEqual(["01:02:03.004", "00:00:00", null]);
  expect(of("raw")).toEqual([`${"00ff".repeat(16)}… (40 B)`, "01", ""]);
  expect(of("small")).toEqual(["0.1", "Infinity", null]);
  expect(of("ok")).toEqual(["true", "false", null]);
  expect(of("tags")).toEqual(['["x","y"]', "[]", null]);
  expect(of("deep")).toEqual(['{"n":1,"at":"1970-01-01 00:00:00"}', '{"n":null,"at":"1970-01-01 00:00:01"}', null]);
  expect(of("map")).toEqual(['{"k":"1.5"}', "{}", null]);
  const last = await readRows(await open(KINDS), reads(KINDS).read, 2, 3);
  expect(last.rows.map((row) => row[0])).toEqual(["9007199254740993"]);
});

test("gzip is unpacked, in both versions of pages; other compressions are named", async () => {
  const many = await readRows(await open(GZIP2), reads(GZIP2).read, 100, 200);
  expect(many.rows.length).toBe(100);
  expect([many.rows[0], many.rows[99]]).toEqual([["100", "row 100"], ["199", "row 199"]]);
  const few = await readRows(await open(GZIP1), reads(GZIP1).read, 0, 3);
  expect(few.rows).toEqual([["0", "row 0"], ["1", "row 1"], ["2", "row 2"]]);
  const mixed = await readRows(await open(MIXED), reads(MIXED).read, 0, 3);
  expect(mixed).toMatchObject({ names: ["s"], left: [{ column: "n", why: "compression", what: "ZSTD" }] });
  expect(mixed.rows).toEqual([["row 0"], ["row 1"], ["row 2"]]);
});

/** The file as if one of its columns were `length` bytes long; what is behind its pages reads as zeros. */
function stretched(file: Parquet, name: string, length: number): Parquet {
  const group = file.metadata.row_groups[0]!;
  const columns = group.columns.map((c) => (c.meta_data?.path_in_schema[0] === name ? { ...c, meta_data: { ...c.meta_data, total_compressed_size: BigInt(length) } } : c));
  return { ...file, size: file.size + length, metadata: { ...file.metadata, row_groups: [{ ...group, columns }] } };
}

test("of a long column only the beginning is fetched, and nothing of a long nested one", async () => {
  const { read, asked } = reads(KINDS);
  const long = stretched(await open(KINDS), "id", 10 * COLUMN_LIMIT);
  expect((await readRows(long, read, 0, 2)).rows.map((row) => row[0])).toEqual(["1", "2"]);
  expect(Math.max(...asked.map(([from, to]) => to - from))).toBeLessThan(COLUMN_LIMIT);
  const nested = await readRows(stretched(await open(KINDS), "tags", COLUMN_LIMIT + 1), read, 0, 2);
  expect(nested.left).toEqual([{ column: "tags", why: "large", what: "" }]);
  expect(nested.names).not.toContain("tags");
});

test("errors of the network are not told as a broken column", async () => {
  const file = await open(KINDS);
  const away = Object.assign(new Error("away"), { status: 503 });
  await expect(readRows(file, () => Promise.reject(away), 0, 3)).rejects.toBe(away);
});

test("what is no Parquet file is refused, and changed bytes end", async () => {
  const open = (bytes: Uint8Array<ArrayBuffer>) => openParquet(bytes.length, reads(bytes).read);
  expect(await open(new TextEncoder().encode("this is no parquet file"))).toBeNull();
  expect(await open(new Uint8Array(3))).toBeNull();
  const length = new DataView(MIXED.buffer).getUint32(MIXED.length - 8, true);
  const end = MIXED.slice(MIXED.length - 8 - length);
  for (let cut = 1; cut < length; cut += 7) expect(readMetadata(end.slice(cut).buffer, MIXED.length)).toBeNull();
  // Each changed byte gives no file, other columns, values or a broken column: never another error.
  for (let at = 0; at < MIXED.length - 8; at++) {
    const changed = MIXED.slice();
    changed[at]! ^= 0x5a;
    const file = await open(changed);
    if (file && file.rows > 0) await readRows(file, reads(changed).read, 0, Math.min(file.rows, 100));
  }
});
