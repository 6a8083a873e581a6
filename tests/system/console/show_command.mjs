// Dialogs show the command of what they are about to do, and the screen of commands what was done.
//
//   node show_command.mjs BASE USER SECRET
//
// Creates the bucket `by-hand` and the user `shown-user`; prints {"shown": commands of the first dialog, "acts": of the screen}.
import assert from "node:assert/strict";
import { settled, show, signIn, violations, withBrowser } from "./browser.mjs";

const [base, user, secret] = process.argv.slice(2);
const out = { violations: [] };

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  const link = (name) => page.getByRole("link", { name, exact: true }).click();
  const dialog = page.getByRole("dialog");
  const commands = async (where) => Object.fromEntries(await Promise.all(["ashlar", "curl"].map(async (p) => [p, await where.getByLabel(p, { exact: true }).allInnerTexts()])));

  await signIn(page, base, user, secret);
  await link("Commands");
  await page.getByRole("heading", { name: "Nothing is changed yet" }).waitFor();

  // Before it is done: the command changes with the fields, and there is none without a name.
  await link("Buckets");
  await page.getByRole("button", { name: "Create bucket" }).first().click();
  await dialog.getByLabel("Name", { exact: true }).waitFor();
  assert.equal(await dialog.getByText("Show the command").count(), 0);
  await dialog.getByLabel("Name", { exact: true }).fill("by-hand");
  await dialog.getByText("Show the command").click();
  assert.equal(await dialog.getByLabel("ashlar", { exact: true }).innerText(), "ashlar mb it/by-hand");
  await dialog.getByRole("switch", { name: "Versioning" }).click();
  await dialog.getByLabel("ashlar", { exact: true }).getByText("versioning enable").waitFor();
  out.shown = await commands(dialog);
  out.violations.push(...await violations(page));
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("heading", { name: "This bucket is empty" }).waitFor();

  // A secret is in no command.
  await link("Users");
  await page.getByRole("button", { name: "Create user" }).first().click();
  await dialog.getByLabel("Name", { exact: true }).fill("shown-user");
  await dialog.getByLabel("Secret").fill("kept-out-of-sight");
  await dialog.getByText("Show the command").click();
  await dialog.getByLabel("ashlar", { exact: true }).waitFor();
  assert.doesNotMatch(await dialog.innerText(), /kept-out-of-sight/);
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("button", { name: "I have kept it" }).click();

  // An act without a dialog.
  await page.getByRole("button", { name: "Actions for shown-user" }).click();
  await page.getByRole("menuitem", { name: "Disable" }).click();
  await page.getByText("shown-user is disabled.").waitFor();
  await page.getByRole("button", { name: "Actions for shown-user" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await dialog.getByText("Show the command").click();
  assert.equal(await dialog.getByLabel("ashlar", { exact: true }).innerText(), "ashlar admin user remove it shown-user");
  await page.keyboard.press("Escape");

  await link("Commands");
  await page.getByRole("heading", { name: "Commands", level: 1 }).waitFor();
  await settled(page);
  out.acts = await commands(page.getByRole("main"));
  assert.doesNotMatch(await page.getByRole("main").innerText(), /kept-out-of-sight/);
  out.violations.push(...await violations(page));

  // Whoever signs in next does not see them.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Ashlar" }).waitFor();
  await page.getByLabel("Access key").fill(user);
  await page.getByLabel("Secret key").fill(secret);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Nothing is changed yet" }).waitFor();
});
console.log(JSON.stringify(out));
