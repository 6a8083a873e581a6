// Who is signed in, and what they may do.
import { queryOptions, useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { api, Failure, gateway, type Session } from "../api/client";
import { forgetActs } from "./acts";

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: gateway.session,
  staleTime: 60_000,
});

/** The provider whose session may go on after somebody signed out here. */
let leftProvider: string | null = null;

/** Begins or ends a session: what the page knows of the one before is forgotten. */
export function begin(client: QueryClient, session: Session | null) {
  if (session) leftProvider = null;
  forgetActs();
  client.removeQueries({ predicate: (query) => query.queryKey[0] !== "session" });
  client.setQueryData(["session"], session);
}

/** What an identity provider sent back through the browser, if the page was opened so. */
export type ProviderReturn = { code: string; state: string } | { error: string };

const RETURN_TO = "ashlar.return-to";
/** The provider whose sign-in is only tried. */
const TESTING = "ashlar.testing";
/** What came back from a sign-in that is only tried. */
export type TestReturn = { provider: string; back: ProviderReturn };
let testReturn: TestReturn | null = null;
let providerReturn: ProviderReturn | null = null;

/** Takes what a provider sent out of the address, so that neither a reload nor the history has it. Called once, first. */
export function takeProviderReturn() {
  const query = new URLSearchParams(location.search);
  if (!query.has("state")) return;
  const [code, state, error] = [query.get("code"), query.get("state"), query.get("error")];
  // Only the word that names the error is shown: whoever makes somebody open an address must not choose a text.
  if (error !== null) providerReturn = { error: /^[a-z_]{1,40}$/.test(error) ? error : "" };
  else if (code && state) providerReturn = { code, state };
  let screen = "";
  try {
    screen = sessionStorage.getItem(RETURN_TO) ?? "";
    sessionStorage.removeItem(RETURN_TO);
    const testing = sessionStorage.getItem(TESTING);
    sessionStorage.removeItem(TESTING);
    if (testing !== null && providerReturn) {
      testReturn = { provider: testing, back: providerReturn };
      providerReturn = null;
      screen = "#/providers";
    }
  } catch {
    // Storage is forbidden: the overview is shown.
  }
  history.replaceState(null, "", location.pathname + (screen.startsWith("#/") ? screen : ""));
}

/** What `takeProviderReturn` found, once. */
export function foundProviderReturn(): ProviderReturn | null {
  const found = providerReturn;
  providerReturn = null;
  return found;
}

/** What came back from a sign-in that is only tried, once. */
export function foundTestReturn(): TestReturn | null {
  const found = testReturn;
  testReturn = null;
  return found;
}

/** Leaves the page to try a sign-in; the providers are shown again afterwards, with what came of it. */
export async function leaveForTest(provider: string) {
  const answer = await api("/idp/{kind}/{name}/test", "post", { path: { kind: "openid", name: provider }, body: { origin: location.origin } as never });
  if (answer.problem) throw new Failure(400, "TestRefused", answer.problem);
  if (!answer.url) throw new Failure(400, "TestRefused", "");
  sessionStorage.setItem(TESTING, provider);
  location.assign(answer.url);
}

/** Leaves the page for a provider; the screen is shown again afterwards. */
export async function leaveForProvider(provider: string) {
  const { url } = await gateway.beginSignIn(provider);
  try {
    sessionStorage.setItem(RETURN_TO, location.hash);
  } catch {
    // As above.
  }
  location.assign(url);
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

/** The provider of the person who signed out on this page, if there was one. */
export function providerOfLast(): string | null {
  return leftProvider;
}

export function useSignOut() {
  const client = useQueryClient();
  return async () => {
    const before = client.getQueryData<Session | null>(["session"]);
    await gateway.signOut();
    leftProvider = before?.provider ?? null;
    begin(client, null);
  };
}
