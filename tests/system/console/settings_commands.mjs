// Each part of a bucket's settings shows its command before it is saved: the one that the screen "Commands" has afterwards.
//
//   node settings_commands.mjs BASE USER SECRET [FOLDER]
//
// Of the bucket `shown`, which has object lock and an object `held`: changes each part, then removes what can be removed. Prints
// {"violations", "shown": what was shown before each act, in order, "acts": what the screen has, the oldest first}. Saves pictures where a folder is named.
import assert from "node:assert/strict";
import { settled, show, signIn, theme, violations, withBrowser } from "./browser.mjs";

const [base, user, secret, folder] = process.argv.slice(2);
const out = { violations: [], shown: [] };
const ROUTE = "/buckets/shown/settings";

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  const part = (title) => page.locator("section").filter({ has: page.getByRole("heading", { name: title, exact: true, level: 2 }) });
  const dialog = page.getByRole("dialog");

  async function shown(details) {
    if (!(await details.evaluate((d) => d.open))) await details.getByText("Show the command").click();
    out.shown.push({ ashlar: await details.getByLabel("ashlar", { exact: true }).innerText(), curl: await details.getByLabel("curl", { exact: true }).innerText() });
  }
  /** Opens what `where` shows, keeps it, and saves with `button`. */
  async function keep(where, button, saved = () => page.getByText("Saved.").first().waitFor()) {
    await shown(where.locator("details").last());
    await where.getByRole("button", { name: button, exact: true }).click();
    await saved();
    await page.getByText("Saved.").first().waitFor({ state: "detached" });
  }
  /** A part without a change has nothing to show. */
  const quiet = async (title) => assert.equal(await part(title).getByText("Show the command").count(), 0, title);

  await signIn(page, base, user, secret);
  await show(page, base, ROUTE);
  for (const title of ["Object lock", "Quota", "Encryption", "Bucket policy", "Website", "Access log", "Tags"]) await quiet(title);

  await part("Object lock").getByLabel("Retention of new objects").selectOption("GOVERNANCE");
  await part("Object lock").getByLabel("Days").fill("3");
  await keep(part("Object lock"), "Save");
  await quiet("Object lock");
  await part("Quota").getByLabel("New limit").fill("7");
  await keep(part("Quota"), "Set quota");
  await part("Encryption").getByLabel("Default encryption").selectOption("AES256");
  await keep(part("Encryption"), "Save");
  await part("Lifecycle").getByRole("button", { name: "Add rule" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("old");
  await dialog.getByLabel("Delete objects after").fill("9");
  await keep(dialog, "Create");
  await part("Cross-origin access (CORS)").getByRole("button", { name: "Add rule" }).click();
  await dialog.getByLabel("Origins").fill("https://app.example.com");
  await keep(dialog, "Save");
  await part("Website").getByLabel("What it serves").selectOption("pages");
  await part("Website").getByLabel("Error document").fill("404.html");
  await keep(part("Website"), "Save");
  await part("Access log").getByLabel("Deliver to bucket").fill("shown");
  await keep(part("Access log"), "Save");
  await part("Tags").getByRole("button", { name: "Add tag" }).click();
  await part("Tags").getByLabel("Name of tag 1").fill("team");
  await part("Tags").getByLabel("Value of tag 1").fill("a + b=1");
  await keep(part("Tags"), "Save");
  await part("Bucket policy").getByRole("button", { name: "Insert an example: everybody may download" }).click();
  await part("Bucket policy").getByText("Show the command").click();
  await part("Bucket policy").getByLabel("ashlar", { exact: true }).getByText("anonymous set-json").waitFor();
  out.violations.push(...await violations(page));
  await part("Bucket policy").getByRole("button", { name: "Save", exact: true }).click();
  await keep(dialog, "Save and open it");

  await show(page, base, "/buckets/shown?object=held");
  await dialog.getByRole("tab", { name: "Protection" }).click();
  for (const checked of [true, false]) {
    await shown(dialog.locator("details").first());
    await dialog.getByRole("switch", { name: "Legal hold" }).click();
    await dialog.getByRole("switch", { name: "Legal hold", checked }).waitFor();
  }
  await dialog.getByLabel("Retention", { exact: true }).selectOption("GOVERNANCE");
  await dialog.getByLabel("Last day").fill("2090-12-31");
  await keep(dialog, "Save", () => dialog.getByText(/Governance until/).waitFor());
  await page.keyboard.press("Escape");

  // What is taken away is asked for, and can be left.
  await show(page, base, ROUTE);
  for (const [title, button] of [["Lifecycle", "Remove rule"], ["Cross-origin access (CORS)", "Remove rule"]]) {
    await part(title).getByRole("button", { name: "Delete", exact: true }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await part(title).getByRole("button", { name: "Delete", exact: true }).click();
    if (title === "Lifecycle") out.violations.push(...await violations(page));
    await keep(dialog, button);
  }
  for (const [title, button] of [["Quota", "Remove quota"], ["Bucket policy", "Remove policy"], ["Access log", "Stop logging"]]) {
    await part(title).getByRole("button", { name: button, exact: true }).click();
    await keep(dialog, button);
  }

  await page.getByRole("link", { name: "Commands", exact: true }).click();
  await page.getByRole("heading", { name: "Commands", level: 1 }).waitFor();
  const acts = await Promise.all(["ashlar", "curl"].map((p) => page.getByRole("main").getByLabel(p, { exact: true }).allInnerTexts()));
  out.acts = acts[0].map((ashlar, i) => ({ ashlar, curl: acts[1][i] })).reverse();

  if (folder) {
    for (const [width, height] of [[1440, 900], [390, 844]]) {
      for (const look of ["light", "dark"]) {
        await page.setViewportSize({ width, height });
        await theme(page, look);
        await show(page, base, ROUTE);
        await part("Access log").getByLabel("Deliver to bucket").fill("shown");
        await part("Access log").getByText("Show the command").click();
        await part("Quota").getByLabel("New limit").fill("7");
        await part("Quota").getByText("Show the command").click();
        await part("Encryption").getByLabel("Default encryption").selectOption("");
        await part("Quota").getByLabel("curl", { exact: true }).waitFor();
        await part("Access log").getByLabel("curl", { exact: true }).waitFor();
        await page.screenshot({ path: `${folder}/settings-${look}-${width}.png`, fullPage: true });
        await show(page, base, "/buckets/shown?object=held");
        await dialog.getByRole("tab", { name: "Protection" }).click();
        await dialog.getByLabel("Last day").fill("2091-12-31");
        await dialog.getByText("Show the command").last().click();
        await dialog.getByLabel("curl", { exact: true }).waitFor();
        await page.screenshot({ path: `${folder}/protection-${look}-${width}.png` });
        await page.keyboard.press("Escape");
      }
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  }
});
console.log(JSON.stringify(out));
