// Who can reach a bucket: the server's simulation of requests, for everybody without an account and for each user.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { pooled } from "../lib/pool";
import { Button, Card, Field, Input, Loading, Problem } from "../ui";
import { Icon } from "../ui/icons";

/** Users of a page: each is some calls. */
const PAGE = 25;
const AT_ONCE = 6;
const QUESTIONS = [
  ["list", "s3:ListBucket", false], ["read", "s3:GetObject", true], ["write", "s3:PutObject", true], ["remove", "s3:DeleteObject", true], ["rule", "s3:PutBucketPolicy", false],
] as const;

type Row = { user: string; may: boolean[] };

async function ask(user: string, bucket: string, key: string): Promise<Row> {
  const may = [];
  for (const [, action, ofObject] of QUESTIONS) may.push((await api("/simulate", "post", { body: { user, action, resource: ofObject ? `${bucket}/${key}` : bucket } })).allowed);
  return { user, may };
}

export default function Reach({ bucket, because }: { bucket: string; because: string | undefined }) {
  const t = useT();
  const [key, setKey] = useState("object");
  const [asked, setAsked] = useState<string | null>(null);
  return (
    <Card title={t.reach.title}>
      <div className="flex flex-col gap-3 p-4 sm:px-5">
        <p className="max-w-3xl text-sm leading-relaxed text-soft">{t.reach.about}</p>
        <form className="flex flex-wrap items-end gap-2" onSubmit={(e) => { e.preventDefault(); if (!because && key !== "") setAsked(key); }}>
          <div className="w-72 max-w-full"><Field label={t.reach.key} hint={t.reach.keyHint}>{(p) => <Input {...p} spellCheck={false} autoCapitalize="none" value={key} onChange={(e) => setKey(e.target.value)} />}</Field></div>
          <Button type="submit" className="sm:mb-5.5" because={because ?? (key === "" ? t.reach.keyFirst : undefined)}>{t.reach.ask}</Button>
        </form>
        {asked !== null && <Answers bucket={bucket} objectKey={asked} />}
      </div>
    </Card>
  );
}

function Answers({ bucket, objectKey }: { bucket: string; objectKey: string }) {
  const t = useT();
  const f = useFormat();
  const users = useQuery({ queryKey: ["users"], queryFn: () => api("/users", "get"), retry: false });
  // The simulation knows enabled users only; the others reach nothing.
  const names = (users.data?.users ?? []).filter((u) => u.enabled).map((u) => u.name).sort();
  const disabled = (users.data?.users.length ?? 0) - names.length;
  const all = ["", ...names];
  const found = useInfiniteQuery({
    queryKey: ["bucket", bucket, "reach", objectKey, names], enabled: users.isSuccess, retry: false, initialPageParam: 0,
    queryFn: ({ pageParam }) => pooled(all.slice(pageParam, pageParam + PAGE), AT_ONCE, (user) => ask(user, bucket, objectKey)),
    getNextPageParam: (_, pages) => (pages.length * PAGE < all.length ? pages.length * PAGE : undefined),
  });
  if (users.isError) return <Problem error={users.error} />;
  if (found.isError) return <Problem error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Loading />;
  const rows = found.data.pages.flat();
  return (
    <div className="flex flex-col gap-3" aria-live="polite">
      <div tabIndex={0} role="region" aria-label={t.reach.title} className="overflow-x-auto rounded-lg border">
        <table className="w-full text-left text-sm">
          <thead className="bg-sunken text-xs text-soft"><tr><th scope="col" className="sticky left-0 bg-sunken px-3 py-2 font-medium">{t.reach.who}</th>{QUESTIONS.map(([name]) => <th key={name} scope="col" className="px-3 py-2 font-medium whitespace-nowrap">{t.reach.may[name]}</th>)}</tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.user} className="border-t">
                <th scope="row" className="sticky left-0 min-w-36 bg-surface px-3 py-1.5 text-left font-medium wrap-anywhere">{row.user || t.reach.everybody}</th>
                {QUESTIONS.map(([name, action, ofObject], i) => (
                  <td key={name} className="px-3 py-1.5">
                    <Link to="/why" search={{ user: row.user, action, resource: ofObject ? `${bucket}/${objectKey}` : bucket }} className={`inline-flex items-center gap-1 whitespace-nowrap underline-offset-2 hover:underline ${row.may[i] ? "font-medium text-accent-text" : "text-soft"}`}>
                      <Icon name={row.may[i] ? "check" : "close"} className="size-3.5" /> {row.may[i] ? t.reach.yes : t.reach.no}
                    </Link>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className="flex flex-wrap items-center gap-3 text-xs text-soft">
        <span className="num">{t.countOf(f.count(rows.length), f.count(all.length))}{disabled > 0 && ` · ${t.reach.disabled(f.count(disabled))}`}</span>
        {found.hasNextPage && <Button busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>{t.reach.more}</Button>}
      </div>
      <p className="text-xs text-soft">{t.reach.limits}</p>
    </div>
  );
}
