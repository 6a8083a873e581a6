import { expect, test } from "vitest";
import { policyFor } from "./copy_settings";

test("a policy names the other bucket where it named its own, and nothing else changes", () => {
  const statement = { Effect: "Allow", Principal: "*", Action: "s3:*", Resource: ["arn:aws:s3:::a.b", "arn:aws:s3:::a.b/x/*", "arn:aws:s3:::a.bc/*", "arn:aws:s3:::axb/*", "*"], Condition: { StringEquals: { "aws:x": "arn:aws:s3:::a.b" } } };
  const moved = { ...statement, Resource: ["arn:aws:s3:::new", "arn:aws:s3:::new/x/*", "arn:aws:s3:::a.bc/*", "arn:aws:s3:::axb/*", "*"] };
  expect(JSON.parse(policyFor(JSON.stringify({ Version: "v", Statement: [statement] }), "a.b", "new"))).toEqual({ Version: "v", Statement: [moved] });
  expect(JSON.parse(policyFor(JSON.stringify({ Statement: { NotResource: "arn:aws:s3:::a.b/*" } }), "a.b", "new"))).toEqual({ Statement: { NotResource: "arn:aws:s3:::new/*" } });
});
