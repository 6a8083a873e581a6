// A folder as it was at an instant: of each key the newest version that is not younger, unless it marks a deletion. S3 lists all
// versions, the newest of each key first; those that were deleted for good are gone.
import { Failure } from "./client";
import { bucketPath, path, query, s3, type Item, type Page } from "./s3";
import { scanXml } from "../lib/xml";

/** Where a list goes on. `decided`: the key whose version of that instant was found on an earlier page. */
type Place = { key: string; version: string; decided: string | null };

type Read = { folders: string[]; items: Item[]; next: Place | null };

/** A page of versions, as S3 describes it with keys encoded, after a page that ended in the versions of `decided`. */
export function versionsAt(xml: string, at: number, decided: string | null): Read {
  const decoded = (value: string) => decodeURIComponent(value.replaceAll("+", " "));
  const out: Read = { folders: [], items: [], next: null };
  let [truncated, inFolder, marker] = [false, false, false];
  let [nextKey, nextVersion] = ["", ""];
  let item: Item & { versionId: string } = { key: "", size: 0, modified: "", etag: "", versionId: "" };
  const whole = scanXml(xml, (name, text) => {
    switch (name) {
      case "Version": case "DeleteMarker":
        item = { key: "", size: 0, modified: "", etag: "", versionId: "" };
        marker = name === "DeleteMarker";
        break;
      case "Key": item.key = decoded(text); break;
      case "VersionId": item.versionId = text; break;
      case "Size": item.size = Number(text); break;
      case "LastModified": item.modified = text; break;
      case "ETag": item.etag = text.replaceAll('"', ""); break;
      case "CommonPrefixes": inFolder = true; break;
      case "Prefix": if (inFolder) out.folders.push(decoded(text)); break;
      case "IsTruncated": truncated = text === "true"; break;
      case "NextKeyMarker": nextKey = decoded(text); break;
      case "NextVersionIdMarker": nextVersion = text; break;
    }
  }, (name) => {
    if (name === "CommonPrefixes") inFolder = false;
    if ((name !== "Version" && name !== "DeleteMarker") || item.key === decided || Date.parse(item.modified) > at) return;
    decided = item.key;
    if (!marker) out.items.push(item);
  });
  if (!whole) throw new Failure(0, "Unreachable", "");
  if (truncated) out.next = { key: nextKey, version: nextVersion, decided };
  return out;
}

/** A page of a folder as it was. `token`: what the page before named as the next. */
export async function listObjectsAt(bucket: string, prefix: string, at: number, token: string | null, signal?: AbortSignal): Promise<Page> {
  let place: Place | null = token === null ? null : (JSON.parse(token) as Place);
  // Much that was deleted or made later may lie between two keys of that instant.
  for (;;) {
    const target = bucketPath(bucket) + query({
      versions: "", prefix, delimiter: "/", "max-keys": "1000", "encoding-type": "url",
      "key-marker": place?.key, "version-id-marker": place?.version || undefined,
    });
    const page = versionsAt(await (await s3(target, signal ? { signal } : {})).text(), at, place?.decided ?? null);
    place = page.next;
    if (place === null || page.items.length + page.folders.length > 0) return { folders: page.folders, items: page.items, next: place && JSON.stringify(place) };
  }
}

/** Makes an older version the current one again, by a copy; the versions between them stay. */
export async function restoreVersion(bucket: string, key: string, versionId: string): Promise<void> {
  await s3(path(bucket, key), { method: "PUT", headers: { "x-amz-copy-source": `${path(bucket, key)}?versionId=${encodeURIComponent(versionId)}` } });
}
