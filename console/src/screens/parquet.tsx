// A Parquet file: rows, a page at a time, and the columns.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { download, type Head } from "../api/s3";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { COLUMN_LIMIT, COLUMNS_SHOWN, openParquet, readRows, type Left, type Parquet } from "../lib/parquet";
import { partsOf } from "../lib/ranges";
import { Badge, Button, Empty, Loading, Problem } from "../ui";
import { Rows } from "../ui/rows";

/** Rows on a page. */
const ROWS = 100;

export default function ParquetPreview({ bucket, name, head }: { bucket: string; name: string; head: Head }) {
  const t = useT();
  const file = useQuery({ queryKey: ["parquet", bucket, name, head.etag], queryFn: ({ signal }) => openParquet(head.size, partsOf(bucket, name, head.etag, signal)), retry: false, staleTime: Infinity });
  if (file.isPending) return <Loading />;
  if (file.isError) return <Problem error={file.error} />;
  if (file.data === null) {
    return <Empty icon="file" title={t.noPreview} text={t.shown.noParquet}><Button icon="download" onClick={() => void download(bucket, name)}>{t.download}</Button></Empty>;
  }
  return <File bucket={bucket} name={name} head={head} file={file.data} />;
}

function File({ bucket, name, head, file }: { bucket: string; name: string; head: Head; file: Parquet }) {
  const t = useT();
  const f = useFormat();
  const [from, setFrom] = useState(0);
  const to = Math.min(from + ROWS, file.rows);
  const found = useQuery({
    queryKey: ["parquet", bucket, name, head.etag, from], queryFn: async ({ signal }) => ({ from, to, ...(await readRows(file, partsOf(bucket, name, head.etag, signal), from, to)) }),
    enabled: file.rows > 0, retry: false, staleTime: 60_000, placeholderData: keepPreviousData,
  });
  return (
    <>
      <p className="mb-3 text-sm text-soft">{t.shown.parquet(file.rows, f.count(file.rows), f.count(file.groups), file.createdBy)}</p>
      {file.rows > 0 && (found.isPending ? <Loading /> : found.isError ? <Problem error={found.error} /> : (
        <>
          {found.data.names.length > 0 && (
            <>
              <Rows label={t.shown.values} rows={[found.data.names, ...found.data.rows.map((row) => row.map((v, i) => (v === null ? <span key={i} className="text-soft italic">null</span> : <span key={i} title={v.length > 40 ? v : undefined}>{v}</span>)))]} />
              <nav aria-label={t.shown.values} className="mt-2 flex flex-wrap items-center gap-2">
                <Button disabled={from === 0} onClick={() => setFrom(Math.max(0, from - ROWS))}>{t.previous}</Button>
                <Button disabled={to >= file.rows} busy={found.isPlaceholderData} onClick={() => setFrom(from + ROWS)}>{t.next}</Button>
                <p aria-live="polite" className="num text-xs text-soft">{t.shown.rows(f.count(found.data.from + 1), f.count(found.data.to), f.count(file.rows))}</p>
              </nav>
            </>
          )}
          {file.schema.children.length > COLUMNS_SHOWN && <p className="mt-2 text-xs text-soft">{t.shown.firstColumns(f.count(COLUMNS_SHOWN), f.count(file.schema.children.length))}</p>}
          <Hidden left={found.data.left} />
        </>
      ))}
      <h3 className="mt-5 mb-2 text-sm font-semibold">{t.shown.columns}</h3>
      <Rows label={t.shown.columns} rows={[[t.name, t.shown.type, ""], ...file.columns.map((c) => [
        <span key="n" style={{ paddingLeft: c.depth * 16 }}>{c.name}</span>, <code key="t">{c.type}</code>, c.repeated ? <Badge key="r">{t.shown.repeated}</Badge> : c.optional ? <Badge key="o">{t.shown.optional}</Badge> : "",
      ])]} />
    </>
  );
}

/** Which columns are not shown, by the reason. */
function Hidden({ left }: { left: Left[] }) {
  const t = useT();
  const f = useFormat();
  const reasons = new Map<string, string[]>();
  for (const { column, why, what } of left) {
    const reason = why === "compression" ? t.shown.compression(what) : why === "large" ? t.shown.large(f.bytes(COLUMN_LIMIT)) : t.shown.broken;
    reasons.set(reason, [...(reasons.get(reason) ?? []), column]);
  }
  return [...reasons].map(([reason, columns]) => <p key={reason} className="mt-2 text-sm break-words">{t.shown.left(columns.slice(0, 20).join(", ") + (columns.length > 20 ? ", …" : ""), reason)}</p>);
}
