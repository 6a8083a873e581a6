// Where the shards of an object are: which drive has which, and whether it is good.
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import clsx from "clsx";
import { useState } from "react";
import { api, type Schemas } from "../api/client";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { useMay } from "../lib/session";
import { Badge, Button, CopyBox, Empty, Loading, Problem, toast } from "../ui";
import { Icon } from "../ui/icons";

type Part = Schemas["PartPlacement"];
type Shard = Schemas["ShardPlacement"];

export default function Placement({ bucket, name }: { bucket: string; name: string }) {
  const t = useT();
  const f = useFormat();
  const client = useQueryClient();
  const [verify, setVerify] = useState(false);
  const may = useMay("admin:Heal");
  const because = may("admin:Heal") === false ? t.needs("admin:Heal") : undefined;
  const object = `${bucket}/${name}`;
  const found = useInfiniteQuery({
    queryKey: ["placement", object, verify],
    queryFn: ({ pageParam, signal }) => api("/placement/{object}", "get", { path: { object }, query: { ...(verify ? { verify: true } : {}), ...(pageParam ? { part: pageParam } : {}) } as never, signal }),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_part,
    retry: false, staleTime: 0, gcTime: 0,
  });
  const heal = useMutation({
    mutationFn: () => api("/placement/{object}/heal", "post", { path: { object } }),
    onSuccess: (done) => toast(done.lost > 0 ? t.placement.lost(done.lost) : done.missing > 0 ? t.placement.stillMissing(done.missing) : t.placement.healed(done.shards + done.records), done.lost + done.missing > 0 ? "bad" : "good"),
    onSettled: () => client.invalidateQueries({ queryKey: ["placement", object] }),
  });
  if (found.isPending) return <><Loading />{verify && <p className="-mt-10 text-center text-xs text-soft">{t.placement.reading}</p>}</>;
  if (found.isError) return <Problem error={found.error} retry={() => void found.refetch()} />;
  const first = found.data.pages[0]!;
  const parts = found.data.pages.flatMap((p) => p.parts);
  if (parts.length === 0) return <Empty icon="drive" title={t.placement.noBytes} text={t.placement.noBytesText} />;
  const shards = parts.flatMap((p) => p.shards);
  const bad = shards.filter((s) => s.state !== "good").length;
  const spare = Math.min(...found.data.pages.map((p) => p.spare ?? 0));
  const tone = spare < 0 ? "bad" : bad > 0 ? "warn" : "good";
  const grounds = { good: "bg-good-soft", warn: "bg-warn-soft", bad: "bg-bad-soft" };
  const inks = { good: "text-good", warn: "text-warn", bad: "text-bad" };
  return (
    <div className="flex flex-col gap-4">
      <div role="status" className={clsx("flex gap-3 rounded-lg px-4 py-3", grounds[tone])}>
        <Icon name={tone} className={clsx("size-6", inks[tone])} />
        <div>
          <p className="font-semibold">{bad === 0 ? (first.verified ? t.placement.verified(shards.length, f.count(shards.length)) : t.placement.present(shards.length, f.count(shards.length))) : t.placement.bad(bad, f.count(bad), f.count(shards.length))}</p>
          <p className="text-sm">{spare < 0 ? t.placement.unreadable : t.placement.spare(spare)}</p>
        </div>
      </div>
      <div className="flex flex-wrap gap-2">
        <Button icon="refresh" busy={found.isFetching} onClick={() => (verify ? void found.refetch() : setVerify(true))}>{t.placement.verify}</Button>
        <Button icon="restore" because={because} busy={heal.isPending} onClick={() => heal.mutate()}>{t.placement.heal}</Button>
      </div>
      {heal.error && <Problem error={heal.error} />}
      {parts.map((p) => <PartCard key={p.number} part={p} alone={first.part_count === 1} />)}
      {found.hasNextPage && <div><Button busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>{t.placement.more(f.count(parts.length), f.count(first.part_count))}</Button></div>}
      <p className="num text-xs text-soft">{t.placement.facts(f.count(first.group), first.version_id === "null" ? "" : first.version_id)}{first.encrypted && ` · ${t.placement.encrypted}`}</p>
      <CopyBox label={t.targets.command} text={`ashlar admin placement 'it/${object}' --verify`} />
    </div>
  );
}

function PartCard({ part: p, alone }: { part: Part; alone: boolean }) {
  const t = useT();
  const f = useFormat();
  return (
    <section className="rounded-lg border">
      <header className="num flex flex-wrap justify-between gap-x-4 gap-y-1 border-b px-3 py-2 text-sm">
        <h3 className="font-medium">{alone ? t.placement.body : t.placement.part(f.count(p.number))} · {f.bytes(p.size)}</h3>
        <span className="text-soft">{t.placement.code(p.data_shards, p.parity_shards, f.bytes(p.shard_size))}{p.inline && ` · ${t.placement.inline}`}</span>
      </header>
      <ul className="grid grid-cols-1 gap-2 p-3 sm:grid-cols-2 md:grid-cols-3">
        {p.shards.map((s) => <Tile key={s.shard} shard={s} />)}
      </ul>
    </section>
  );
}

function Tile({ shard: s }: { shard: Shard }) {
  const t = useT();
  const f = useFormat();
  const tone = s.state === "good" ? "good" : s.state === "damaged" ? "bad" : "warn";
  return (
    <li className={clsx("min-w-0 rounded-md border px-3 py-2 text-sm", s.state !== "good" && "border-line-strong")}>
      <p className="num flex items-center justify-between gap-2">
        <span className="font-medium">{s.kind === "data" ? t.placement.data(s.shard) : t.placement.parity(s.shard)}</span>
        <Badge tone={tone} icon={tone}>{t.placement.state[s.state as keyof typeof t.placement.state]}</Badge>
      </p>
      <p className="mt-1 text-xs break-all text-soft">{s.node != null && `${t.node(s.node)} · `}<code>{s.path || s.drive}</code></p>
      <p className="num mt-0.5 text-xs text-soft">{s.scrubbed_ms == null ? t.placement.notScrubbed : t.placement.scrubbed(f.when(s.scrubbed_ms))}</p>
      {(s.problem || s.drive_state !== "online") && <p className="mt-0.5 text-xs text-warn">{s.problem ?? t.driveState[s.drive_state as keyof typeof t.driveState] ?? s.drive_state}</p>}
    </li>
  );
}
