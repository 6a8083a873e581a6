// Who can reach a bucket, on the page of its settings; and errors in German.
//
//   node reach.mjs BASE USER SECRET BUCKET KEY
//
// Prints {"rows": the table, with `true` where it says yes, "violations"}.
import { show, signIn, violations, withBrowser } from "./browser.mjs";

const [base, user, secret, bucket, key] = process.argv.slice(2);
const out = {};

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  await signIn(page, base, user, secret);
  await show(page, base, `/buckets/${bucket}/settings`);
  const table = page.getByRole("region", { name: "Who can reach this bucket" });
  await page.getByLabel("For an object with this key").fill(key);
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await table.waitFor();
  out.rows = Object.fromEntries(await table.locator("tbody tr").evaluateAll((rows) => rows.map((r) => [r.querySelector("th").innerText, [...r.querySelectorAll("td")].map((d) => d.innerText.trim() === "yes")])));
  await page.getByText("1 disabled, who reach nothing").waitFor();
  out.violations = await violations(page);

  // An answer leads to its statements.
  await table.getByRole("row", { name: /reader/ }).getByRole("link").nth(1).click();
  await page.getByRole("button", { name: "Explain" }).nth(1).click();
  await page.getByText("Allowed", { exact: true }).waitFor();

  // What the server says, in German, with its own words behind.
  await page.getByLabel("Language").selectOption("de");
  await page.goto(`${base}/console/#/policies/no-such-policy`);
  await page.getByRole("alert").getByText("Das gibt es nicht oder nicht mehr.").waitFor();
  await page.getByRole("alert").getByText(/Der Server meldet: .*no-such-policy/).waitFor();
});
console.log(JSON.stringify(out));
