// The screens about the server: trace and log as they come, over a restart of the server; event targets; encryption keys;
// identity providers.
//
//   node system.mjs BASE USER SECRET CONFIG_URL CLIENT_ID CLIENT_SECRET
//
// Prints a word where the test has to do something, and waits for a line. The words: `request`, `stop`, `start`, `mend`.
import assert from "node:assert/strict";
import { show, signIn, withBrowser } from "./browser.mjs";

const [base, user, secret, configUrl, clientId, clientSecret] = process.argv.slice(2);
const tell = (word) => new Promise((resolve) => {
  process.stdin.once("data", resolve);
  console.log(word);
});

/** Has requests sent until `row` is there: a stream that has just begun may not have heard the first. */
async function requested(row) {
  for (let i = 0; i < 60; i++) {
    await tell("request");
    if (await row.waitFor({ timeout: 2000 }).then(() => true, () => false)) return;
  }
  assert.fail("no request is in the trace");
}

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  const button = (name) => page.getByRole("button", { name, exact: true });
  await signIn(page, base, user, secret);

  // The trace: a request that another client sends, with the parts of its time; a filter; over a restart of the server.
  await show(page, base, "/trace");
  await page.getByText("Live", { exact: true }).waitFor();
  const row = page.getByRole("button", { name: /GetObject \/watched\/first/ });
  await requested(row.first());
  await row.first().click();
  const details = page.getByRole("dialog");
  for (const part of ["Client", "Drives", "Server", "Answer"]) await details.getByText(part, { exact: true }).first().waitFor();
  await details.getByRole("link", { name: /^[0-9A-F]+$/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("switch", { name: "Errors only" }).click();
  await button("Clear").click();
  await page.getByText("Live", { exact: true }).waitFor();
  const missing = page.getByRole("button", { name: /404/ });
  await requested(missing.first());
  assert.equal(await page.getByRole("button", { name: /GetObject \/watched\/first/ }).count(), 0, "the filter lets all through");
  await tell("stop");
  await page.getByText(/connection broke off/).waitFor();
  await tell("start");
  await page.getByText("Live", { exact: true }).waitFor({ timeout: 180_000 });
  await page.getByText(/connection broke off/).waitFor({ state: "detached" });
  // What came before the server stopped is still shown.
  await button("Clear").click();
  await missing.first().waitFor({ state: "detached" });
  await requested(missing.first());
  await button("Pause").click();
  await page.getByText("Paused", { exact: true }).waitFor();

  // The log has what the server said at its start.
  await show(page, base, "/logs");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByRole("list", { name: /Lines of the log/ }).getByRole("listitem").first().waitFor();
  await page.getByLabel("Find in these lines").fill("no line has this text");
  await page.getByText("Nothing matches.").waitFor();

  // A target that refused an event: its dead letter is sent again after the target was mended.
  await show(page, base, "/targets");
  await page.getByRole("heading", { name: "1:webhook" }).waitFor();
  await page.getByRole("cell", { name: /watched\/refused/ }).waitFor();
  await tell("mend");
  await button("Send again").click();
  await page.getByRole("dialog").getByRole("button", { name: "Send again" }).click();
  await page.getByText("1 event is sent again.").waitFor();
  await page.getByRole("heading", { name: "No dead letters" }).waitFor();

  // A key, and a new version of it.
  await show(page, base, "/encryption");
  await page.getByRole("heading", { name: "Encryption works" }).waitFor();
  await button("Create key").click();
  await page.getByRole("dialog").getByLabel("Name").fill("of-the-console");
  await page.getByRole("dialog").getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("cell", { name: "of-the-console", exact: true }).waitFor();
  await button("Actions for of-the-console").click();
  await page.getByRole("menuitem", { name: "New version" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "New version" }).click();
  await page.getByText("of-the-console has version 2 now.").waitFor();

  // A provider: refused while it does not answer, then added, disabled, removed. Its secret is not shown again.
  await show(page, base, "/providers");
  await button("Add provider").first().click();
  const form = page.getByRole("dialog", { name: "Add provider" });
  await form.getByLabel("Name", { exact: true }).fill("corp");
  await form.getByLabel("config_url").fill("http://127.0.0.1:1/.well-known/openid-configuration");
  await form.getByLabel("client_id").fill(clientId);
  await form.getByLabel("client_secret").fill(clientSecret);
  await form.getByRole("button", { name: "Check and add" }).click();
  await form.getByRole("alert").waitFor();
  await form.getByLabel("config_url").fill(configUrl);
  await form.getByLabel("display_name").fill("The Corporation");
  await form.getByRole("button", { name: "Check and add" }).click();
  await page.getByRole("heading", { name: /The Corporation/ }).waitFor();
  await page.getByText("(kept secret)").waitFor();
  assert.ok(!(await page.content()).includes(clientSecret), "the secret is on the page");
  await button("Actions for corp").click();
  await page.getByRole("menuitem", { name: "Disable" }).click();
  await page.getByRole("heading", { name: /The Corporation/ }).getByText("Disabled").waitFor();
  await button("Actions for corp").click();
  await page.getByRole("menuitem", { name: "Edit" }).click();
  await page.getByRole("dialog").getByLabel("display_name").fill("The Company");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: /The Company/ }).waitFor();
  await button("Actions for corp").click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByLabel(/Type/).fill("corp");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No identity providers" }).waitFor();
});
console.log("done");
process.exit(0);
