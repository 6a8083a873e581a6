// What the parts of the settings of a bucket have in common.
import { useMutation, useQuery, useQueryClient, type UseMutationResult, type UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useT } from "../i18n";
import type { Call } from "../lib/acts";
import { Card, Confirm, Loading, Problem, toast } from "../ui";

export type Part = { bucket: string; because: string | undefined };

/** A part of the page: its document, or why it is not there. */
export function Section<T>({ title, about, query, children }: { title: string; about: string; query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  return (
    <Card title={title}>
      <div className="grid gap-x-8 gap-y-3 p-4 sm:px-5 md:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]">
        <p className="text-sm leading-relaxed text-soft">{about}</p>
        <div className="min-w-0">{query.isPending ? <Loading /> : query.isError ? <Problem error={query.error} /> : children(query.data)}</div>
      </div>
    </Card>
  );
}

/** A document of a bucket, and the call that changes it. */
export function useDocument<T>(bucket: string, name: string, read: () => Promise<T>) {
  const t = useT();
  const client = useQueryClient();
  const query = useQuery({ queryKey: ["bucket", bucket, name], queryFn: read, retry: false });
  const change = useMutation({
    mutationFn: (call: () => Promise<unknown>) => call(),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["bucket", bucket] });
      toast(t.saved);
    },
  });
  return { query, change };
}

export type Removal = { of: "rule" | "corsRule" | "eventRule" | "policy" | "quota" | "log"; call: Call; send: () => Promise<unknown> };

/** Asks before something is taken away, and shows the command that does it. */
export function RemovalDialog({ removal: { of, call, send }, change, onClose }: { removal: Removal; change: UseMutationResult<unknown, Error, () => Promise<unknown>>; onClose: () => void }) {
  const t = useT();
  const close = () => { onClose(); change.reset(); };
  return <Confirm title={t.removal[of].title} text={t.removal[of].text} action={t.removal[of].action} busy={change.isPending} error={change.error} calls={[call]} onConfirm={() => change.mutate(send, { onSuccess: onClose })} onClose={close} />;
}
