// What is in an object, as far as a browser can show it: pictures, sound, films, texts, tables; PDF documents and Parquet files with
// decoders that are loaded for them. Of what is long only a part is read.
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { address, path, s3, type Head } from "../api/s3";
import { useT } from "../i18n";
import { parseCsv } from "../lib/csv";
import { useFormat } from "../lib/format";
import { Empty, Loading, Problem } from "../ui";
import { Rows } from "../ui/rows";

const Parquet = lazy(() => import("./parquet"));
const Pdf = lazy(() => import("./pdf"));

const TEXT_LIMIT = 256 * 1024;
/** Rows of a table that are shown. */
const ROWS = 200;

type Kind = "image" | "video" | "audio" | "text" | "csv" | "json" | "parquet" | "pdf";

function kindOf(type: string, name: string): Kind | null {
  const end = name.toLowerCase().split(".").pop() ?? "";
  // Pictures in SVG can hold scripts; in an image they do not run.
  if (type.startsWith("image/") || ["png", "jpg", "jpeg", "gif", "webp", "avif", "svg"].includes(end)) return "image";
  if (type.startsWith("video/")) return "video";
  if (type.startsWith("audio/")) return "audio";
  if (end === "pdf" || /\bpdf$/.test(type)) return "pdf";
  if (end === "parquet" || /parquet/.test(type)) return "parquet";
  if (["csv", "tsv"].includes(end) || /csv|tab-separated/.test(type)) return "csv";
  if (end === "json" || /\bjson\b/.test(type)) return "json";
  if (type.startsWith("text/") || /xml|yaml|javascript|ndjson/.test(type) || ["txt", "md", "jsonl", "log", "yml", "yaml", "toml", "xml", "rs", "py", "go", "js", "ts", "sh", "sql"].includes(end)) return "text";
  return null;
}

export default function Preview({ bucket, name, head }: { bucket: string; name: string; head: Head }) {
  const t = useT();
  const f = useFormat();
  const kind = kindOf(head.type, name);
  const isMedium = kind === "image" || kind === "video" || kind === "audio";
  const isDecoded = kind === "pdf" || kind === "parquet";
  const shown = useQuery({
    queryKey: ["preview", bucket, name, head.etag],
    queryFn: async (): Promise<string> => {
      if (isMedium) return address(bucket, name);
      return (await s3(path(bucket, name), head.size > TEXT_LIMIT ? { headers: { range: `bytes=0-${TEXT_LIMIT - 1}` } } : {})).text();
    },
    enabled: kind !== null && !isDecoded && head.size > 0,
    retry: false,
    staleTime: Infinity,
  });
  if (kind === null || head.size === 0) return <Empty icon="file" title={t.noPreview} text={t.noPreviewText(head.type)} />;
  if (isDecoded) {
    const Decoded = kind === "pdf" ? Pdf : Parquet;
    return <Suspense fallback={<Loading />}><Decoded bucket={bucket} name={name} head={head} /></Suspense>;
  }
  if (shown.isPending) return <Loading />;
  if (shown.isError) return <Problem error={shown.error} />;
  if (kind === "image") return <img src={shown.data} alt={name} className="mx-auto max-h-[60dvh] max-w-full rounded-md bg-sunken object-contain" />;
  if (kind === "video") return <video src={shown.data} controls className="max-h-[60dvh] w-full rounded-md" />;
  if (kind === "audio") return <audio src={shown.data} controls className="w-full" />;
  const cut = head.size > TEXT_LIMIT;
  return (
    <>
      {kind === "csv" ? <Rows label={name} rows={parseCsv(shown.data, ROWS + 1, cut)} limit={ROWS} /> : (
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
