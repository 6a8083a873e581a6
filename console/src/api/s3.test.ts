// Addresses and documents that are made here, and lists that are read.
import { expect, test } from "vitest";
import { routingRuleXml } from "./bucket_web";
import { objectsOf, path, ruleXml } from "./s3";

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

const LIST = `<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>a/</Prefix><Delimiter>/</Delimiter>
<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b&#43;&#x2F;</NextContinuationToken>
<Contents><Key>a/1%26+%C3%BC%2B</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;e-1&quot;</ETag><Size>12</Size><Owner><ID>x</ID></Owner></Contents>
<Contents><Key>a/2</Key><Size>0</Size><ETag/></Contents>
<CommonPrefixes><Prefix>a/sub+folder/</Prefix></CommonPrefixes><EncodingType>url</EncodingType></ListBucketResult>`;

test("a page of a list is read with its keys and folders decoded", () => {
  expect(objectsOf(LIST)).toEqual({
    folders: ["a/sub folder/"], next: "a&b+/",
    items: [{ key: "a/1& ü+", size: 12, modified: "2026-01-02T03:04:05.000Z", etag: "e-1" }, { key: "a/2", size: 0, modified: "", etag: "" }],
  });
  expect(objectsOf(LIST.replace("true", "false")).next).toBeNull();
});

test("a list that breaks off is an error, not a shorter list", () => {
  for (const part of ["", "not a list", LIST.slice(0, LIST.indexOf("<Contents><Key>a/2")), LIST.slice(0, -5)]) expect(() => objectsOf(part)).toThrow();
});
