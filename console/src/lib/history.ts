// What the server measured. In a file of its own, so that who needs a number does not load the charts.
import { useQuery } from "@tanstack/react-query";
import { api, type Schemas } from "../api/client";

export type History = Schemas["MetricsHistory"];

/** The last seconds, in at most so many steps. */
export function useHistory(seconds: number, steps?: number) {
  return useQuery({
    queryKey: ["history", seconds, steps],
    queryFn: ({ signal }) => api("/history", "get", { query: { last_s: seconds, ...(steps ? { steps } : {}) } as never, signal }),
    refetchInterval: seconds <= 3600 ? 10_000 : 60_000, staleTime: 5000, retry: false, placeholderData: (old) => old,
  });
}
