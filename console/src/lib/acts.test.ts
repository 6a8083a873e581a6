import { beforeEach, expect, test } from "vitest";
import { actsNow, forgetActs, remember } from "./acts";

beforeEach(forgetActs);

test("what changes something is kept, the newest first; reads, trials and parts of uploads are not", () => {
  remember({ method: "DELETE", url: "s3/old" });
  remember({ method: "POST", url: "admin/users/anna/revoke" });
  remember({ method: "PUT", url: "s3/b/uploads/partNumber" });
  for (const [method, url] of [["GET", "admin/users"], ["HEAD", "s3/b/k"], ["POST", "admin/permissions"], ["POST", "admin/simulate"], ["POST", "admin/lifecycle/b/simulate"],
    ["POST", "admin/idp/openid/x/test"], ["POST", "s3/b/k?uploads"], ["PUT", "s3/b/k?partNumber=1&uploadId=x"], ["POST", "s3/b/k?uploadId=x"], ["POST", "confirm"], ["POST", "session"], ["DELETE", "session"]] as const) remember({ method, url });
  expect(actsNow().map((a) => a.url)).toEqual(["s3/b/uploads/partNumber", "admin/users/anna/revoke", "s3/old"]);
});

test("no secret is kept", () => {
  const kept = (url: string, body: object) => { remember({ method: "PUT", url, body: JSON.stringify(body) }); return JSON.parse(actsNow()[0]!.body!); };
  expect(kept("admin/users/anna", { secret: "hidden-one" })).toEqual({ secret: "…" });
  expect(kept("admin/keys/K", { secret: "hidden-two", name: "backup" })).toEqual({ secret: "…", name: "backup" });
  // Addresses of brokers and databases can contain passwords.
  expect(kept("admin/settings/notify_amqp/a", { values: { url: "amqp://u:hidden@h", enable: "on" } })).toEqual({ values: { url: "…", enable: "on" } });
  expect(kept("admin/idp/openid/a", { values: { client_secret: "hidden" } })).toEqual({ values: { client_secret: "…" } });
  remember({ method: "PUT", url: "admin/users/anna", body: "hidden, no JSON" });
  expect(JSON.stringify(actsNow())).not.toContain("hidden");
});
