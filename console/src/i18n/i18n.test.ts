// Both languages have words for everything, with the same kinds of values.
import { expect, test } from "vitest";
import { Failure } from "../api/client";
import { de } from "./de";
import { en } from "./en";

function shape(of: unknown, path = ""): string[] {
  if (typeof of !== "object" || of === null) return [`${path}: ${typeof of}`];
  return Object.entries(of).flatMap(([key, value]) => shape(value, `${path}.${key}`));
}

test("the catalogues have the same messages, none empty", () => {
  expect(shape(de)).toEqual(shape(en));
  for (const all of [en, de]) expect(JSON.stringify(all)).not.toContain('""');
});

test("every error has words, and the server's own where it has them", () => {
  for (const t of [en, de]) {
    expect(t.explain(new Failure(0, "Unreachable", "")).advice).toBeTruthy();
    expect(t.explain(new Failure(403, "AccessDenied", "needs admin:ServerInfo", "ID"))).toMatchObject({ id: "ID" });
    expect(JSON.stringify(t.explain(new Failure(403, "AccessDenied", "needs admin:ServerInfo")))).toContain("admin:ServerInfo");
    expect(t.explain(new Failure(400, "Odd", "what happened")).text).toBe("what happened");
    expect(JSON.stringify(t.explain(new Failure(400, "InvalidTag", "the tag colour", "ID")))).toContain("the tag colour");
    expect(t.explain(new Failure(500, "Odd", "")).text).toContain("Odd");
  }
});

test("known errors are told in German, followed by the server's words", () => {
  expect(de.explain(new Failure(404, "NoSuchEntity", "there is no user \"x\""))).toEqual({ text: "Das gibt es nicht oder nicht mehr.", advice: "Der Server meldet: there is no user \"x\"", id: undefined });
  expect(de.explain(new Failure(409, "Conflict", "")).advice).toBeUndefined();
  // A code that is also a property of every object is no known one.
  expect(de.explain(new Failure(400, "constructor", "what happened")).text).toBe("what happened");
});
