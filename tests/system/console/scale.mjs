// How long each screen takes until it can be used, with much data: see scale.py.
//
//   node scale.mjs BASE USER SECRET KIND
//
// KIND is what the server has much of: `names` (buckets and users) or `keys`.
import { signIn, withBrowser } from "./browser.mjs";
import { scrollThrough } from "./scrolling.mjs";

const [base, user, secret, kind] = process.argv.slice(2);
const RUNS = 5;
/** Address, and what says that the screen can be used. */
const SCREENS = {
  names: [
    ["Overview", "/", (page) => page.getByRole("heading", { name: /Everything is healthy|Working/ })],
    ["Buckets", "/buckets", (page) => page.getByRole("link", { name: "bucket-00000" })],
    ["Buckets, the newest", "/buckets", async (page) => {
      await page.getByRole("link", { name: "bucket-00000" }).waitFor();
      await page.getByRole("button", { name: "Created", exact: true }).click();
      return page.getByRole("link", { name: "bucket-09999" });
    }],
    ["Buckets, search", "/buckets", async (page) => {
      await page.getByRole("searchbox", { name: "Find a bucket" }).fill("-0999");
      return page.getByRole("link", { name: "bucket-09990" });
    }],
    ["Users", "/users", (page) => page.getByText("user-00000", { exact: true })],
    ["Groups", "/groups", (page) => page.getByRole("heading", { name: "No groups yet" })],
    ["Access keys", "/keys", (page) => page.getByRole("heading", { name: "Access keys", level: 1 })],
    ["Policies", "/policies", (page) => page.getByText("readonly", { exact: true }).first()],
    ["Why denied?", "/why", (page) => page.getByLabel("User or access key")],
    ["Audit log", "/audit", (page) => page.getByText(/record/).first()],
    ["Settings", "/settings", (page) => page.getByText("notify_webhook", { exact: true })],
  ],
  keys: [
    ["Overview", "/", (page) => page.getByRole("heading", { name: /Everything is healthy|Working/ })],
    ["A folder of most keys", "/buckets/million?prefix=flat/", (page) => page.getByRole("button", { name: "00000001.txt", exact: true })],
    ["Search in it", "/buckets/million?prefix=flat/00077", (page) => page.getByRole("button", { name: "00077001.txt", exact: true })],
    ["Folders", "/buckets/million?prefix=folders/", (page) => page.getByText("00/", { exact: true })],
    ["Settings of the bucket", "/buckets/million/settings", (page) => page.getByText("No quota.")],
    ["Drives", "/drives", (page) => page.getByText("Healed since the start")],
  ],
}[kind];

await withBrowser({ viewport: { width: 1440, height: 900 } }, async (context) => {
  const page = await context.newPage();
  await signIn(page, base, user, secret);
  for (const [name, route, ready] of SCREENS) {
    const times = [];
    for (let run = 0; run < RUNS; run++) {
      // A fresh page: what another screen has fetched does not count.
      await page.goto(`${base}/console/#/connect`);
      await page.reload();
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      const began = performance.now();
      await page.evaluate((to) => { location.hash = to; }, route);
      await (await ready(page)).first().waitFor({ timeout: 120_000 });
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    console.log(`${name.padEnd(24)} ${times[2].toFixed(0).padStart(6)} ms  ${times[4].toFixed(0).padStart(6)} ms`);
  }
  if (kind !== "keys") return;
  const found = await scrollThrough(page, context, base, "/buckets/million?prefix=flat/", "00000001.txt", 8000);
  console.log(`scrolling: ${found.frames} frames over ${found.rows} rows, median ${found.median.toFixed(1)} ms, 99% ${found.p99.toFixed(1)} ms, longest ${found.longest.toFixed(0)} ms, ${found.long} longer than 50 ms; processor time ${found.each.toFixed(1)} ms for each frame, longest task ${found.task.toFixed(1)} ms`);
});
process.exit(0);
