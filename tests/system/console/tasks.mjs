// What people do in the console, in order; fails with a message at the first thing that does not work.
//
//   node tasks.mjs BASE USER SECRET FOLDER
//
// FOLDER has the files `small.txt` and `large.bin`; the download is saved there as `downloaded.bin`. Prints one line of
// JSON about what it made: {"user", "secret", "link"}.
import assert from "node:assert/strict";
import { settled, show, signIn, withBrowser } from "./browser.mjs";

const [base, user, secret, folder] = process.argv.slice(2);
const out = {};

await withBrowser({ viewport: { width: 1280, height: 800 } }, async (context) => {
  const page = await context.newPage();
  const button = (name, exact = true) => page.getByRole("button", { name, exact });

  // A wrong secret is refused in words, and nothing is left in the browser's storage.
  await page.goto(`${base}/console/`);
  await page.getByLabel("Access key").fill(user);
  await page.getByLabel("Secret key").fill("not-the-secret");
  await button("Sign in").click();
  await page.getByRole("alert").getByText(/secret key is wrong/).waitFor();
  assert.equal((await context.cookies()).length, 0, "a cookie after a refused sign-in");

  await signIn(page, base, user, secret);
  const [cookie] = await context.cookies();
  assert.ok(cookie.httpOnly && cookie.sameSite === "Strict", "the cookie is open to scripts or other sites");
  assert.match(cookie.path, /\/console$/);
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(!stored.includes(user) && !stored.includes(secret), `the storage has ${stored}`);
  await page.getByRole("heading", { name: /Everything is healthy|Working, with less protection/ }).waitFor();

  // A bucket with versions, by keyboard.
  await page.getByRole("link", { name: "Buckets", exact: true }).click();
  await page.getByRole("heading", { name: "Buckets", level: 1 }).waitFor();
  await settled(page);
  await button("Create bucket").first().press("Enter");
  await page.getByRole("dialog").getByLabel("Name").waitFor();
  // The dialog puts the focus on the name, a moment after it is visible.
  await page.waitForFunction(() => document.activeElement?.labels?.[0]?.innerText.startsWith("Name"));
  await page.keyboard.type("from-the-console");
  await page.getByRole("switch", { name: "Versioning" }).press("Space");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).press("Enter");
  await page.getByRole("heading", { name: "This bucket is empty" }).waitFor();

  // Two files, of which one is a multipart upload.
  await page.getByTestId("files").setInputFiles([`${folder}/small.txt`, `${folder}/large.bin`]);
  await page.getByRole("region", { name: "Uploads" }).getByText("2 files uploaded").waitFor({ timeout: 120_000 });
  await page.getByRole("button", { name: "small.txt", exact: true }).waitFor();

  // Search by beginning, which the server does.
  await page.getByRole("searchbox", { name: "Search by beginning" }).fill("large");
  await page.getByRole("button", { name: "small.txt", exact: true }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "large.bin", exact: true }).waitFor();

  // Download.
  await button("Actions for large.bin").click();
  const saved = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Download" }).click();
  const download = await saved;
  assert.equal(download.suggestedFilename(), "large.bin");
  await download.saveAs(`${folder}/downloaded.bin`);

  // A link for somebody without an account.
  await button("Actions for large.bin").click();
  await page.getByRole("menuitem", { name: "Share" }).click();
  await button("Make link").click();
  out.link = await page.getByLabel("Link", { exact: true }).innerText();
  await page.keyboard.press("Escape");

  // Preview, tags.
  await page.getByRole("searchbox", { name: "Search by beginning" }).fill("");
  await page.getByRole("button", { name: "small.txt", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("tab", { name: "Preview" }).click();
  await dialog.getByText("written by the test").waitFor();
  await dialog.getByRole("tab", { name: "Tags" }).click();
  await dialog.getByRole("button", { name: "Add tag" }).click();
  await dialog.getByLabel("Name of tag 1").fill("colour");
  await dialog.getByLabel("Value of tag 1").fill("blue / green");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();

  // Delete, and undelete from the versions.
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog", { name: "Delete this object?" }).getByRole("button", { name: "Delete" }).click();
  await page.getByText("1 object is deleted.").waitFor();
  await show(page, base, "/buckets/from-the-console?object=small.txt");
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByText("Deleted", { exact: true }).waitFor();
  await page.getByRole("listitem").filter({ hasText: "Deleted" }).getByRole("button").click();
  await page.getByRole("menuitem", { name: "Undelete" }).click();
  await page.getByRole("dialog", { name: "Undelete" }).getByRole("button", { name: "Undelete" }).click();
  await page.getByText("Deleted", { exact: true }).waitFor({ state: "detached" });

  // A user whose secret is shown once.
  await show(page, base, "/users");
  await button("Create user").first().click();
  await page.getByLabel("Name", { exact: true }).fill("console-reader");
  await page.getByRole("checkbox", { name: "readonly" }).check();
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog", { name: "console-reader is created" }).waitFor();
  out.user = await page.getByRole("dialog").getByLabel("Access key", { exact: true }).innerText();
  out.secret = await page.getByRole("dialog").getByLabel("Secret key", { exact: true }).innerText();
  await button("I have kept it").click();
  await page.getByRole("button", { name: "console-reader", exact: true }).waitFor();

  // Settings of the bucket: a quota.
  await show(page, base, "/buckets/from-the-console/settings");
  await page.getByLabel("New limit").fill("2");
  await button("Set quota").click();
  await page.getByText(/of 2\sGiB used|Limit: 2\sGiB/).waitFor();

  // German.
  await page.getByLabel("Language").selectOption("de");
  await page.getByRole("link", { name: "Übersicht" }).click();
  await page.getByRole("heading", { name: "Übersicht", level: 1 }).waitFor();
  await page.getByRole("link", { name: "Einstellungen", exact: true }).click();
  await page.getByText("Ereignisse an einen Webhook").waitFor();
  await page.getByLabel("Einstellung suchen").fill("Warteschlange");
  await page.getByText("Ereignisse an einen Exchange von AMQP 0-9-1 (RabbitMQ)").waitFor();
  await page.getByLabel("Sprache").selectOption("en");

  // Signed out, the cookie is gone.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Ashlar" }).waitFor();
  assert.equal((await context.cookies()).length, 0, "the cookie is still there");

  // The new user may read and is told what it may not do.
  await page.getByLabel("Access key").fill(out.user);
  await page.getByLabel("Secret key").fill(out.secret);
  await button("Sign in").click();
  await page.getByRole("alert").getByText(/permission|Access Denied/).first().waitFor();
  await show(page, base, "/buckets/from-the-console");
  // MinIO's policy of this name allows to read, not to list.
  await page.getByRole("alert").getByText(/Access Denied|permission/).first().waitFor();
  const upload = page.getByRole("button", { name: "Upload files", disabled: true });
  await upload.waitFor();
  await upload.focus();
  await page.getByRole("tooltip").getByText("s3:PutObject").waitFor();
  await show(page, base, "/users");
  await page.getByRole("alert").getByText(/admin:ListUsers/).waitFor();
});
console.log(JSON.stringify(out));
