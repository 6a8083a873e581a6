// Who is signed in, and what they may do.
import { queryOptions, useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { api, gateway, type Session } from "../api/client";

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: gateway.session,
  staleTime: 60_000,
});

/** Begins or ends a session: what the page knows of the one before is forgotten. */
export function begin(client: QueryClient, session: Session | null) {
  client.removeQueries({ predicate: (query) => query.queryKey[0] !== "session" });
  client.setQueryData(["session"], session);
}

export function useSession() {
  return useQuery(sessionQuery).data ?? null;
}

/** Whether the person may do things: one question for a whole screen. Unknown while it is asked. */
export function useMay(...checks: (string | [action: string, resource: string])[]): (action: string) => boolean | undefined {
  const list = checks.map((c) => (typeof c === "string" ? { action: c, resource: "" } : { action: c[0], resource: c[1] }));
  const found = useQuery({
    queryKey: ["may", list],
    queryFn: () => api("/permissions", "post", { body: { checks: list } }),
    staleTime: 60_000,
  });
  return (action) => found.data?.checks.find((c) => c.action === action)?.allowed;
}

export function useSignOut() {
  const client = useQueryClient();
  return async () => {
    await gateway.signOut();
    begin(client, null);
  };
}
