// Sign-in with an OpenID Connect provider and with a directory, in a browser.
//
//   node sign_in.mjs BASE PROVIDER USER PASSWORD [FOLDER]
//
// PROVIDER is the display name of the provider; USER and PASSWORD are of the directory. The provider is of another site
// than BASE. Prints one line of JSON: {"key": {"access", "secret"}, "violations": [...]}.
import assert from "node:assert/strict";
import { settled, show, theme, violations, withBrowser } from "./browser.mjs";

const [base, provider, user, password, folder] = process.argv.slice(2);
const out = { violations: [] };
const button = (page, name) => page.getByRole("button", { name, exact: true });
const isSignIn = (page) => page.getByRole("heading", { name: "Sign in to Ashlar" }).waitFor();

/** Goes to the provider and signs in there. */
async function atProvider(page, login) {
  await button(page, `Continue with ${provider}`).click();
  await page.locator('input[name="login"]').fill(login);
  await page.locator('input[name="password"]').fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
}

/** The address to which the provider sends a browser back, where the page's code does not complete the sign-in. */
async function caught(context, login) {
  const page = await context.newPage();
  await page.route("**/console/session", (route) => (route.request().method() === "POST" ? route.abort() : route.continue()));
  await page.goto(`${base}/console/`);
  const back = page.waitForRequest(/\/oauth_callback\?/);
  await atProvider(page, login);
  const url = (await back).url();
  await page.getByRole("alert").waitFor();
  await page.close();
  return url;
}

await withBrowser({ viewport: { width: 1280, height: 800 } }, async (context) => {
  const page = await context.newPage();
  // The screen that somebody wanted is shown after the sign-in; the address keeps nothing of it.
  await page.goto(`${base}/console/#/keys`);
  await isSignIn(page);
  await atProvider(page, "alice");
  await page.getByRole("heading", { name: "Access keys", level: 1 }).waitFor();
  assert.equal(page.url(), `${base}/console/#/keys`);
  // The session, and for some minutes that the sign-in is new.
  const cookies = (await context.cookies(`${base}/console/`)).sort((a, b) => a.name.localeCompare(b.name));
  assert.deepEqual(cookies.map((c) => [c.name, c.httpOnly, c.sameSite, c.path]), ["ashlar-console", "ashlar-console-confirmed"].map((name) => [name, true, "Strict", "/console"]));
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(!/alice|code|state|token/i.test(stored), `the storage has ${stored}`);

  // A key of their own, for which nobody has a secret to confirm with.
  await button(page, "Create access key").first().click();
  await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("of alice");
  await page.getByRole("dialog").getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("dialog", { name: "The access key is created" }).waitFor();
  out.key = {
    access: await page.getByRole("dialog").getByLabel("Access key", { exact: true }).innerText(),
    secret: await page.getByRole("dialog").getByLabel("Secret key", { exact: true }).innerText(),
  };
  await button(page, "I have kept it").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await isSignIn(page);
  assert.deepEqual(await context.cookies(`${base}/console/`), [], "a cookie is left");

  // The provider would let them in again: the page offers to sign out there too, and comes back.
  await page.getByText(`still signed in at ${provider}`).waitFor();
  for (const v of await violations(page)) out.violations.push(`signed out: ${v}`);
  if (folder) await page.screenshot({ path: `${folder}/signed-out-light-1280.png` });
  await page.getByRole("link", { name: "Sign out there too" }).click();
  await page.getByRole("button", { name: "Yes, sign me out" }).click();
  await page.waitForURL(`${base}/console/`);
  await isSignIn(page);
  await button(page, `Continue with ${provider}`).click();
  await page.locator('input[name="login"]').waitFor();

  // The provider's own words about an error are not shown: anybody can write them.
  await page.goto(`${base}/oauth_callback?error=access_denied&state=x&error_description=Call+us+at+evil`);
  await page.getByRole("alert").getByText("refused the sign-in").waitFor();
  assert.ok(!(await page.locator("body").innerText()).includes("evil"));
  await page.goto(`${base}/oauth_callback?error=${encodeURIComponent("<b>evil</b>")}&state=x`);
  await page.getByRole("alert").getByText("ended the sign-in").waitFor();
  assert.ok(!(await page.locator("body").innerText()).includes("evil"));

  // A directory.
  await button(page, "Directory").click();
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password").fill("not-the-password");
  await button(page, "Sign in").click();
  await page.getByRole("alert").getByText("does not know this name with this password").waitFor();
  await page.getByLabel("Password").fill(password);
  await button(page, "Sign in").click();
  await page.getByText("From an identity provider").waitFor();
  await show(page, base, "/buckets");
  await page.getByRole("button", { name: "Sign out" }).click();
  await isSignIn(page);
});

// An address that the provider made for one browser is worth nothing in another, and in its own it works once.
await withBrowser({ viewport: { width: 1280, height: 800 } }, async (attacker) => {
  const url = await caught(attacker, "mallory");
  await withBrowser({ viewport: { width: 1280, height: 800 } }, async (victim) => {
    const page = await victim.newPage();
    await page.goto(url);
    await page.getByRole("alert").getByText("not begun in this browser").waitFor();
    await isSignIn(page);
    assert.deepEqual(await victim.cookies(), [], "the victim got a cookie");
  });
  const page = await attacker.newPage();
  await page.goto(url);
  await page.getByText("From an identity provider").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await isSignIn(page);
  await page.goto(url);
  await page.getByRole("alert").getByText("not begun in this browser").waitFor();
  await isSignIn(page);
});

// The page with all ways to sign in.
for (const size of [{ name: "1440", width: 1440, height: 900 }, { name: "390", width: 390, height: 844 }]) {
  await withBrowser({ viewport: size }, async (context) => {
    const page = await context.newPage();
    await page.goto(`${base}/console/`);
    for (const name of ["light", "dark"]) {
      await theme(page, name);
      await button(page, `Continue with ${provider}`).waitFor();
      await settled(page);
      for (const v of await violations(page)) out.violations.push(`${name} ${size.name}: ${v}`);
      if (folder) await page.screenshot({ path: `${folder}/sign-in-${name}-${size.name}.png` });
    }
  });
}
console.log(JSON.stringify(out));
