import { expect, test } from "vitest";
import { versionsAt } from "./rewind";

const entry = (key: string, version: string, minute: number, marker = false) =>
  `<${marker ? "DeleteMarker" : "Version"}><Key>${key}</Key><VersionId>${version}</VersionId><LastModified>2026-01-01T00:${String(minute).padStart(2, "0")}:00.000Z</LastModified>${marker ? "" : "<Size>1</Size>"}</${marker ? "DeleteMarker" : "Version"}>`;
const page = (entries: string[], next = "") => `<ListVersionsResult><Prefix>p/</Prefix><IsTruncated>${next !== ""}</IsTruncated>${next}${entries.join("")}</ListVersionsResult>`;
const at = (minute: number) => Date.parse(`2026-01-01T00:${String(minute).padStart(2, "0")}:00Z`);
const shown = (xml: string, minute: number, decided: string | null = null) => versionsAt(xml, at(minute), decided).items.map((i) => `${i.key} ${i.versionId}`);

test("of each key the newest version of that instant is shown, unless the key was deleted then", () => {
  const all = page([
    entry("p/kept", "k2", 30), entry("p/kept", "k1", 10),
    entry("p/gone", "g3", 40, true), entry("p/gone", "g2", 20), entry("p/gone", "g1", 10),
    entry("p/back", "b3", 50), entry("p/back", "b2", 20, true), entry("p/back", "b1", 5),
    entry("p/new", "n1", 45),
  ]);
  expect(shown(all, 4)).toEqual([]);
  expect(shown(all, 15)).toEqual(["p/kept k1", "p/gone g1", "p/back b1"]);
  expect(shown(all, 20)).toEqual(["p/kept k1", "p/gone g2"]);
  expect(shown(all, 59)).toEqual(["p/kept k2", "p/back b3", "p/new n1"]);
});

test("a key whose versions are on two pages is shown once, with the right version", () => {
  const next = "<NextKeyMarker>p/a%26b</NextKeyMarker><NextVersionIdMarker>v2</NextVersionIdMarker>";
  const first = versionsAt(page([entry("p/a%26b", "v3", 30), entry("p/a%26b", "v2", 20)], next), at(25), null);
  expect(first.items.map((i) => i.versionId)).toEqual(["v2"]);
  expect(first.next).toEqual({ key: "p/a&b", version: "v2", decided: "p/a&b" });
  const rest = page([entry("p/a%26b", "v1", 10), entry("p/c", "c1", 10)]);
  expect(shown(rest, 25, "p/a&b")).toEqual(["p/c c1"]);
  expect(shown(rest, 15, null)).toEqual(["p/a&b v1", "p/c c1"]);
  // A deletion on the first page decides too.
  expect(versionsAt(page([entry("p/d", "d2", 20, true)], next), at(25), null).next!.decided).toBe("p/d");
});
