// Parts of an object, for previews that need little of a long one. All parts are of one version: the server compares the ETag, and
// refuses with 412 when the object has been replaced meanwhile.
import { Failure } from "../api/client";
import { path, s3 } from "../api/s3";

/** Reads bytes `from` to `to`, without `to`. */
export type ReadPart = (from: number, to: number) => Promise<ArrayBuffer>;

/** A reader of the object's parts. A proxy that removes the header `Range` would send all of it: that is not read, but an error. */
export function partsOf(bucket: string, name: string, etag: string, signal?: AbortSignal): ReadPart {
  return async (from, to) => {
    const response = await s3(path(bucket, name), { headers: { range: `bytes=${from}-${to - 1}`, "if-match": `"${etag}"` }, ...(signal ? { signal } : {}) });
    if (response.status !== 206) {
      await response.body?.cancel();
      throw new Failure(response.status, "NoParts", "");
    }
    return response.arrayBuffer();
  };
}
