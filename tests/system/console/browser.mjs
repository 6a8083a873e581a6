// What the browser tests of the console share: Chromium, signing in, the accessibility check, screenshots.
import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// The packages are those of the console itself, installed with its lock file.
const require = createRequire(new URL("../../../console/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const ROUTES = {
  overview: "/", connect: "/connect", buckets: "/buckets", users: "/users", groups: "/groups", keys: "/keys", policies: "/policies",
  policy: "/policies/readonly", drives: "/drives", why: "/why", trace: "/trace", logs: "/logs", targets: "/targets", encryption: "/encryption",
  providers: "/providers", audit: "/audit", settings: "/settings", commands: "/commands",
};

/** Starts a browser with a profile of its own; `run` gets a context. */
export async function withBrowser(options, run) {
  const profile = mkdtempSync(join(tmpdir(), "console-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: "/usr/bin/chromium", headless: true, acceptDownloads: true, reducedMotion: "reduce", locale: "en-GB", timezoneId: "UTC",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    ...options,
  });
  // Long: the machine may be busy with other tests.
  context.setDefaultTimeout(120_000);
  try {
    return await run(context);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

export async function signIn(page, base, user, secret) {
  await page.goto(`${base}/console/`);
  await page.getByLabel("Access key").fill(user);
  await page.getByLabel("Secret key").fill(secret);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
}

/** Opens a screen and waits until nothing on it loads. The screen before stays until the code of the next one is there. */
export async function show(page, base, route) {
  const other = await page.evaluate((to) => {
    if ((location.hash.slice(1) || "/").split("?")[0] === to) return false;
    for (const title of document.querySelectorAll("h1")) title.setAttribute("data-before", title.textContent);
    return true;
  }, route.split("?")[0]);
  await page.goto(`${base}/console/#${route}`);
  if (other) await page.waitForFunction(() => [...document.querySelectorAll("h1")].some((title) => title.getAttribute("data-before") !== title.textContent));
  await settled(page);
}

export async function settled(page) {
  await page.locator("h1").first().waitFor({ state: "attached" });
  await page.waitForFunction(() => !document.body.innerText.includes("Loading…"));
  await page.evaluate(() => document.fonts.ready);
}

/** Serious violations on the page, as `rule: elements`. */
export async function violations(page) {
  // The page's policy forbids foreign scripts; the test's own are evaluated by the browser's debugger.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter((v) => v.impact === "serious" || v.impact === "critical")
    .map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary}`).join(" | ")}`);
}

export async function theme(page, name) {
  await page.evaluate((value) => localStorage.setItem("ashlar.theme", value), name);
  await page.reload();
}
