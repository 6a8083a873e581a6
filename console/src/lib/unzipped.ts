// Unpacked pages for a decoder that does not wait: browsers unpack gzip only in streams. A page is found again by its bytes.

export class Unzipped {
  #pages: { packed: Uint8Array; data: Uint8Array }[] = [];

  /** Unpacks a page, whose data have `size` bytes. Fails if they have not. */
  async add(packed: Uint8Array<ArrayBuffer>, size: number): Promise<void> {
    const out = new Uint8Array(size);
    let at = 0;
    const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (at + part.value.length > size) {
        void reader.cancel();
        throw new Error("a page is longer than its head says");
      }
      out.set(part.value, at);
      at += part.value.length;
    }
    if (at !== size) throw new Error("a page is shorter than its head says");
    this.#pages.push({ packed, data: out });
  }

  find(packed: Uint8Array): Uint8Array {
    const found = this.#pages.find((p) => p.packed.length === packed.length && p.packed.every((byte, i) => byte === packed[i]));
    if (!found) throw new Error("the page was not unpacked");
    return found.data;
  }
}
