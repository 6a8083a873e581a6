// What is in an object, as far as a browser can show it: pictures, sound, films, texts, tables, the columns of Parquet files. Of what
// is long only the beginning is read, of Parquet files only the end.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { address, path, s3, type Head } from "../api/s3";
import { useT } from "../i18n";
import { parseCsv } from "../lib/csv";
import { useFormat } from "../lib/format";
import { metadataLength, readMetadata, TAIL, type Metadata } from "../lib/parquet";
import { Badge, Empty, Loading, Problem } from "../ui";

const TEXT_LIMIT = 256 * 1024;
/** Rows of a table that are shown. */
const ROWS = 200;
/** Longest metadata of a Parquet file that are read, in bytes. */
const METADATA_LIMIT = 4 * 1024 * 1024;

type Kind = "image" | "video" | "audio" | "text" | "csv" | "json" | "parquet";

function kindOf(type: string, name: string): Kind | null {
  const end = name.toLowerCase().split(".").pop() ?? "";
  // Pictures in SVG can hold scripts; in an image they do not run.
  if (type.startsWith("image/") || ["png", "jpg", "jpeg", "gif", "webp", "avif", "svg"].includes(end)) return "image";
  if (type.startsWith("video/")) return "video";
  if (type.startsWith("audio/")) return "audio";
  if (end === "parquet" || /parquet/.test(type)) return "parquet";
  if (["csv", "tsv"].includes(end) || /csv|tab-separated/.test(type)) return "csv";
  if (end === "json" || /\bjson\b/.test(type)) return "json";
  if (type.startsWith("text/") || /xml|yaml|javascript|ndjson/.test(type) || ["txt", "md", "jsonl", "log", "yml", "yaml", "toml", "xml", "rs", "py", "go", "js", "ts", "sh", "sql"].includes(end)) return "text";
  return null;
}

/** Bytes `from` to `to`, without `to`. */
const part = async (bucket: string, name: string, from: number, to: number) => s3(path(bucket, name), { headers: { range: `bytes=${from}-${to - 1}` } });

/** Null: it is not a Parquet file, or one that is encrypted, or its metadata are too long. */
async function parquet(bucket: string, name: string, size: number): Promise<Metadata | null> {
  const bytes = async (from: number, to: number) => new Uint8Array(await (await part(bucket, name, from, to)).arrayBuffer());
  if (size < 2 * TAIL) return null;
  const length = metadataLength(await bytes(size - TAIL, size));
  if (length === null || length > METADATA_LIMIT || length + TAIL > size) return null;
  try {
    return readMetadata(await bytes(size - TAIL - length, size - TAIL));
  } catch (error) {
    if (error instanceof RangeError || (error instanceof Error && error.constructor === Error)) return null;
    throw error;
  }
}

export default function Preview({ bucket, name, head }: { bucket: string; name: string; head: Head }) {
  const t = useT();
  const f = useFormat();
  const kind = kindOf(head.type, name);
  const isMedium = kind === "image" || kind === "video" || kind === "audio";
  const shown = useQuery({
    queryKey: ["preview", bucket, name, head.etag],
    queryFn: async (): Promise<string | Metadata | null> => {
      if (isMedium) return address(bucket, name);
      if (kind === "parquet") return parquet(bucket, name, head.size);
      return (await (head.size > TEXT_LIMIT ? part(bucket, name, 0, TEXT_LIMIT) : s3(path(bucket, name)))).text();
    },
    enabled: kind !== null && head.size > 0,
    retry: false,
    staleTime: Infinity,
  });
  const none = <Empty icon="file" title={t.noPreview} text={t.noPreviewText(head.type)} />;
  if (kind === null || head.size === 0) return none;
  if (shown.isPending) return <Loading />;
  if (shown.isError) return <Problem error={shown.error} />;
  if (shown.data === null) return none;
  if (typeof shown.data !== "string") return <Columns file={shown.data} />;
  if (kind === "image") return <img src={shown.data} alt={name} className="mx-auto max-h-[60dvh] max-w-full rounded-md bg-sunken object-contain" />;
  if (kind === "video") return <video src={shown.data} controls className="max-h-[60dvh] w-full rounded-md" />;
  if (kind === "audio") return <audio src={shown.data} controls className="w-full" />;
  const cut = head.size > TEXT_LIMIT;
  return (
    <>
      {kind === "csv" ? <Table label={name} rows={parseCsv(shown.data, ROWS + 1, cut)} /> : (
        <pre tabIndex={0} className="max-h-[60dvh] overflow-auto rounded-md bg-sunken p-3 text-[13px] leading-relaxed">{kind === "json" && !cut ? pretty(shown.data) : shown.data}</pre>
      )}
      {cut && <p className="mt-2 text-xs text-soft">{t.previewCut(f.bytes(TEXT_LIMIT), f.bytes(head.size))}</p>}
    </>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A table whose first row has the names of the columns. */
function Table({ label, rows }: { label: string; rows: ReactNode[][] }) {
  const t = useT();
  const [names, ...rest] = rows;
  if (!names) return <p className="text-sm text-soft">{t.nothingMatches}</p>;
  return (
    <div tabIndex={0} role="region" aria-label={label} className="max-h-[60dvh] overflow-auto rounded-lg border">
      <table className="num w-full text-left text-[13px]">
        <thead className="sticky top-0 bg-sunken text-xs text-soft"><tr>{names.map((n, i) => <th key={i} scope="col" className="px-3 py-2 font-medium whitespace-nowrap">{n}</th>)}</tr></thead>
        <tbody>{rest.map((row, i) => <tr key={i} className="border-t">{row.map((v, n) => <td key={n} className="max-w-80 truncate px-3 py-1.5">{v}</td>)}</tr>)}</tbody>
      </table>
      {rest.length >= ROWS && <p className="border-t px-3 py-2 text-xs text-soft">{t.shown.first(ROWS)}</p>}
    </div>
  );
}

function Columns({ file }: { file: Metadata }) {
  const t = useT();
  const f = useFormat();
  return (
    <>
      <p className="mb-3 text-sm text-soft">{t.shown.parquet(file.rows, f.count(file.rows), f.count(file.groups), file.createdBy)}</p>
      <Table label={t.shown.columns} rows={[[t.name, t.shown.type, ""], ...file.columns.map((c) => [
        <span key="n" style={{ paddingLeft: c.depth * 16 }}>{c.name}</span>, <code key="t">{c.type}</code>, c.repeated ? <Badge key="r">{t.shown.repeated}</Badge> : c.optional ? <Badge key="o">{t.shown.optional}</Badge> : "",
      ])]} />
    </>
  );
}
