// The checksum against known values.
import { expect, test } from "vitest";
import { base64, crc32, crc32base64 } from "./crc32";

const bytes = (text: string) => new TextEncoder().encode(text);

test("checksum of known texts", () => {
  expect(crc32(bytes(""))).toBe(0);
  expect(crc32(bytes("123456789"))).toBe(0xcbf43926);
  expect(crc32(bytes("The quick brown fox jumps over the lazy dog"))).toBe(0x414fa339);
  expect(crc32base64(bytes("123456789"))).toBe("y/Q5Jg==");
  expect(base64(1)).toBe("AAAAAQ==");
});

test("every length and alignment agrees with one byte at a time", () => {
  const data = Uint8Array.from({ length: 100 }, (_, i) => (i * 37 + 11) & 255);
  for (let start = 0; start < 9; start++) {
    for (let end = start; end <= data.length; end++) {
      const part = data.subarray(start, end);
      let slow = 0;
      for (const byte of part) slow = crc32(Uint8Array.of(byte), slow);
      expect(crc32(part)).toBe(slow);
    }
  }
});
