// The table of buckets: pages, order and search of the server; and the whole list of a person who may not see sizes.
//
//   node buckets.mjs BASE USER SECRET OTHER SECRET_OF_OTHER
//
// There are 1,130 buckets, `page-0000` to `page-1129`; only `page-0777` has an object. The other person may list all of them.
import assert from "node:assert/strict";
import { show, signIn, withBrowser } from "./browser.mjs";

const [base, user, secret, other, secretOfOther] = process.argv.slice(2);

const linksOf = async (page) => page.getByRole("table").getByRole("link").allTextContents();
const search = (page) => page.getByRole("searchbox", { name: "Find a bucket" });

await withBrowser({ viewport: { width: 1440, height: 900 } }, async (context) => {
  const page = await context.newPage();
  const sizes = [];
  page.on("response", async (r) => r.url().includes("/admin/usage") && sizes.push((await r.body().catch(() => "")).length));
  await signIn(page, base, user, secret);
  await show(page, base, "/buckets");
  await page.getByText("1,130 of 1,130").waitFor();
  let links = await linksOf(page);
  assert.deepEqual([links.length, links[0], links.at(-1)], [100, "page-0000", "page-0099"]);
  await page.getByRole("button", { name: "Next", exact: true }).click();
  await page.getByText("Page 2 of 12").waitFor();
  await page.getByRole("link", { name: "page-0100" }).waitFor();
  // Another order begins on the first page.
  await page.getByRole("button", { name: "Size", exact: true }).click();
  await page.getByText("Page 1 of 12").waitFor();
  await page.getByRole("link", { name: "page-0777" }).waitFor();
  assert.equal((await linksOf(page))[0], "page-0777");
  await page.getByRole("button", { name: "Name", exact: true }).click();
  await page.getByRole("button", { name: "Name", exact: true }).click();
  await page.getByRole("link", { name: "page-1129" }).waitFor();
  assert.equal((await linksOf(page))[0], "page-1129");
  await search(page).fill("112");
  await page.getByText("12 of 1,130").waitFor();
  links = await linksOf(page);
  assert.equal(links.length, 12);
  assert.ok(links.every((name) => name.includes("112")), links);
  await search(page).fill("nothing like this");
  await page.getByText("Nothing matches.").waitFor();
  // One for each order and search that was waited for; more if the one before was answered before it was left.
  assert.ok(sizes.length >= 4 && Math.max(...sizes) < 100_000, `answers of ${sizes} bytes`);
});

await withBrowser({ viewport: { width: 1440, height: 900 } }, async (context) => {
  const page = await context.newPage();
  await page.goto(`${base}/console/`);
  await page.getByLabel("Access key").fill(other);
  await page.getByLabel("Secret key").fill(secretOfOther);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("button", { name: "Sign in", exact: true }).waitFor({ state: "hidden" });
  await show(page, base, "/buckets");
  await page.getByText("1,130 of 1,130").waitFor();
  await page.getByText("Sizes need a policy").waitFor();
  await search(page).fill("page-1129");
  await page.getByRole("link", { name: "page-1129" }).waitFor();
  assert.deepEqual(await linksOf(page), ["page-1129"]);
});
console.log("{}");
process.exit(0);
