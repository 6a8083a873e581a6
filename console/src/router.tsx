// The screens and their addresses. They are behind `#`, so that they are the same below any path, and so that a reload
// asks the server for the one page only.
import { createHashHistory, createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { App, NotFound, Trouble } from "./app";
import { Loading } from "./ui";

const root = createRootRoute({ component: App, notFoundComponent: NotFound });
const screen = <P extends string>(path: P, load: () => Promise<Record<string, any>>, name: string) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load, name) });

const text = (value: unknown) => (typeof value === "string" ? value : typeof value === "number" ? String(value) : undefined);
const optional = <K extends string>(names: K[]) => (search: Record<string, unknown>) =>
  Object.fromEntries(names.flatMap((n) => (text(search[n]) === undefined ? [] : [[n, text(search[n])]]))) as { [key in K]?: string };

export const browseRoute = createRoute({
  getParentRoute: () => root, path: "/buckets/$bucket", validateSearch: optional(["prefix", "object", "at"]),
  component: lazyRouteComponent(() => import("./screens/browse"), "Browse"),
});
export const settingsRoute = createRoute({
  getParentRoute: () => root, path: "/buckets/$bucket/settings",
  component: lazyRouteComponent(() => import("./screens/bucket"), "BucketSettings"),
});
export const whyRoute = createRoute({
  getParentRoute: () => root, path: "/why", validateSearch: optional(["request", "user", "action", "resource"]),
  component: lazyRouteComponent(() => import("./screens/why"), "Why"),
});
export const policyRoute = createRoute({
  getParentRoute: () => root, path: "/policies/$name",
  component: lazyRouteComponent(() => import("./screens/policies"), "PolicyEditor"),
});

export const auditRoute = createRoute({
  getParentRoute: () => root, path: "/audit",
  validateSearch: optional(["range", "since", "until", "status", "api", "user", "bucket", "prefix", "operation", "source", "access_key", "error", "request_id"]),
  component: lazyRouteComponent(() => import("./screens/audit"), "Audit"),
});

const routes = root.addChildren([
  screen("/", () => import("./screens/overview"), "Overview"),
  screen("/connect", () => import("./screens/connect"), "Connect"),
  screen("/buckets", () => import("./screens/buckets"), "Buckets"),
  browseRoute, settingsRoute,
  screen("/users", () => import("./screens/users"), "Users"),
  screen("/groups", () => import("./screens/groups"), "Groups"),
  screen("/keys", () => import("./screens/keys"), "Keys"),
  screen("/policies", () => import("./screens/policies"), "Policies"),
  policyRoute,
  screen("/drives", () => import("./screens/drives"), "Drives"),
  screen("/trace", () => import("./screens/trace"), "Trace"),
  screen("/logs", () => import("./screens/logs"), "Logs"),
  screen("/targets", () => import("./screens/targets"), "Targets"),
  screen("/encryption", () => import("./screens/encryption"), "Encryption"),
  screen("/settings", () => import("./screens/settings"), "Settings"),
  screen("/providers", () => import("./screens/providers"), "Providers"),
  screen("/commands", () => import("./screens/commands"), "CommandLog"),
  whyRoute, auditRoute,
]);

export const router = createRouter({
  routeTree: routes,
  history: createHashHistory(),
  defaultPendingComponent: Loading,
  defaultErrorComponent: Trouble,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
