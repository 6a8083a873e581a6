// CRC-32 (IEEE 802.3), eight bytes at a time: the checksum that the server verifies of every part of an upload.
const TABLES: Uint32Array[] = (() => {
  const first = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    let c = i;
    for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
    first[i] = c >>> 0;
  }
  const tables = [first];
  for (let t = 1; t < 8; t++) {
    const before = tables[t - 1]!;
    tables.push(before.map((c) => (first[c & 255]! ^ (c >>> 8)) >>> 0));
  }
  return tables;
})();

export function crc32(bytes: Uint8Array, seed = 0): number {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = TABLES as [Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array];
  let crc = ~seed;
  let i = 0;
  const whole = bytes.length - (bytes.length % 8);
  for (; i < whole; i += 8) {
    const low = crc ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24));
    crc = t7[low & 255]! ^ t6[(low >>> 8) & 255]! ^ t5[(low >>> 16) & 255]! ^ t4[low >>> 24]!
      ^ t3[bytes[i + 4]!]! ^ t2[bytes[i + 5]!]! ^ t1[bytes[i + 6]!]! ^ t0[bytes[i + 7]!]!;
  }
  for (; i < bytes.length; i++) crc = t0[(crc ^ bytes[i]!) & 255]! ^ (crc >>> 8);
  return ~crc >>> 0;
}

/** As S3 writes it: four bytes, the most significant first, in base64. */
export function crc32base64(bytes: Uint8Array): string {
  return base64(crc32(bytes));
}

export function base64(crc: number): string {
  return btoa(String.fromCharCode(crc >>> 24, (crc >>> 16) & 255, (crc >>> 8) & 255, crc & 255));
}
