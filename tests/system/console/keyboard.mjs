// The main tasks of people in the console without a mouse: only keys are pressed, and what has the focus is what a person would see.
//
//   node keyboard.mjs BASE USER SECRET FILE
//
// FILE is uploaded to the new bucket `by-keyboard`. Prints one line of JSON: {"tasks": number, "link": "..."}.
import assert from "node:assert/strict";
import { basename } from "node:path";
import { withBrowser } from "./browser.mjs";

const [base, user, secret, file] = process.argv.slice(2);
const name = basename(file);
const out = { tasks: 0, link: "" };

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  const type = (text) => page.keyboard.type(text);
  /** The name of what has the focus, as a screen reader says it. */
  const nameOf = () => {
    const e = document.activeElement;
    return (e.getAttribute("aria-label") ?? e.labels?.[0]?.innerText ?? e.innerText ?? "").trim();
  };
  const focused = () => page.evaluate(nameOf);
  /** Waits until the focus is where it shall be. The policy of the page forbids to evaluate text in it: it is asked from here. */
  const until = async (right) => {
    const end = Date.now() + 120_000;
    for (let now = await focused(); !right(now); now = await focused()) {
      assert.ok(Date.now() < end, `the focus stays on “${now}”`);
      await page.waitForTimeout(20);
    }
  };
  /** Waits until the focus is on something else than before: menus move it a moment after the key. */
  const moved = (from) => until((now) => now !== from);
  /** Moves on until something of this name has the focus, which has to be visible. */
  const reach = async (wanted) => {
    const passed = [];
    for (let i = 0; i < 150; i++) {
      const now = await focused();
      if (now === wanted) {
        const seen = await page.evaluate(() => {
          const box = document.activeElement.getBoundingClientRect();
          return box.width > 0 && box.bottom > 0 && box.top < innerHeight && getComputedStyle(document.activeElement).outlineStyle !== "none";
        });
        assert.ok(seen, `the focus on “${wanted}” cannot be seen`);
        return;
      }
      passed.push(now);
      await press("Tab");
    }
    assert.fail(`no way to “${wanted}” by keyboard, only to: ${[...new Set(passed)].join(" | ")}`);
  };
  /** Waits for a dialog that has the focus: it is given a moment after it is visible. */
  const opened = async (name) => {
    await page.getByRole("dialog", { name }).waitFor();
    await page.waitForFunction(() => document.activeElement?.closest("[role=dialog]"));
  };
  /** Waits for the command bar that has the focus. */
  const bar = async () => {
    await press("Control+k");
    await page.getByRole("combobox", { name: "Screen, bucket or path" }).waitFor();
    await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "combobox");
  };
  /** Opens the menu that has the focus, and takes an item of it. */
  const choose = async (item) => {
    await press("Enter");
    await page.getByRole("menuitem", { name: item }).waitFor();
    await page.waitForFunction(() => document.activeElement?.closest("[role=menu]"));
    for (let i = 0, now = await focused(); i < 30 && now !== item; i++, now = await focused()) {
      await press("ArrowDown");
      await moved(now);
    }
    assert.equal(await focused(), item);
    await press("Enter");
  };
  const on = (heading) => page.getByRole("heading", { name: heading, level: 1 }).waitFor();
  /** Goes to a screen by the command bar. */
  const go = async (screen, heading = screen) => {
    await bar();
    await type(screen);
    await page.getByRole("option", { name: screen, selected: true }).waitFor();
    await press("Enter");
    await on(heading);
  };
  const done = () => { out.tasks += 1; };

  // 1. Sign in.
  await page.goto(`${base}/console/`);
  await page.getByLabel("Access key").waitFor();
  await reach("Access key");
  await type(user);
  await press("Tab");
  await type(secret);
  await press("Enter");
  await on("Overview");
  done();

  // 2. Find out which keys there are, and go to a screen.
  await press("?");
  await opened("Keys");
  await press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "detached" });
  await go("Buckets");
  done();

  // 3. Create a bucket.
  await page.getByRole("button", { name: "Create bucket" }).first().waitFor();
  await reach("Create bucket");
  await press("Enter");
  await opened("Create bucket");
  await type("by-keyboard");
  await press("Enter");
  await page.getByRole("heading", { name: "This bucket is empty" }).waitFor();
  done();

  // 4. Upload a file.
  // Before the key, because the browser has to be told first.
  const chooser = page.waitForEvent("filechooser", { timeout: 120_000 });
  await reach("Upload files");
  await press("Enter");
  await (await chooser).setFiles(file);
  await page.getByRole("button", { name, exact: true }).waitFor({ timeout: 120_000 });
  done();

  // 5. Search for it.
  await press("/");
  await until((now) => now === "Search by beginning");
  await type(name.slice(0, 3));
  await page.waitForURL(/prefix=/);
  await page.getByRole("button", { name, exact: true }).waitFor();
  done();

  // 6. Look at it: details, preview.
  await reach(name);
  await press("Enter");
  await page.getByRole("dialog", { name }).getByText("ETag").waitFor();
  await reach("Details");
  await press("ArrowRight");
  await page.getByRole("tab", { name: "Preview", selected: true }).waitFor();
  await page.getByText("written by the test").waitFor();
  await press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  done();

  // 7. Share it, from its menu.
  await reach(`Actions for ${name}`);
  await choose("Share");
  await opened(`Share ${name}`);
  await reach("Make link");
  await press("Enter");
  out.link = await page.getByLabel("Link", { exact: true }).innerText();
  await press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  done();

  // 8. Change a setting of the bucket.
  await bar();
  await type("by-keyboard");
  await page.getByRole("option", { name: /by-keyboard.*Settings/ }).waitFor();
  const chosen = page.getByRole("option", { name: /by-keyboard.*Settings/, selected: true });
  for (let i = 0; i < 30 && !(await chosen.count()); i++) await press("ArrowDown");
  await chosen.waitFor();
  await press("Enter");
  await on("Settings of by-keyboard");
  await page.getByRole("button", { name: "Enable versioning" }).waitFor();
  await reach("Enable versioning");
  await press("Enter");
  await page.getByText("Saved.").waitFor();
  done();

  // 9. Create a user with a policy.
  await go("Users");
  await page.getByRole("button", { name: "Create user" }).first().waitFor();
  await reach("Create user");
  await press("Enter");
  await opened("Create user");
  await type("keyboard-user");
  await page.getByRole("checkbox", { name: "readonly" }).waitFor();
  await reach("readonly");
  await press("Space");
  await reach("Create");
  await press("Enter");
  await opened("keyboard-user is created");
  await reach("I have kept it");
  await press("Enter");
  await page.getByRole("button", { name: "keyboard-user", exact: true }).waitFor();
  done();

  // 10. Ask why somebody may not do something.
  await go("Why denied?");
  await reach("User or access key");
  await type("keyboard-user");
  await reach("Action");
  await type("s3:PutObject");
  await reach("Bucket or object");
  await type("by-keyboard/x");
  await press("Enter");
  await page.getByText("Denied", { exact: true }).waitFor();
  done();

  // 11. Delete the file.
  await bar();
  await type("by-keyboard/");
  await page.getByRole("option", { name: "Go to by-keyboard/", selected: true }).waitFor();
  await press("Enter");
  await page.getByRole("button", { name, exact: true }).waitFor();
  await reach(`Actions for ${name}`);
  await choose("Delete");
  await opened("Delete this object?");
  await reach("Delete");
  await press("Enter");
  await page.getByText("1 object is deleted.").waitFor();
  done();

  // 12. Sign out.
  await reach("Sign out");
  await press("Enter");
  await page.getByRole("heading", { name: "Sign in to Ashlar" }).waitFor();
  done();
});
console.log(JSON.stringify(out));
process.exit(0);
