// Comma-separated values (RFC 4180), for a preview: the first rows of a text that may be cut anywhere.

/** What separates the values: what the first line has most of. */
export function separatorOf(text: string): string {
  const line = text.slice(0, text.search(/\r?\n|$/));
  const count = (c: string) => line.split(c).length;
  return [",", ";", "\t", "|"].reduce((best, c) => (count(c) > count(best) ? c : best));
}

/** At most `limit` rows. `cut`: the text is the beginning of a longer one, so that its last row may be incomplete and is left out. */
export function parseCsv(text: string, limit: number, cut: boolean): string[][] {
  const separator = separatorOf(text);
  const rows: string[][] = [];
  let [row, value, quoted] = [[] as string[], "", false];
  const endOfRow = () => {
    row.push(value);
    if (row.length > 1 || value !== "") rows.push(row);
    [row, value] = [[], ""];
  };
  for (let i = 0; i < text.length && rows.length < limit; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c !== '"') value += c;
      else if (text[i + 1] === '"') value += text[++i];
      else quoted = false;
    } else if (c === '"' && value === "") quoted = true;
    else if (c === separator) {
      row.push(value);
      value = "";
    } else if (c === "\n") endOfRow();
    else if (c !== "\r" || text[i + 1] !== "\n") value += c;
  }
  if (!cut && rows.length < limit) endOfRow();
  return rows;
}
