// Addresses and documents that are made here.
import { expect, test } from "vitest";
import { routingRuleXml } from "./bucket_web";
import { path, ruleXml } from "./s3";

test("keys are encoded part by part", () => {
  expect(path("b", "a b/c?d#e/ü+")).toBe("/b/a%20b/c%3Fd%23e/%C3%BC%2B");
  expect(path("b", "a//b/")).toBe("/b/a//b/");
  expect(path("b")).toBe("/b/");
});

test("a rule is escaped and has only what was asked for", () => {
  const xml = ruleXml({ id: "a<b", enabled: true, prefix: "x&y/", days: 3, noncurrentDays: null, abortDays: 1 });
  expect(xml).toContain("<ID>a&lt;b</ID>");
  expect(xml).toContain("<Prefix>x&amp;y/</Prefix>");
  expect(xml).toContain("<Expiration><Days>3</Days></Expiration>");
  expect(xml).not.toContain("Noncurrent");
});

test("a routing rule has only what was asked for, and keeps an empty new beginning", () => {
  const rule = { prefix: "a&b/", error: "", protocol: "", host: "", key: { whole: false, with: "" }, status: "302" };
  expect(routingRuleXml(rule)).toBe("<RoutingRule><Condition><KeyPrefixEquals>a&amp;b/</KeyPrefixEquals></Condition><Redirect><ReplaceKeyPrefixWith></ReplaceKeyPrefixWith><HttpRedirectCode>302</HttpRedirectCode></Redirect></RoutingRule>");
  expect(routingRuleXml({ prefix: "", error: "", protocol: "https", host: "h", key: null, status: "" })).toBe("<RoutingRule><Redirect><HostName>h</HostName><Protocol>https</Protocol></Redirect></RoutingRule>");
  expect(routingRuleXml({ ...rule, prefix: "", error: "404", key: { whole: true, with: "new.html" } })).toContain("<Condition><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition><Redirect><ReplaceKeyWith>new.html</ReplaceKeyWith>");
});
