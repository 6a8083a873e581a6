import { expect, test } from "vitest";
import { formatLine, parseLines, type SettingLine } from "./lines";

test("lines of settings come back as they were", () => {
  const settings: SettingLine[] = [
    { subsystem: "notify_webhook", target: "a", values: { endpoint: "http://x/?a=b c", comment: 'say "hi\\"\nthere' } },
    { subsystem: "identity_tls", target: "_", values: { enable: "on", comment: "" } },
  ];
  const text = settings.map(formatLine).join("\n");
  expect(text).toContain("\nidentity_tls ");
  expect(parseLines(`# a comment with "quotes\n\n${text}\n`)).toEqual(settings);
});

test("lines as MinIO writes them are read, and others are named", () => {
  expect(parseLines("notify_webhook:a endpoint=http://x comment=two words")).toEqual([{ subsystem: "notify_webhook", target: "a", values: { endpoint: "http://x", comment: "two words" } }]);
  expect(parseLines('identity_tls enable="on')).toBe("");
  expect(parseLines("identity_tls on")).toBe("identity_tls");
  expect(parseLines("identity_tls enable=on enable=off")).toBe("identity_tls");
});
