// An upload that a page which was closed has left: the file is chosen again, and only the missing parts are sent.
//
//   node resume.mjs BASE USER SECRET FILE
//
// The bucket `resumed` has an upload of FILE to `folder/large.bin`, with some of its parts, and one that another client began.
// Prints the numbers of the parts that were sent.
import { show, signIn, violations, withBrowser } from "./browser.mjs";

const [base, user, secret, file] = process.argv.slice(2);
const out = { sent: [], violations: [] };

await withBrowser({ viewport: { width: 1440, height: 900 } }, async (context) => {
  const page = await context.newPage();
  page.on("request", (r) => {
    const number = new URL(r.url()).searchParams.get("partNumber");
    if (r.method() === "PUT" && number) out.sent.push(Number(number));
  });
  await signIn(page, base, user, secret);
  await show(page, base, "/buckets/resumed?prefix=folder/");
  await page.getByRole("button", { name: "2 unfinished uploads" }).click();
  const dialog = page.getByRole("dialog", { name: "Unfinished uploads" });
  const row = (key) => dialog.getByRole("listitem").filter({ hasText: key });
  out.violations = await violations(page);
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT });
  await row("folder/foreign.bin").getByRole("button", { name: "Delete" }).click();
  await row("folder/foreign.bin").waitFor({ state: "detached" });
  const chooser = page.waitForEvent("filechooser");
  await row("folder/large.bin").getByRole("button", { name: "Choose the file and go on" }).click();
  await (await chooser).setFiles(file);
  await page.getByText("1 file uploaded").waitFor();
  await page.getByRole("button", { name: "large.bin", exact: true }).waitFor();
  await page.getByRole("button", { name: /unfinished upload/ }).waitFor({ state: "detached" });
});
console.log(JSON.stringify(out));
process.exit(0);
