// An administrator tries sign-ins with an OpenID Connect provider and with a directory, and stays who they are.
//
//   node try_sign_in.mjs BASE USER SECRET PROVIDER LDAP_USER LDAP_PASSWORD [FOLDER]
//
// PROVIDER is the name for the person, of another site than BASE. Prints one line of JSON: {"violations": [...]}.
import assert from "node:assert/strict";
import { settled, show, signIn, violations, withBrowser } from "./browser.mjs";

const [base, user, secret, provider, ldapUser, ldapPassword, folder] = process.argv.slice(2);
const out = { violations: [] };

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  const button = (name) => page.getByRole("button", { name, exact: true });
  const dialog = page.getByRole("dialog", { name: /Try a sign-in/ });
  await signIn(page, base, user, secret);

  const atProvider = async (login, go) => {
    await dialog.getByRole("button", { name: go }).click();
    await page.locator('input[name="login"]').fill(login);
    await page.locator('input[name="password"]').fill("any");
    await page.getByRole("button", { name: "Sign-in" }).click();
  };
  await show(page, base, "/providers");
  await button("Actions for house").click();
  await page.getByRole("menuitem", { name: "Try a sign-in" }).click();
  await atProvider("alice", `Go to ${provider}`);
  await dialog.getByText("They could sign in", { exact: true }).waitFor();
  await dialog.getByText("jwt:sub").waitFor();
  await dialog.getByText("readwrite", { exact: true }).first().waitFor();
  assert.equal(page.url(), `${base}/console/#/providers`, "the address keeps something");
  await settled(page);
  for (const v of await violations(page)) out.violations.push(v);
  if (folder) await page.screenshot({ path: `${folder}/try-sign-in-light-1280.png` });
  await page.keyboard.press("Escape");
  assert.ok((await page.getByRole("complementary").innerText()).includes(user), "the administrator is somebody else now");

  // Known there, with no policy here. The provider remembers alice in this browser.
  await context.clearCookies({ domain: "127.0.0.1" });
  await button("Actions for house").click();
  await page.getByRole("menuitem", { name: "Try a sign-in" }).click();
  await atProvider("nobody", `Go to ${provider}`);
  await dialog.getByText("They could not sign in", { exact: true }).waitFor();
  await page.keyboard.press("Escape");

  // The directory: why it refuses, and whom it knows.
  await button("Actions for _").click();
  await page.getByRole("menuitem", { name: "Try a sign-in" }).click();
  await dialog.getByLabel("User name").fill(ldapUser);
  await dialog.getByLabel("Password").fill("not-the-password");
  await dialog.getByRole("button", { name: "Try a sign-in" }).click();
  await dialog.getByText("Refused", { exact: true }).waitFor();
  await dialog.getByLabel("Password").fill(ldapPassword);
  await dialog.getByRole("button", { name: "Try a sign-in" }).click();
  await dialog.getByText("They could sign in", { exact: true }).waitFor();
  assert.ok(!(await page.content()).includes(ldapPassword), "the password is on the page");
});
console.log(JSON.stringify(out));
