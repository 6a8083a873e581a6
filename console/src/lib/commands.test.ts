import { expect, test } from "vitest";
import { ashlarOf, commandsOf, curlOf, word } from "./commands";

const where = { endpoint: "https://s3.example.com", region: "eu-west-1" };

test("words are safe for a shell", () => {
  expect(word("it/bucket/a-b_c.txt")).toBe("it/bucket/a-b_c.txt");
  expect(word("a b")).toBe("'a b'");
  expect(word("$(rm -rf ~)'`")).toBe("'$(rm -rf ~)'\\''`'");
  expect(word("")).toBe("''");
});

test("names in addresses are decoded for ashlar and stay encoded for curl", () => {
  const call = { method: "DELETE", url: "admin/users/a%20b%2Fc" };
  expect(ashlarOf(call)).toBe("ashlar admin user remove it 'a b/c'");
  expect(curlOf(call, where)).toContain("https://s3.example.com/ashlar/api/v1/users/a%20b%2Fc");
});

test("curl gets the query as signatures have it, and the body and headers of the call", () => {
  const text = curlOf({ method: "PUT", url: "s3/b/k?tagging&versionId=v1", body: "<a>it's</a>", headers: { "content-type": "application/xml", "x-ashlar-console": "1" } }, where);
  expect(text).toContain("'https://s3.example.com/b/k?tagging=&versionId=v1'");
  expect(text).toContain("--data-binary '<a>it'\\''s</a>'");
  expect(text).toContain("-H 'content-type: application/xml'");
  expect(text).toContain("aws:amz:eu-west-1:s3");
  expect(text).not.toContain("x-ashlar-console");
});

test("an object that was uploaded is a file of the person", () => {
  const call = { method: "PUT", url: "s3/b/folder/k%20k" };
  expect(ashlarOf(call)).toBe("ashlar cp FILE 'it/b/folder/k k'");
  expect(curlOf(call, where)).toContain("--upload-file FILE");
  expect(curlOf({ method: "PUT", url: "s3/b" }, where)).not.toContain("FILE");
});

test("a secret is asked for, not shown", () => {
  const commands = commandsOf([{ method: "PUT", url: "admin/users/anna", body: '{"secret":"…"}' }], where);
  expect(commands[0]?.text).toBe("ASHLAR_USER_SECRET=SECRET-KEY ashlar admin user add it anna");
});

test("what has no command with the same effect has none of ashlar", () => {
  for (const call of [{ method: "PUT", url: "s3/b?acl", body: "<x/>" }, { method: "PUT", url: "s3/b/k?acl", body: "<x/>" }, { method: "POST", url: "admin/nothing-of-this-name" }]) {
    expect(commandsOf([call], where).map((c) => c.program)).toEqual(["curl"]);
    // Half of an act would mislead.
    expect(commandsOf([{ method: "DELETE", url: "s3/b" }, call], where).map((c) => c.program)).toEqual(["curl"]);
  }
  expect(commandsOf([], where)).toEqual([]);
});

test("documents of a bucket are options where these say all of it, and else the document", () => {
  const put = (what: string, body: string) => ashlarOf({ method: "PUT", url: `s3/b?${what}`, body });
  const pages = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";
  expect(put("website", `<WebsiteConfiguration>${pages}</WebsiteConfiguration>`)).toBe("ashlar bucket website set it/b --index index.html");
  expect(put("website", `<WebsiteConfiguration>${pages}<ErrorDocument><Key>a &amp; b</Key></ErrorDocument></WebsiteConfiguration>`)).toBe("ashlar bucket website set it/b --index index.html --error 'a & b'");
  expect(put("website", "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>h.example</HostName><Protocol>https</Protocol></RedirectAllRequestsTo></WebsiteConfiguration>")).toBe("ashlar bucket website set it/b --redirect-to https://h.example");
  const rules = `<WebsiteConfiguration>${pages}<RoutingRules><RoutingRule/></RoutingRules></WebsiteConfiguration>`;
  expect(put("website", rules)).toBe(`ashlar bucket website set it/b - <<'EOF'\n${rules}\nEOF`);
  const log = (more: string) => `<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>b/</TargetPrefix>${more}</LoggingEnabled></BucketLoggingStatus>`;
  expect(put("logging", log(""))).toBe("ashlar bucket logging set it/b --to logs --prefix b/");
  expect(put("logging", log("<TargetObjectKeyFormat><SimplePrefix/></TargetObjectKeyFormat>"))).toContain("ashlar bucket logging set it/b - <<'EOF'");
  expect(put("logging", "<BucketLoggingStatus></BucketLoggingStatus>")).toBe("ashlar bucket logging remove it/b");
  expect(put("notification", "<NotificationConfiguration></NotificationConfiguration>")).toBe("ashlar event rm it/b --force");
});

test("a retention until an instant keeps its version and whether it may be shortened", () => {
  const call = { method: "PUT", url: "s3/b/a/k?retention&versionId=v1", body: "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2030-12-31T23:59:59Z</RetainUntilDate></Retention>" };
  expect(ashlarOf(call)).toBe("ashlar retention set governance 2030-12-31T23:59:59Z it/b/a/k --version-id v1");
  expect(ashlarOf({ ...call, headers: { "x-amz-bypass-governance-retention": "true" } })).toContain("--bypass it/b/a/k");
  expect(ashlarOf({ ...call, body: "<Retention></Retention>" })).toBe("ashlar retention clear it/b/a/k --version-id v1");
});

test("a key that loses its expiry and its policy", () => {
  expect(ashlarOf({ method: "PATCH", url: "admin/keys/K", body: '{"name":"n","expires_ms":0,"policy":""}' })).toBe("ashlar admin accesskey edit it K --name n --no-expiry --no-policy");
});

test("limits of healing are written as sizes", () => {
  const call = { method: "PUT", url: "admin/heal/limits", body: '{"max_rate":104857600,"scrub_max_rate":0,"busy_share":50}' };
  expect(ashlarOf(call)).toBe("ashlar heal limit it --max-rate 100MiB --scrub-max-rate off --busy-share 50");
  expect(ashlarOf({ ...call, body: '{"max_rate":70001}' })).toBe("ashlar heal limit it --max-rate 70001");
  expect(ashlarOf({ method: "DELETE", url: "admin/heal/limits" })).toBe("ashlar heal limit it --reset");
});
