// How values of Parquet files are written: instants and decimals exactly, bytes in hexadecimal, nested values as JSON. What is
// long is cut.
import type { ParquetParsers, SchemaElement, SchemaTree } from "hyparquet";
import { isListLike, isMapLike } from "hyparquet/src/schema.js";

/** Bytes of a binary value, and characters of any value, that are shown. */
const BYTES_SHOWN = 32;
const SHOWN = 500;
/** Entries of a list, or fields, that are looked at to make a JSON text, and how deep. */
const ENTRIES = 200;
const DEEPEST = 20;

/** A point in time: `count` units since 1970, of which `perSecond` are a second. */
class Instant {
  constructor(readonly count: bigint, readonly perSecond: bigint) {}

  toString(): string {
    return this.text(false);
  }

  /** As in ISO 8601, with as many digits as its unit has. */
  text(utc: boolean): string {
    const seconds = (this.count - ((this.count % this.perSecond) + this.perSecond) % this.perSecond) / this.perSecond;
    const date = new Date(Number(seconds) * 1000);
    if (Number.isNaN(date.getTime())) return `${this.count}/${this.perSecond} s`;
    return `${date.toISOString().slice(0, -5).replace("T", " ")}${fraction(this.count - seconds * this.perSecond, this.perSecond)}${utc ? "Z" : ""}`;
  }
}

/** The digits behind the second, without zeros at the end. */
function fraction(part: bigint, perSecond: bigint): string {
  const digits = String(part).padStart(String(perSecond).length - 1, "0").replace(/0+$/, "");
  return digits && `.${digits}`;
}

export const PARSERS: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (n) => new Instant(BigInt(n), 1000n),
  timestampFromMicroseconds: (n) => new Instant(BigInt(n), 1_000_000n),
  timestampFromNanoseconds: (n) => new Instant(BigInt(n), 1_000_000_000n),
  dateFromDays: (days) => new Instant(BigInt(days) * 86_400n, 1n),
  // A value that is no JSON does not make the column unreadable.
  jsonFromBytes: (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes),
};

const RAW = ["DECIMAL", "BSON", "INTERVAL", "GEOMETRY", "GEOGRAPHY"];

/** The element without a meaning that hyparquet would lose digits for, or refuse: its values stay as they are stored. */
export function rawElement(element: SchemaElement): SchemaElement {
  if (!RAW.includes(element.converted_type ?? "") && !RAW.includes(element.logical_type?.type ?? "")) return element;
  const { converted_type: _, logical_type: __, ...rest } = element;
  return rest;
}

/** A value of a column, or null. */
export function textOf(value: unknown, column: SchemaTree): string | null {
  const found = plain(value, column, 0);
  if (found === null) return null;
  const text = typeof found === "string" ? found : JSON.stringify(found);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

/** A value made of what JSON has. Those of leaves are texts, except numbers and truth values in something nested. */
function plain(value: unknown, node: SchemaTree, depth: number): unknown {
  if (value === null || value === undefined) return null;
  if (depth > DEEPEST) return "…";
  if (node.element.repetition_type === "REPEATED" && Array.isArray(value)) {
    return entries(value, (v) => plain(v, { ...node, element: { ...node.element, repetition_type: "REQUIRED" } }, depth + 1));
  }
  if (node.children.length === 0) return leaf(value, node.element, depth > 0);
  if (isListLike(node) && Array.isArray(value)) {
    const list = node.children[0] as SchemaTree;
    const entry = list.children.length === 1 ? (list.children[0] as SchemaTree) : { ...list, element: { ...list.element, repetition_type: "REQUIRED" as const } };
    return entries(value, (v) => plain(v, entry, depth + 1));
  }
  if (typeof value !== "object") return String(value);
  const of = isMapLike(node) ? () => node.children[0]?.children[1] : (name: string) => node.children.find((c) => c.element.name === name);
  return Object.fromEntries(Object.entries(value).slice(0, ENTRIES).map(([name, v]) => {
    const child = of(name);
    return [name, child ? plain(v, child, depth + 1) : String(v)];
  }));
}

function entries(list: unknown[], text: (value: unknown) => unknown): unknown[] {
  const out = list.slice(0, ENTRIES).map(text);
  return list.length > ENTRIES ? [...out, "…"] : out;
}

function leaf(value: unknown, element: SchemaElement, nested: boolean): unknown {
  const { converted_type: converted, logical_type: logical, scale } = element;
  if (value instanceof Instant) return converted === "DATE" || logical?.type === "DATE" ? value.text(false).slice(0, -9) : value.text(logical?.type === "TIMESTAMP" ? logical.isAdjustedToUTC : converted !== undefined);
  if (logical?.type === "DATE" && typeof value === "number") return new Instant(BigInt(value) * 86_400n, 1n).text(false).slice(0, -9);
  if (converted === "DECIMAL" || logical?.type === "DECIMAL") return decimal(value instanceof Uint8Array ? signed(value) : BigInt(value as number | bigint), scale ?? (logical?.type === "DECIMAL" ? logical.scale : 0));
  if (value instanceof Uint8Array) return converted === "ENUM" || logical?.type === "ENUM" ? new TextDecoder().decode(value) : hex(value);
  if (converted === "TIME_MILLIS" || converted === "TIME_MICROS" || logical?.type === "TIME") {
    const unit = logical?.type === "TIME" ? logical.unit : converted === "TIME_MILLIS" ? "MILLIS" : "MICROS";
    return new Instant(BigInt(value as number | bigint), { MILLIS: 1000n, MICROS: 1_000_000n, NANOS: 1_000_000_000n }[unit]).text(false).slice(11);
  }
  if (typeof value === "number" && element.type === "FLOAT") return number(shortest(value), nested);
  if (typeof value === "number") return number(value, nested);
  if (typeof value === "bigint") return nested && Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === "boolean" && nested) return value;
  return String(value);
}

/** JSON has no infinite numbers. */
const number = (value: number, nested: boolean) => (nested && Number.isFinite(value) ? value : String(value));

/** The number with the fewest digits that is this one in 32 bits: 0.1, not 0.10000000149011612. */
function shortest(value: number): number {
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** A number in two's complement, the highest byte first. */
function signed(bytes: Uint8Array): bigint {
  const found = bytes.reduce((n, byte) => n * 256n + BigInt(byte), 0n);
  return BigInt.asIntN(8 * bytes.length, found);
}

function decimal(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, "0");
  const at = digits.length - scale;
  return `${unscaled < 0n ? "-" : ""}${digits.slice(0, at)}${scale > 0 ? `.${digits.slice(at)}` : ""}`;
}

function hex(bytes: Uint8Array): string {
  const text = Array.from(bytes.subarray(0, BYTES_SHOWN), (b) => b.toString(16).padStart(2, "0")).join("");
  return bytes.length > BYTES_SHOWN ? `${text}… (${bytes.length} B)` : text;
}
