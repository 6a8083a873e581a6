// Rows of a file as a table, for previews.
import type { ReactNode } from "react";
import { useT } from "../i18n";

/** A table whose first row has the names of the columns. `limit`: how many rows are shown, where there may be more. */
export function Rows({ label, rows, limit }: { label: string; rows: ReactNode[][]; limit?: number }) {
  const t = useT();
  const [names, ...rest] = rows;
  if (!names) return <p className="text-sm text-soft">{t.nothingMatches}</p>;
  return (
    <div tabIndex={0} role="region" aria-label={label} className="max-h-[60dvh] overflow-auto rounded-lg border">
      <table className="num w-full text-left text-[13px]">
        <thead className="sticky top-0 bg-sunken text-xs text-soft"><tr>{names.map((n, i) => <th key={i} scope="col" className="px-3 py-2 font-medium whitespace-nowrap">{n}</th>)}</tr></thead>
        <tbody>{rest.map((row, i) => <tr key={i} className="border-t">{row.map((v, n) => <td key={n} className="max-w-80 truncate px-3 py-1.5">{v}</td>)}</tr>)}</tbody>
      </table>
      {limit !== undefined && rest.length >= limit && <p className="border-t px-3 py-2 text-xs text-soft">{t.shown.first(limit)}</p>}
    </div>
  );
}
