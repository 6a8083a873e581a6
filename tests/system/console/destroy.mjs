// What cannot be had back asks for the secret key: a user and a bucket are deleted, with one confirmation.
//
//   node destroy.mjs BASE USER SECRET VICTIM BUCKET
//
// Prints {"asked": how often the secret was asked for}.
import { signIn, withBrowser } from "./browser.mjs";

const [base, user, secret, victim, bucket] = process.argv.slice(2);
const out = { asked: 0 };

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  await signIn(page, base, user, secret);
  await page.getByRole("link", { name: "Users", exact: true }).click();
  const remove = async () => {
    await page.getByRole("button", { name: `Actions for ${victim}` }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("dialog", { name: "Confirm that it is you" }).waitFor();
  };
  // Whoever does not know the secret deletes nothing.
  const ask = page.getByRole("dialog", { name: "Confirm that it is you" });
  await remove();
  await ask.getByLabel("Secret key").fill("not-the-secret");
  await ask.getByRole("button", { name: "Confirm", exact: true }).click();
  await ask.getByRole("alert").waitFor();
  await ask.getByRole("button", { name: "Cancel", exact: true }).click();
  await ask.waitFor({ state: "detached" });
  await page.getByRole("dialog").getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: victim, exact: true }).waitFor();

  await remove();
  out.asked++;
  await ask.getByLabel("Secret key").fill(secret);
  await ask.getByRole("button", { name: "Confirm", exact: true }).click();
  await page.getByText(`${victim} is deleted.`).waitFor();

  // It is good for some minutes on this page.
  await page.getByRole("link", { name: "Buckets", exact: true }).click();
  await page.getByRole("button", { name: `Actions for ${bucket}` }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByLabel(/Type/).fill(bucket);
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await Promise.race([
    page.getByText(`${bucket} is deleted.`).waitFor(),
    ask.waitFor().then(() => { out.asked++; }),
  ]);
});
console.log(JSON.stringify(out));
process.exit(0);
