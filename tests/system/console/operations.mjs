// What operators do in the console: search the audit log.
//
//   node operations.mjs BASE USER SECRET
//
// Prints one line of JSON about what it saw.
import assert from "node:assert/strict";
import { settled, show, signIn, withBrowser } from "./browser.mjs";

const [base, user, secret] = process.argv.slice(2);
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
  await record.waitFor();
  assert.equal(await page.getByRole("button", { name: /PutObject/ }).count(), 0, "the conditions let all through");
  assert.match(page.url(), /user=carol/);
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
});
console.log(JSON.stringify(out));
