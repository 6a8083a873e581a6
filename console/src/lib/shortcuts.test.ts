import { expect, test } from "vitest";
import { isShortcut } from "./shortcuts";

const key = (key: string, more: object = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, ...more });

test("keys that somebody types into a field are not taken", () => {
  expect(isShortcut(key("k", { ctrlKey: true }), true)).toBe("bar");
  expect(isShortcut(key("K", { metaKey: true }), false)).toBe("bar");
  for (const [text, what] of [["/", "search"], ["?", "help"]] as const) {
    expect(isShortcut(key(text), false)).toBe(what);
    expect(isShortcut(key(text), true)).toBeNull();
    expect(isShortcut(key(text, { ctrlKey: true }), false)).toBeNull();
  }
  expect(isShortcut(key("k"), false)).toBeNull();
});
