// What operators do in the console: search the audit log, change settings and try them, see where an object is, forecast
// what rules do, download a folder.
//
//   node operations.mjs BASE USER SECRET RECEIVER FOLDER
//
// RECEIVER is the address of a webhook; the folder is saved in FOLDER as `deep.zip`. Prints one line of JSON about what it saw.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { settled, show, signIn, withBrowser } from "./browser.mjs";

const [base, user, secret, receiver, folder] = process.argv.slice(2);
const out = {};

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  const button = (name) => page.getByRole("button", { name, exact: true });
  await signIn(page, base, user, secret);

  // The audit log: a search by user and answer, whose address can be sent; a record opens, and leads to the object.
  await show(page, base, "/audit");
  await page.getByLabel("User", { exact: true }).fill("carol");
  await page.getByLabel("Answer", { exact: true }).selectOption("4xx");
  await button("Search").click();
  const record = page.getByRole("button", { name: /403.*GetObject watched\/deep\/secret.txt.*carol/ });
  await page.waitForURL(/user=carol/);
  // All records were shown before.
  await page.getByRole("button", { name: /PutObject/ }).first().waitFor({ state: "detached" });
  await record.waitFor();
  assert.match(await page.getByLabel("Command", { exact: true }).innerText(), /^ashlar admin audit search it .*--user carol/);
  await page.reload();
  await record.click();
  await page.getByText("denied: no statement allows it").waitFor();
  await page.getByRole("link", { name: "deep/secret.txt" }).click();
  await page.getByRole("dialog", { name: "secret.txt" }).getByText("ETag").waitFor();
  await show(page, base, "/audit?user=nobody");
  await page.getByRole("heading", { name: "No record meets the conditions" }).waitFor();
  // More than a page: the rest comes on demand, and nothing twice.
  await show(page, base, "/audit?operation=PutObject&prefix=many/");
  const rows = page.getByRole("button", { name: /PutObject watched\/many\// });
  await page.getByText("100 records").waitFor();
  await button("Show more").click();
  await page.getByText(/120 records.*that is all/).waitFor();
  assert.equal(await rows.count(), 120);
  await settled(page);

  // Limits of healing: what cannot be used is not sent, and the card shows what is in force.
  await show(page, base, "/drives");
  await button("Limits").click();
  const limits = page.getByRole("dialog", { name: "Limits of healing and verification" });
  await limits.getByLabel("Healing rate limit (MiB/s)").fill("0.01");
  await limits.getByText("Enter at least 0.0625, or nothing.").waitFor();
  await limits.getByLabel("Healing rate limit (MiB/s)").fill("100");
  await limits.getByLabel("Busy share (%)").fill("10");
  await limits.getByRole("button", { name: "Set limits" }).click();
  await page.getByText("100 MiB per second", { exact: true }).waitFor();
  await settled(page);

  // Settings: a target is refused while it does not answer, then added; what changes is shown before; the export comes back.
  await show(page, base, "/settings");
  await page.getByLabel("Find a setting").fill("webhook");
  // Of this one, whether or not the others are already gone.
  const webhook = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "notify_webhook", exact: true }) });
  await webhook.getByRole("button", { name: "Add target" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Name", { exact: true }).fill("shop");
  await form.getByLabel("endpoint").fill("ftp://nowhere");
  await form.getByRole("button", { name: "Try and apply" }).click();
  await form.getByRole("alert").waitFor();
  await form.getByLabel("endpoint").fill(receiver);
  await form.getByLabel("auth_token").fill("kept-secret-token");
  await form.getByRole("heading", { name: "What changes" }).waitFor();
  await form.getByRole("button", { name: "Try and apply" }).click();
  await page.getByText("The settings apply now.").waitFor();
  const saved = page.waitForEvent("download");
  await button("Export").click();
  await (await saved).saveAs(`${folder}/settings.txt`);
  assert.ok(!(await page.content()).includes("kept-secret-token"), "a secret is on the page");
  writeFileSync(`${folder}/changed.txt`, `notify_webhook:shop comment="of the file" endpoint="${receiver}" auth_token="*redacted*"\n`);
  await page.getByTestId("settings-file").setInputFiles(`${folder}/changed.txt`);
  await page.getByRole("dialog", { name: "Import settings" }).getByText("of the file").waitFor();
  await button("Apply 1 change").click();
  await page.getByText("of the file").waitFor();

  // The target accepts a test event; a bucket sends its events there.
  await show(page, base, "/targets");
  await page.getByRole("article").filter({ hasText: "shop:webhook" }).getByRole("button", { name: "Send a test event" }).click();
  await page.getByText(/accepted a test event in/).waitFor();
  await show(page, base, "/buckets/watched/settings");
  const part = (title) => page.locator("section").filter({ has: page.getByRole("heading", { name: title, exact: true }) });
  await part("Notifications").getByRole("button", { name: "Add rule" }).click();
  await form.getByLabel("Key ends with").fill(".jpg");
  await form.getByRole("button", { name: "Create" }).click();
  await part("Notifications").getByText("Keys that end with .jpg").waitFor();
  await part("Cross-origin access (CORS)").getByRole("button", { name: "Add rule" }).click();
  await form.getByLabel("Origins").fill("https://app.example.com");
  await form.getByRole("button", { name: "Save" }).click();
  await part("Cross-origin access (CORS)").getByText("https://app.example.com").waitFor();
  await part("Website").getByLabel("What it serves").selectOption("pages");
  await part("Website").getByLabel("Error document").fill("404.html");
  await part("Website").getByRole("button", { name: "Add redirect" }).click();
  await form.getByLabel("Key begins with").fill("old/");
  await form.getByLabel("Key", { exact: true }).selectOption("beginning");
  await form.getByLabel("New beginning").fill("new/");
  await form.getByRole("button", { name: "Keep" }).click();
  await part("Website").getByText("/new/…").waitFor();
  const stored = page.waitForResponse((r) => r.request().method() === "PUT" && r.url().endsWith("?website"));
  await part("Website").getByRole("button", { name: "Save" }).click();
  assert.equal((await stored).status(), 200);

  // A rule is simulated before it is made: nothing is stored.
  await part("Lifecycle").getByRole("button", { name: "Add rule" }).click();
  const rule = page.getByRole("dialog", { name: "Add rule" });
  await rule.getByLabel("Name", { exact: true }).fill("many");
  await rule.getByLabel("Prefix").fill("many/");
  await rule.getByLabel("Delete objects after").fill("3");
  await rule.getByRole("button", { name: "Simulate with this rule" }).click();
  const simulation = page.getByRole("dialog", { name: "Simulation of the rules of watched" });
  await simulation.getByRole("status").getByText(/120 objects expire/).waitFor();
  await simulation.getByText("many/000").waitFor();
  await simulation.getByLabel("Until").selectOption("0");
  await simulation.getByText("Nothing becomes due.").waitFor();

  // Where an object is: every shard, read and verified.
  await show(page, base, "/buckets/watched?prefix=deep/&object=deep/secret.txt");
  await page.getByRole("tab", { name: "Placement" }).click();
  await page.getByText(/All \d+ shards are in their places/).waitFor();
  await button("Verify every byte").click();
  await page.getByText(/\d+ shards read and verified/).waitFor();
  await button("Heal").click();
  await page.getByText("Nothing had to be healed.").waitFor();

  // A folder as an archive.
  await show(page, base, "/buckets/watched?prefix=deep/");
  const archive = page.waitForEvent("download");
  await button("Download as ZIP").click();
  const download = await archive;
  assert.equal(download.suggestedFilename(), "deep.zip");
  await download.saveAs(`${folder}/deep.zip`);
});
console.log(JSON.stringify(out));
