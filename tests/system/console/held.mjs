// Behind a proxy that sends an answer on only when it has ended, the trace and the log come in parts, and the page says so.
//
//   node held.mjs BASE USER SECRET
//
// Prints {"violations"}.
import assert from "node:assert/strict";
import { show, signIn, violations, withBrowser } from "./browser.mjs";

const [base, user, secret] = process.argv.slice(2);
const out = {};

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  await signIn(page, base, user, secret);
  await show(page, base, "/trace");
  const says = page.getByText("A proxy in between collects the answer");
  await says.waitFor();
  await page.getByText("Every 5 s", { exact: true }).waitFor();
  // What ends between two answers is missing: it is sent until it is heard.
  const row = page.getByRole("button", { name: /\/held-back\/key/ }).first();
  for (let i = 0; i < 60 && !(await row.isVisible()); i++) {
    await fetch(`${base}/held-back/key`);
    await row.waitFor({ timeout: 2000 }).catch(() => {});
  }
  await row.waitFor();
  assert.ok(await says.isVisible());
  out.violations = await violations(page);
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT });

  await show(page, base, "/logs");
  await says.waitFor();
  const lines = page.getByRole("list", { name: /Lines of the log/ }).getByRole("listitem");
  await lines.first().waitFor();
  // The next part begins with the same lines, which are not shown twice.
  const count = await lines.count();
  // The next answer begins when the one before has ended.
  const next = () => page.waitForResponse((r) => r.url().includes("/admin/logs?") && r.url().includes("seconds="));
  await next();
  await next();
  const texts = await lines.allInnerTexts();
  assert.ok(texts.length >= count && new Set(texts).size > texts.length / 2, `${count} lines, then ${texts.length}`);
});
console.log(JSON.stringify(out));
process.exit(0);
