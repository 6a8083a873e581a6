// Access keys in the console: one for oneself, after the secret was entered again, and one for another user.
//
//   node keys.mjs BASE USER SECRET OTHER
//
// Prints one line of JSON: {"own": {"access", "secret", "rotated"}, "other": {"access", "secret"}}; a key `own-deleted` is
// made and deleted.
import assert from "node:assert/strict";
import { show, signIn, withBrowser } from "./browser.mjs";

const [base, user, secret, other] = process.argv.slice(2);
const out = {};

await withBrowser({ viewport: { width: 1280, height: 800 } }, async (context) => {
  const page = await context.newPage();
  const button = (name) => page.getByRole("button", { name, exact: true });
  const dialog = (name) => page.getByRole("dialog", { name });
  const shown = async (name) => {
    await dialog(name).waitFor();
    const made = {
      access: await dialog(name).getByLabel("Access key", { exact: true }).innerText(),
      secret: await dialog(name).getByLabel("Secret key", { exact: true }).innerText(),
    };
    await button("I have kept it").click();
    return made;
  };
  const choose = async (key, item) => {
    await button(`Actions for ${key}`).click();
    await page.getByRole("menuitem", { name: item }).click();
  };
  await signIn(page, base, user, secret);
  await show(page, base, "/keys");

  // One's own key: a wrong secret is refused, the right one is asked for once.
  await button("Create access key").first().click();
  await dialog("Create access key").getByLabel("Name", { exact: true }).fill("backup");
  await dialog("Create access key").getByLabel("Expires").selectOption({ label: "In 30 days" });
  await dialog("Create access key").getByRole("button", { name: "Create", exact: true }).click();
  const confirm = dialog("Confirm that it is you");
  await confirm.getByLabel("Secret key").fill("not-the-secret");
  await confirm.getByRole("button", { name: "Confirm" }).click();
  await confirm.getByRole("alert").getByText(/secret key is wrong/).waitFor();
  await confirm.getByLabel("Secret key").fill(secret);
  await page.keyboard.press("Enter");
  out.own = await shown("The access key is created");
  const confirmed = (await context.cookies(`${base}/console/`)).find((c) => c.name === "ashlar-console-confirmed");
  assert.ok(confirmed.httpOnly && confirmed.sameSite === "Strict");

  // A key of another user, with a narrower policy.
  await button("Create access key").first().click();
  await dialog("Create access key").getByLabel("User", { exact: true }).fill(other);
  await dialog("Create access key").getByLabel("Restriction").fill(JSON.stringify({ Version: "2012-10-17", Statement: [{ Effect: "Allow", Action: "s3:ListAllMyBuckets", Resource: "*" }] }));
  await dialog("Create access key").getByRole("button", { name: "Create", exact: true }).click();
  out.other = await shown("The access key is created");

  // A new secret, disabled, enabled, deleted.
  await choose(out.own.access, "New secret");
  await dialog(/Make a new secret/).getByRole("button", { name: "New secret" }).click();
  out.own.rotated = (await shown(`New secret of ${out.own.access}`)).secret;
  const row = page.getByRole("row").filter({ hasText: out.own.access });
  await choose(out.own.access, "Disable");
  await row.getByText("Disabled").waitFor();
  await choose(out.own.access, "Enable");
  await row.getByText("Enabled").waitFor();
  await button("Create access key").first().click();
  await dialog("Create access key").getByLabel("Name", { exact: true }).fill("short");
  await dialog("Create access key").getByRole("button", { name: "Create", exact: true }).click();
  const short = await shown("The access key is created");
  await choose(short.access, "Delete");
  await dialog(/Delete the access key/).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("row").filter({ hasText: short.access }).waitFor({ state: "detached" });
  out.deleted = short;
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Ashlar" }).waitFor();
  assert.deepEqual(await context.cookies(`${base}/console/`), [], "a cookie is left");
});
console.log(JSON.stringify(out));
