// A scanner of XML for long lists. A tree of elements for a page of a thousand keys has seven thousand of them: to read it
// and to free it takes longer than a frame. It reads what this server writes: elements with texts, without comments,
// sections of characters and declarations of entities.

const TAG = /<(\/?)([A-Za-z][\w.-]*)[^>]*?(\/?)>([^<]*)/g;
const ENTITIES: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

function unescape(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d+)|#x([0-9A-Fa-f]+)|(\w+));/g, (all, decimal: string | undefined, hex: string | undefined, name: string | undefined) =>
    name !== undefined ? (ENTITIES[name] ?? all) : String.fromCodePoint(decimal !== undefined ? Number(decimal) : parseInt(hex!, 16)));
}

/**
 * Calls `begin` for each element with its text up to its first child, and `end` at the end of each. False: the document
 * does not end.
 */
export function scanXml(xml: string, begin: (name: string, text: string) => void, end: (name: string) => void): boolean {
  let depth = 0;
  let any = false;
  for (const [, closing, name, empty, text] of xml.matchAll(TAG)) {
    if (closing) {
      depth -= 1;
      end(name!);
    } else {
      any = true;
      begin(name!, empty ? "" : unescape(text!));
      if (empty) end(name!);
      else depth += 1;
    }
  }
  return any && depth === 0;
}
