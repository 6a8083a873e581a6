// The metadata of a Parquet file: its columns and the number of its rows. They are at its end, as a structure in Thrift's compact
// protocol (github.com/apache/parquet-format, parquet.thrift); the values of the columns are not read.

export type Column = { name: string; depth: number; type: string; optional: boolean; repeated: boolean };
export type Metadata = { rows: number; groups: number; createdBy: string; columns: Column[] };

/** Bytes at the end of a file: the length of the metadata and the mark. */
export const TAIL = 8;

const TYPES = ["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"];
const CONVERTED = ["UTF8", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64", "INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL"];
/** Of the newer way to say what a type means, by the number of its field. Integers have the older names, which tell their size. */
const LOGICAL: Record<number, string> = { 1: "STRING", 2: "MAP", 3: "LIST", 4: "ENUM", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP", 12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16" };
/** Structures in structures that are followed: those of the format are less than ten deep. */
const DEEPEST = 32;

type Value = number | boolean | Uint8Array | Value[] | Struct;
type Struct = Map<number, Value>;

/** How long the metadata is, of the last `TAIL` bytes of a file; null: it is not a Parquet file that can be read. */
export function metadataLength(tail: Uint8Array): number | null {
  if (tail.length < TAIL || String.fromCharCode(...tail.slice(-4)) !== "PAR1") return null;
  return new DataView(tail.buffer, tail.byteOffset + tail.length - TAIL).getUint32(0, true);
}

class Reader {
  #at = 0;
  constructor(readonly bytes: Uint8Array) {}

  byte(): number {
    const found = this.bytes[this.#at++];
    if (found === undefined) throw new Error("the metadata ends too early");
    return found;
  }

  /** A number of at most 64 bits, exact up to 2^53. */
  varint(): number {
    let [value, factor] = [0, 1];
    for (let i = 0; i < 10; i++) {
      const b = this.byte();
      value += (b & 0x7f) * factor;
      if (b < 0x80) return value;
      factor *= 128;
    }
    throw new Error("a number is too long");
  }

  zigzag(): number {
    const n = this.varint();
    return n % 2 === 0 ? n / 2 : -(n + 1) / 2;
  }

  skip(n: number): Uint8Array {
    const part = this.bytes.subarray(this.#at, this.#at + n);
    if (part.length < n) throw new Error("the metadata ends too early");
    this.#at += n;
    return part;
  }

  value(type: number, depth: number): Value {
    if (depth > DEEPEST) throw new Error("structures are too deep");
    switch (type) {
      case 1: case 2: return type === 1;
      case 3: return this.byte();
      case 4: case 5: case 6: return this.zigzag();
      case 7: this.skip(8); return 0;
      case 8: return this.skip(this.varint());
      case 9: case 10: {
        const head = this.byte();
        const size = head >> 4 === 15 ? this.varint() : head >> 4;
        const of = head & 15;
        const list: Value[] = [];
        for (let i = 0; i < size; i++) list.push(of <= 2 ? this.byte() === 1 : this.value(of, depth + 1));
        return list;
      }
      case 12: return this.struct(depth + 1);
      default: throw new Error(`type ${type} is not known`);
    }
  }

  struct(depth = 0): Struct {
    const fields: Struct = new Map();
    for (let id = 0; ;) {
      const head = this.byte();
      if (head === 0) return fields;
      id = head >> 4 === 0 ? this.zigzag() : id + (head >> 4);
      fields.set(id, this.value(head & 15, depth));
    }
  }
}

const number = (value: Value | undefined) => (typeof value === "number" ? value : 0);
const list = (value: Value | undefined) => (Array.isArray(value) ? value : []);
const text = (value: Value | undefined) => (value instanceof Uint8Array ? new TextDecoder().decode(value) : "");

/** What the metadata says. Fails if they are not Parquet's. */
export function readMetadata(bytes: Uint8Array): Metadata {
  const file = new Reader(bytes).struct();
  const columns: Column[] = [];
  // The tree of columns, flat: each element is followed by its children; the first one is the file.
  const open: number[] = [];
  for (const [i, element] of list(file.get(2)).entries()) {
    if (!(element instanceof Map)) throw new Error("the columns cannot be read");
    const children = number(element.get(5));
    if (i > 0) {
      const converted = element.has(6) ? CONVERTED[number(element.get(6))] : undefined;
      const logical = element.get(10);
      const meant = logical instanceof Map ? LOGICAL[[...logical.keys()][0] ?? 0] : undefined;
      const repetition = number(element.get(3));
      columns.push({ name: text(element.get(4)), depth: open.length - 1, type: meant ?? converted ?? (children > 0 ? "GROUP" : (TYPES[number(element.get(1))] ?? "?")), optional: repetition === 1, repeated: repetition === 2 });
      open[open.length - 1]! -= 1;
    }
    if (children > 0) open.push(children);
    while (open.length > 0 && open.at(-1)! <= 0) open.pop();
  }
  return { rows: number(file.get(3)), groups: list(file.get(4)).length, createdBy: text(file.get(6)), columns };
}
