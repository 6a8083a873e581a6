// One object: what it is, a preview, its tags, its versions.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Tabs } from "radix-ui";
import { lazy, Suspense, useState, type ReactNode } from "react";
import { Failure } from "../api/client";
import { calls, deleteObjects, download, getTags, headObject, listVersions, putTags, type Head, type Version } from "../api/s3";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { Badge, Button, Confirm, Dialog, Loading, Problem, toast } from "../ui";
import { Menu } from "../ui/menu";
import { TagEditor } from "../ui/tags";

const Placement = lazy(() => import("./placement"));
const Preview = lazy(() => import("./preview"));
const Protection = lazy(() => import("./protection"));

const TAB = "-mb-px focus-visible:-outline-offset-2 border-b-2 border-transparent px-1 py-2 text-sm font-medium text-soft hover:text-text data-[state=active]:border-accent data-[state=active]:text-text";

export function ObjectDialog({ bucket, objectKey, onClose, onShare, onRemove }: { bucket: string; objectKey: string; onClose: () => void; onShare: (key: string) => void; onRemove: (key: string) => void }) {
  const t = useT();
  const name = objectKey.split("/").pop() || objectKey;
  const head = useQuery({ queryKey: ["object", bucket, objectKey], queryFn: () => headObject(bucket, objectKey), retry: false });
  const may = useMay(["s3:GetObject", `${bucket}/${objectKey}`], ["s3:DeleteObject", `${bucket}/${objectKey}`], ["s3:PutObjectTagging", `${bucket}/${objectKey}`], ["s3:DeleteObjectVersion", `${bucket}/${objectKey}`]);
  const because = (action: string) => (may(action) === false ? t.needs(action) : undefined);
  return (
    <Dialog open onClose={onClose} title={name} wide>
      <div className="mb-3 flex flex-wrap gap-2">
        <Button icon="download" tone="primary" because={because("s3:GetObject")} onClick={() => void download(bucket, objectKey).catch((e: Error) => toast(e.message, "bad"))}>{t.download}</Button>
        <Button icon="link" because={because("s3:GetObject")} onClick={() => onShare(objectKey)}>{t.share.action}</Button>
        <Button icon="trash" because={because("s3:DeleteObject")} onClick={() => onRemove(objectKey)}>{t.remove}</Button>
      </div>
      <Tabs.Root defaultValue="about">
        <Tabs.List aria-label={name} className="mb-4 flex gap-5 overflow-x-auto border-b">
          <Tabs.Trigger value="about" className={TAB}>{t.details}</Tabs.Trigger>
          <Tabs.Trigger value="preview" className={TAB}>{t.preview}</Tabs.Trigger>
          <Tabs.Trigger value="tags" className={TAB}>{t.tags.title}</Tabs.Trigger>
          <Tabs.Trigger value="versions" className={TAB}>{t.versions}</Tabs.Trigger>
          <Tabs.Trigger value="protection" className={TAB}>{t.objectLock.title}</Tabs.Trigger>
          <Tabs.Trigger value="placement" className={TAB}>{t.placement.title}</Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="about">{head.isPending ? <Loading /> : head.isError ? <Problem error={head.error} /> : <About bucket={bucket} name={objectKey} head={head.data} />}</Tabs.Content>
        <Tabs.Content value="preview">{head.isPending ? <Loading /> : head.isError ? <Problem error={head.error} /> : <Suspense fallback={<Loading />}><Preview bucket={bucket} name={objectKey} head={head.data} /></Suspense>}</Tabs.Content>
        <Tabs.Content value="tags"><Tags bucket={bucket} name={objectKey} because={because("s3:PutObjectTagging")} /></Tabs.Content>
        <Tabs.Content value="versions"><Versions bucket={bucket} name={objectKey} because={because("s3:DeleteObjectVersion")} /></Tabs.Content>
        <Tabs.Content value="protection">{head.isPending ? <Loading /> : head.isError ? <Problem error={head.error} /> : <Suspense fallback={<Loading />}><Protection bucket={bucket} name={objectKey} versionId={head.data.versionId} /></Suspense>}</Tabs.Content>
        <Tabs.Content value="placement"><Suspense fallback={<Loading />}><Placement bucket={bucket} name={objectKey} /></Suspense></Tabs.Content>
      </Tabs.Root>
    </Dialog>
  );
}

export function Facts({ rows }: { rows: [label: string, value: ReactNode][] }) {
  return (
    <dl className="grid grid-cols-1 text-sm sm:grid-cols-[minmax(8rem,max-content)_minmax(0,1fr)]">
      {rows.map(([label, value]) => (
        <div key={label} className="contents">
          <dt className="pt-2 pr-6 text-soft sm:border-b sm:py-2">{label}</dt>
          <dd className="num border-b pb-2 break-words sm:py-2">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function About({ bucket, name, head }: { bucket: string; name: string; head: Head }) {
  const t = useT();
  const f = useFormat();
  const rows: [string, ReactNode][] = [
    [t.key, <code key="k" className="break-all">{`s3://${bucket}/${name}`}</code>],
    [t.size, `${f.bytes(head.size)} (${f.count(head.size)} B)`],
    [t.type, head.type],
    [t.modified, f.full(head.modified)],
    ["ETag", <code key="e" className="break-all">{head.etag}</code>],
    ...(head.versionId ? [[t.versionId, <code key="v" className="break-all">{head.versionId}</code>] as [string, ReactNode]] : []),
    ...head.all.map(([label, value]): [string, ReactNode] => [label, <code key={label} className="break-all">{value}</code>]),
  ];
  return <Facts rows={rows} />;
}

function Tags({ bucket, name, because }: { bucket: string; name: string; because: string | undefined }) {
  const client = useQueryClient();
  const tags = useQuery({ queryKey: ["tags", bucket, name], queryFn: () => getTags(bucket, name), retry: false });
  if (tags.isPending) return <Loading />;
  if (tags.isError) return <Problem error={tags.error} />;
  return <TagEditor tags={tags.data} because={because} limit={10} callOf={(list) => calls.tags(bucket, name, list)} onSave={async (list) => { await putTags(bucket, name, list); await client.invalidateQueries({ queryKey: ["tags", bucket, name] }); }} />;
}

function Versions({ bucket, name, because }: { bucket: string; name: string; because: string | undefined }) {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const [removing, setRemoving] = useState<Version | null>(null);
  const list = useQuery({ queryKey: ["versions", bucket, name], queryFn: () => listVersions(bucket, name), retry: false });
  const change = useMutation({
    mutationFn: async (v: Version) => {
      const [failed] = await deleteObjects(bucket, [{ key: name, versionId: v.versionId }]);
      if (failed) throw new Failure(403, "NotDeleted", failed.why);
    },
    onSuccess: () => {
      setRemoving(null);
      toast(t.versionRemoved);
      for (const key of ["versions", "object", "objects"]) void client.invalidateQueries({ queryKey: [key, bucket] });
    },
  });
  if (list.isPending) return <Loading />;
  if (list.isError) return <Problem error={list.error} />;
  return (
    <>
      <ul className="divide-y rounded-lg border">
        {list.data.map((v) => (
          <li key={v.versionId} className="flex items-center gap-3 px-3 py-2 text-sm">
            <div className="min-w-0 flex-1">
              <p className="num flex flex-wrap items-center gap-2">
                {f.when(v.modified)} {v.latest && <Badge tone="accent">{t.current}</Badge>} {v.marker && <Badge tone="warn">{t.deleteMarker}</Badge>}
              </p>
              <code className="block truncate text-xs text-soft">{v.versionId}</code>
            </div>
            <span className="num text-soft">{v.marker ? "" : f.bytes(v.size)}</span>
            <Menu label={t.actionsFor(v.versionId)} items={[
              ...(v.marker ? [] : [{ label: t.download, icon: "download" as const, onSelect: () => void download(bucket, name, v.versionId).catch((e: Error) => toast(e.message, "bad")) }]),
              { label: v.marker ? t.undelete : t.removeVersion, icon: v.marker ? "restore" as const : "trash" as const, danger: !v.marker, because, onSelect: () => setRemoving(v) },
            ]} />
          </li>
        ))}
      </ul>
      {removing && (
        <Confirm title={removing.marker ? t.undelete : t.removeVersion} action={removing.marker ? t.undelete : t.remove} busy={change.isPending} error={change.error} calls={[calls.deleteObjects(bucket, [{ key: name, versionId: removing.versionId }])]}
          text={removing.marker ? t.undeleteText : t.removeVersionText(f.when(removing.modified))} onConfirm={() => change.mutate(removing)} onClose={() => { setRemoving(null); change.reset(); }} />
      )}
    </>
  );
}
