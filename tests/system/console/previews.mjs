// PDF documents and Parquet files in the preview.
//
//   node previews.mjs BASE USER SECRET BUCKET [FOLDER]
//
// Saves pictures where a folder is named. Prints {"violations", "errors", "fetched": bytes that were fetched of large.pdf, "rows": the rows
// of table.parquet on its second page}.
import assert from "node:assert/strict";
import { settled, show, signIn, theme, violations, withBrowser } from "./browser.mjs";

const [base, user, secret, bucket, folder] = process.argv.slice(2);
const out = { violations: [], errors: [], fetched: 0 };

await withBrowser({ viewport: { width: 1440, height: 900 } }, async (context) => {
  const page = await context.newPage();
  page.on("pageerror", (e) => out.errors.push(`${e}`));
  page.on("console", (m) => m.type() === "error" && !/status of 40[0-9]/.test(m.text()) && out.errors.push(m.text()));
  page.on("dialog", (d) => out.errors.push(`a dialog of the document: ${d.message()}`) && d.dismiss());
  page.on("response", async (r) => {
    if (r.url().includes("large.pdf") && r.status() === 206) out.fetched += Number(r.headers()["content-length"]);
  });
  // One document as if it were too long to be opened: its parts are not even asked for.
  await page.addInitScript(() => {
    const real = window.fetch;
    window.fetch = (url, init) => (/huge\.pdf/.test(url) && init?.method === "HEAD" ? Promise.resolve(new Response(null, { headers: { "content-type": "application/pdf", "content-length": "300000000", "last-modified": "Fri, 27 Nov 2026 09:00:00 GMT", etag: '"x"' } })) : real(url, init));
  });
  await signIn(page, base, user, secret);
  const dialog = page.getByRole("dialog");
  const preview = async (name) => {
    await show(page, base, `/buckets/${bucket}`);
    await show(page, base, `/buckets/${bucket}?object=${name}`);
    await dialog.getByRole("heading", { name }).waitFor();
    await dialog.getByRole("tab").nth(1).click();
  };
  const check = async (name) => {
    for (const v of await violations(page)) out.violations.push(`${name}: ${v}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) out.violations.push(`${name}: scrolls sideways by ${wide} pixels`);
    if (folder) await page.screenshot({ path: `${folder}/${name}.png` });
  };
  const drawn = (number, name = "large.pdf") => dialog.getByRole("img", { name: `Page ${number} of 3 of ${name}` }).waitFor();
  /** How dark the middle of the picture on a page is, 0 to 255. */
  const darkness = () => dialog.locator("canvas").evaluate((c) => 255 - c.getContext("2d").getImageData(c.width / 2, c.height / 2, 1, 1).data[0]);

  // A document of which most is never fetched.
  await preview("large.pdf");
  await drawn(1);
  await dialog.getByText("The first page").waitFor({ state: "attached" });
  assert.equal(await dialog.locator("canvas").count(), 1);
  assert.equal(await dialog.locator('a[href^="http"]').count(), 0);
  await check("pdf-light-1440");
  await dialog.getByRole("button", { name: "Next page" }).click();
  await drawn(2);
  assert.ok(await darkness() > 200, "the fax is not drawn");
  const width = await dialog.locator("canvas").evaluate((c) => c.clientWidth);
  await dialog.getByRole("region").press("+");
  await page.waitForFunction((before) => document.querySelector("canvas").clientWidth > 1.2 * before, width);
  await dialog.getByRole("button", { name: /fit the width/ }).click();
  await page.waitForFunction((before) => document.querySelector("canvas").clientWidth === before, width);
  await dialog.getByRole("region").press("PageDown");
  await drawn(3);
  await dialog.getByText("Pictures are missing here").waitFor();
  await dialog.getByRole("region").press("Home");
  await drawn(1);
  await dialog.getByLabel("Page", { exact: true }).fill("2");
  await dialog.getByLabel("Page", { exact: true }).press("Enter");
  await drawn(2);
  assert.equal(await dialog.getByText("Pictures are missing here").count(), 0);

  for (const [name, text] of [["broken.pdf", /not a PDF document that can be read/], ["other.parquet", /cannot be read: it is broken or encrypted/]]) {
    await preview(name);
    await dialog.getByText(text).waitFor();
    await dialog.getByRole("tabpanel").getByRole("button", { name: "Download" }).waitFor();
  }
  // A document with a password, which is asked for until it fits.
  await preview("locked.pdf");
  await dialog.getByText("This document is encrypted with a password.").waitFor();
  await dialog.getByLabel("Password").fill("of somebody else");
  await dialog.getByRole("button", { name: "Open", exact: true }).click();
  await dialog.getByText("This is not the password.").waitFor();
  await check("pdf-locked-light-1440");
  assert.ok(await dialog.getByRole("tabpanel").getByRole("button", { name: "Download" }).isVisible());
  await dialog.getByLabel("Password").fill("of the house");
  await dialog.getByLabel("Password").press("Enter");
  await drawn(1, "locked.pdf");
  await dialog.getByText("The first page").waitFor({ state: "attached" });
  await dialog.getByRole("button", { name: "Next page" }).click();
  await drawn(2, "locked.pdf");
  assert.ok(await darkness() > 200, "the encrypted fax is not drawn");
  await preview("huge.pdf");
  await dialog.getByText(/more than 256.MiB are not opened/).waitFor();

  // Values, and the compressions that cannot be read.
  await preview("table.parquet");
  const values = dialog.getByRole("region", { name: "Values" });
  await values.getByRole("cell", { name: "2026-01-02 03:04:05.123456Z" }).first().waitFor();
  await check("parquet-light-1440");
  await dialog.getByRole("button", { name: "Next", exact: true }).click();
  await dialog.getByText("Rows 101 to 150 of 150").waitFor();
  out.rows = await values.locator("tbody tr").evaluateAll((rows) => rows.map((r) => [...r.querySelectorAll("td")].map((d) => d.innerText)));
  await preview("mixed.parquet");
  await dialog.getByText("Values not shown of: n. The compression ZSTD is not supported here; SNAPPY and GZIP are.").waitFor();
  await values.getByRole("cell", { name: "text 0" }).waitFor();

  // Both on a phone, dark, and in German.
  await page.setViewportSize({ width: 390, height: 844 });
  await theme(page, "dark");
  await settled(page);
  await preview("large.pdf");
  await drawn(1);
  await check("pdf-dark-390");
  await preview("table.parquet");
  await values.getByRole("cell").first().waitFor();
  await check("parquet-dark-390");
  await page.evaluate(() => localStorage.setItem("ashlar.language", "de"));
  await page.reload();
  await dialog.getByRole("tab", { name: "Vorschau" }).click();
  await dialog.getByText("Zeilen 1 bis 100 von 150").waitFor();
});
console.log(JSON.stringify(out));
