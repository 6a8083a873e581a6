// Sign-in with the certificate that a browser shows.
//
//   node certificate.mjs BASE CRT KEY CRT-WITHOUT-POLICY KEY-WITHOUT-POLICY [FOLDER]
//
// The common name of CRT is `readonly`. Prints {"violations"}; saves pictures where a folder is named.
import assert from "node:assert/strict";
import { settled, show, theme, violations, withBrowser } from "./browser.mjs";

const [base, certPath, keyPath, otherCert, otherKey, folder] = process.argv.slice(2);
const out = { violations: [] };
const options = (pair) => ({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: true, ...(pair ? { clientCertificates: [{ origin: base, certPath: pair[0], keyPath: pair[1] }] } : {}) });
const certificate = (page) => page.getByRole("button", { name: "Continue with a certificate", exact: true });

await withBrowser(options([certPath, keyPath]), async (context) => {
  const page = await context.newPage();
  await page.goto(`${base}/console/`);
  await certificate(page).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.getByText("certificate/readonly").first().waitFor();
  await show(page, base, "/buckets");
  out.violations.push(...await violations(page));
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Ashlar" }).waitFor();
  assert.deepEqual(await context.cookies(`${base}/console/`), [], "a cookie is left");
});

await withBrowser(options([otherCert, otherKey]), async (context) => {
  const page = await context.newPage();
  await page.goto(`${base}/console/`);
  await certificate(page).click();
  await page.getByRole("alert").getByText("No policy is attached to").waitFor();
  assert.deepEqual(await context.cookies(`${base}/console/`), []);
});

await withBrowser(options(null), async (context) => {
  const page = await context.newPage();
  await page.goto(`${base}/console/`);
  await certificate(page).waitFor();
  assert.equal(await certificate(page).getAttribute("aria-disabled"), "true");
  await page.getByText("This browser showed no certificate when it connected.").first().waitFor();
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    await page.setViewportSize({ width, height });
    for (const look of ["light", "dark"]) {
      await theme(page, look);
      await certificate(page).waitFor();
      await settled(page);
      for (const v of await violations(page)) out.violations.push(`${look} ${width}: ${v}`);
      if (folder) await page.screenshot({ path: `${folder}/certificate-${look}-${width}.png` });
    }
  }
});
console.log(JSON.stringify(out));
