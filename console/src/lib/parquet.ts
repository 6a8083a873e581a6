// Parquet files (github.com/apache/parquet-format), decoded by hyparquet: the columns, and some rows. Of a file only parts are read:
// its metadata, and of each column the pages up to the rows that are asked for.
//
// Invariant: what is fetched of a column is limited, and so are the sizes and counts of values that the heads of its pages name: they are
// checked before anything is decoded, because hyparquet sets aside what they say.
import { parquetMetadata, parquetRead, parquetSchema, type ColumnChunk, type CompressionCodec, type FileMetaData, type RowGroup, type SchemaElement, type SchemaTree } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
import { pooled } from "./pool";
import { PARSERS, rawElement, textOf } from "./parquet_values";
import type { ReadPart } from "./ranges";
import { Unzipped } from "./unzipped";

export type Column = { name: string; depth: number; type: string; optional: boolean; repeated: boolean };
export type Parquet = { size: number; rows: number; groups: number; createdBy: string; columns: Column[]; metadata: FileMetaData; schema: SchemaTree };
/** A column that is not shown. `what`: the compression, where that is the reason. */
export type Left = { column: string; why: "compression" | "large" | "broken"; what: string };
/** Rows as texts, null where there is no value; `names` are those of the columns that are shown, `left` those that cannot be. */
export type Rows = { names: string[]; rows: (string | null)[][]; left: Left[] };

/** Columns whose values are shown: the first. */
export const COLUMNS_SHOWN = 50;
/** Longest metadata that are read, in bytes. */
const METADATA_LIMIT = 4 * 1024 * 1024;
/** Of a column, in one row group: bytes that are fetched, bytes after unpacking, and values. */
export const COLUMN_LIMIT = 8 * 1024 * 1024;
const UNPACKED_LIMIT = 64 * 1024 * 1024;
const VALUES_LIMIT = 4_000_000;
/** What is fetched of a column first. */
const FIRST = 256 * 1024;
const AT_ONCE = 4;
/** The length of the metadata and the mark, at the end of a file. */
const TAIL = 8;

class Unreadable extends Error {
  constructor(readonly why: Left["why"], readonly what = "") {
    super(why);
  }
}

/** The metadata of a file; null: it is not a Parquet file, or one that is encrypted or broken, or its metadata are too long. */
export async function openParquet(size: number, read: ReadPart): Promise<Parquet | null> {
  if (size < 2 * TAIL) return null;
  const tail = await read(size - TAIL, size);
  const length = new DataView(tail).getUint32(0, true);
  if (new TextDecoder().decode(tail.slice(4)) !== "PAR1" || length > METADATA_LIMIT || length + TAIL > size) return null;
  return readMetadata(await read(size - TAIL - length, size), size);
}

/** Of the end of a file of `size` bytes: the metadata with the eight bytes behind. Null as for `openParquet`. */
export function readMetadata(end: ArrayBuffer, size: number): Parquet | null {
  try {
    const metadata = parquetMetadata(end, { geoparquet: false, parsers: PARSERS });
    const schema = parquetSchema(metadata);
    const columns: Column[] = [];
    list(schema, 0, columns);
    return { size, rows: Number(metadata.num_rows), groups: metadata.row_groups.length, createdBy: metadata.created_by ?? "", columns, metadata, schema };
  } catch {
    return null;
  }
}

function list(of: SchemaTree, depth: number, out: Column[]) {
  for (const child of of.children) {
    const { element } = child;
    out.push({ name: element.name, depth, type: typeOf(element), optional: element.repetition_type === "OPTIONAL", repeated: element.repetition_type === "REPEATED" });
    list(child, depth + 1, out);
  }
}

function typeOf({ type, converted_type, logical_type, precision, scale }: SchemaElement): string {
  if (converted_type === "DECIMAL") return `DECIMAL(${precision}, ${scale ?? 0})`;
  // Integers have the older names, which tell their size.
  const meant = logical_type?.type === "INTEGER" ? converted_type : (logical_type?.type ?? converted_type);
  return meant ?? type ?? "GROUP";
}

/** Rows `from` to `to`, without `to`, of the first columns. */
export async function readRows(file: Parquet, read: ReadPart, from: number, to: number): Promise<Rows> {
  const left: Left[] = [];
  const shown = file.schema.children.slice(0, COLUMNS_SHOWN);
  const columns = await pooled(shown, AT_ONCE, async (column) => {
    try {
      const cells: (string | null)[] = [];
      let start = 0;
      for (const group of file.metadata.row_groups) {
        const [a, b] = [Math.max(from - start, 0), Math.min(to - start, Number(group.num_rows))];
        if (a < b) cells.push(...(await valuesOf(file, read, group, column, a, b)).map((v) => textOf(v, column)));
        start += Number(group.num_rows);
      }
      return cells;
    } catch (error) {
      // Errors of the network are the page's; those of decoding are of many kinds, and say that the column is broken.
      if (error instanceof Error && "status" in error || error instanceof DOMException) throw error;
      const { why, what } = error instanceof Unreadable ? error : new Unreadable("broken");
      left.push({ column: column.element.name, why, what });
      return null;
    }
  });
  const there = shown.flatMap((column, i) => (columns[i] ? [{ name: column.element.name, cells: columns[i] }] : []));
  const count = Math.max(0, ...there.map((c) => c.cells.length));
  return { names: there.map((c) => c.name), rows: Array.from({ length: count }, (_, row) => there.map((c) => c.cells[row] ?? null)), left };
}

/** The values of a column in the rows `a` to `b`, without `b`, of a row group. */
async function valuesOf(file: Parquet, read: ReadPart, group: RowGroup, column: SchemaTree, a: number, b: number): Promise<unknown[]> {
  const name = column.element.name;
  const isFlat = column.children.length === 0 && column.element.repetition_type !== "REPEATED";
  const unzipped = new Unzipped();
  const parts: Part[] = [];
  for (const chunk of group.columns.filter((c) => c.meta_data?.path_in_schema[0] === name)) {
    const { start, length, codec } = placeOf(chunk, file.size);
    // Where a value can have several entries, the rows of a page cannot be counted from its head: all pages are needed.
    const part = await pagesFor(read, start, length, isFlat ? b : Infinity);
    if (codec === "GZIP") for (const page of part.pages) await unzipped.add(part.bytes.subarray(page.from, page.to), page.unpacked);
    parts.push(part);
  }
  const metadata = { ...file.metadata, schema: file.metadata.schema.map(rawElement), row_groups: [group], num_rows: group.num_rows };
  const values = await new Promise<unknown[]>((resolve, reject) => {
    parquetRead({
      file: { byteLength: file.size, slice: (from, to) => joined(parts, from, to ?? file.size) }, metadata, columns: [name], rowStart: a, rowEnd: b, utf8: false, geoparquet: false,
      parsers: PARSERS, compressors: { GZIP: (packed) => unzipped.find(packed) }, onComplete: (rows) => resolve(rows.map((row) => row[0])),
    }).catch(reject);
  });
  if (values.length !== b - a || values.includes(undefined) && isFlat && column.element.repetition_type === "REQUIRED") throw new Unreadable("broken");
  return values;
}

const READABLE: CompressionCodec[] = ["UNCOMPRESSED", "SNAPPY", "GZIP"];

/** Where the pages of a column are in the file, and how they are compressed. */
function placeOf(chunk: ColumnChunk, size: number): { start: number; length: number; codec: CompressionCodec } {
  const meta = chunk.meta_data;
  if (!meta || chunk.file_path || chunk.crypto_metadata) throw new Unreadable("broken");
  if (!READABLE.includes(meta.codec)) throw new Unreadable("compression", meta.codec ?? "?");
  const start = Number(meta.dictionary_page_offset || meta.data_page_offset);
  const length = Number(meta.total_compressed_size);
  if (!(start >= 0 && length > 0 && start + length <= size)) throw new Unreadable("broken");
  return { start, length, codec: meta.codec };
}

/** The data of a page in a part, without levels that are never compressed. */
type Page = { from: number; to: number; unpacked: number };
type Part = { start: number; bytes: Uint8Array<ArrayBuffer>; pages: Page[] };

/** The beginning of a column's pages, until `rows` rows are in them. */
async function pagesFor(read: ReadPart, start: number, length: number, rows: number): Promise<Part> {
  let bytes = new Uint8Array(0);
  let wanted = Math.min(length, rows === Infinity ? length : FIRST);
  for (;;) {
    if (wanted > COLUMN_LIMIT) throw new Unreadable("large");
    const more = new Uint8Array(await read(start + bytes.length, start + wanted));
    const all = new Uint8Array(wanted);
    all.set(bytes);
    all.set(more, bytes.length);
    bytes = all;
    const found = walk(bytes, rows, bytes.length === length);
    if (found.whole) return { start, bytes, pages: found.pages };
    wanted = Math.min(length, Math.max(found.end, Math.min(2 * bytes.length, COLUMN_LIMIT)));
    if (wanted <= bytes.length) throw new Unreadable(bytes.length < length ? "large" : "broken");
  }
}

/** Reads the heads of pages. `whole`: all pages that are needed are there; if not, at least the bytes up to `end` are needed. */
function walk(bytes: Uint8Array<ArrayBuffer>, rows: number, isAll: boolean): { whole: boolean; end: number; pages: Page[] } {
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  const pages: Page[] = [];
  let [seen, values, unpacked] = [0, 0, 0];
  while (seen < rows) {
    // The last byte is no page: hyparquet stops there too.
    if (reader.offset >= bytes.length - 1) return { whole: isAll, end: reader.offset + 1, pages };
    let head: ReturnType<typeof parquetHeader>;
    try {
      head = parquetHeader(reader);
    } catch (error) {
      if (isAll) throw error;
      return { whole: false, end: bytes.length + 1, pages };
    }
    const [from, v2] = [reader.offset, head.data_page_header_v2];
    const count = (head.data_page_header ?? v2 ?? head.dictionary_page_header)?.num_values ?? 0;
    const levels = v2 ? v2.definition_levels_byte_length + v2.repetition_levels_byte_length : 0;
    const sizes = [head.compressed_page_size, head.uncompressed_page_size, count, levels, ...(v2 ? [v2.num_nulls, v2.num_rows, v2.definition_levels_byte_length, v2.repetition_levels_byte_length] : [])];
    if (!sizes.every((n) => Number.isInteger(n) && n >= 0) || levels > head.compressed_page_size || levels > head.uncompressed_page_size || v2 && (v2.num_nulls > count || v2.num_rows > count)) throw new Unreadable("broken");
    values += count;
    unpacked += head.uncompressed_page_size;
    if (values > VALUES_LIMIT || unpacked > UNPACKED_LIMIT) throw new Unreadable("large");
    reader.offset = from + head.compressed_page_size;
    if (reader.offset > bytes.length) {
      if (isAll) throw new Unreadable("broken");
      return { whole: false, end: reader.offset, pages };
    }
    if (!v2 || v2.is_compressed !== false && head.uncompressed_page_size > levels) pages.push({ from: from + levels, to: reader.offset, unpacked: head.uncompressed_page_size - levels });
    if (head.data_page_header || v2) seen += count;
  }
  return { whole: true, end: reader.offset, pages };
}

/** What there is of the bytes `from` to `to` of the file. */
function joined(parts: Part[], from: number, to: number): ArrayBuffer {
  const within = parts.filter((p) => p.start >= from && p.start < to);
  const out = new Uint8Array(Math.max(0, ...within.map((p) => p.start + p.bytes.length - from)));
  for (const part of within) out.set(part.bytes, part.start - from);
  return out.buffer;
}
