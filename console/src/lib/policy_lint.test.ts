import { expect, test } from "vitest";
import { actionsOf, completions, lint } from "./policy_lint";

const one = (statement: object) => lint(JSON.stringify({ Version: "2012-10-17", Statement: [{ Effect: "Allow", ...statement }] })).map((f) => f.what);

test("a document that means what it says has no findings", () => {
  expect(one({ Action: ["s3:GetObject", "s3:ListBucket"], Resource: ["arn:aws:s3:::b", "arn:aws:s3:::b/*"] })).toEqual([]);
  expect(one({ Action: "s3:*", Resource: "*" })).toEqual([]);
  expect(one({ Action: "s3:*", Resource: "arn:aws:s3:::b/*" })).toEqual([]);
  expect(one({ Action: "s3:GetObject", Resource: "arn:aws:s3:::b*" })).toEqual([]);
  expect(one({ Action: "s3:GetObject", Resource: "arn:aws:s3:::home/${aws:username}/*" })).toEqual([]);
  expect(one({ Action: ["admin:ServerInfo", "sts:AssumeRole"] })).toEqual([]);
  expect(one({ NotAction: "s3:DeleteObject", NotResource: "arn:aws:s3:::b/*" })).toEqual([]);
  expect(one({ Action: "kms:*", Resource: "arn:minio:kms:::key" })).toEqual([]);
});

test("what cannot be meant is found, with its statement", () => {
  expect(one({ Effect: "allow", Action: "s3:GetObject", Resource: "*" })).toEqual(["effect"]);
  expect(one({ Resource: "*" })).toEqual(["no-action"]);
  expect(one({ Action: "s3:GetObject" })).toEqual(["no-resource"]);
  expect(one({ Action: "s3:GetObjct", Resource: "*" })).toEqual(["action"]);
  expect(one({ Action: "s3:GetObject", Resource: "b/*" })).toEqual(["arn", "needs-objects"]);
  expect(one({ Action: "s3:GetObject", Resource: "arn:aws:s3:::b" })).toEqual(["needs-objects"]);
  expect(one({ Action: "s3:ListBucket", Resource: "arn:aws:s3:::b/*" })).toEqual(["needs-bucket"]);
  expect(lint(JSON.stringify({ Statement: [{ Effect: "Deny", Action: "s3:GetObject", Resource: "*" }, { Effect: "Deny", Action: "x:y", Resource: "*" }] }))).toEqual([{ what: "action", statement: 2, name: "x:y" }]);
  for (const text of ["", "{", "null", "[]", '{"Statement": null}', '{"Statement": [null, 3]}']) expect(lint(text)).toEqual([]);
});

test("names go on as far as they are typed", () => {
  const at = (text: string) => completions(text, text.length);
  expect(at('{ "Action": "s3:GetObj')!.options).toContain("s3:GetObjectTagging");
  expect(at('{ "Action": ["s3:GetObject", "listallmy')!.options).toEqual(["s3:ListAllMyBuckets"]);
  expect(at('{\n  "Eff')).toEqual({ from: 5, options: ["Effect"] });
  for (const text of ["", '{ "Action": ', '{ "Action": "', '{ "a": "s3:GetObject"', '{ "a": "s3:Get*', '{ "a": "nothing-like-it']) expect(at(text)).toBeNull();
  expect(at('{ "a": "x\\"y", "b": "s3:ListAllM')!.options).toEqual(["s3:ListAllMyBuckets"]);
  expect(actionsOf("s3:getobject")).toEqual(["s3:GetObject"]);
});
