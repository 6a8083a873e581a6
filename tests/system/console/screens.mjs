// Every screen in both themes and two sizes: checks it with axe, and saves a picture where a folder is named.
//
//   node screens.mjs BASE USER SECRET BUCKET [FOLDER]
//
// Prints one line of JSON: {"checked": number, "violations": [...], "errors": [...]}.
import { ROUTES, settled, show, signIn, violations, withBrowser } from "./browser.mjs";

const [base, user, secret, bucket, folder] = process.argv.slice(2);
const routes = { ...ROUTES, browse: `/buckets/${bucket}`, object: `/buckets/${bucket}?object=notes.txt`, bucket: `/buckets/${bucket}/settings`, lost: "/nowhere" };
const out = { checked: 0, violations: [], errors: [] };

for (const size of [{ name: "1440", width: 1440, height: 900 }, { name: "390", width: 390, height: 844 }]) {
  for (const theme of ["light", "dark"]) {
    await withBrowser({ viewport: size, colorScheme: theme }, async (context) => {
      const page = await context.newPage();
      page.on("pageerror", (e) => out.errors.push(`${theme} ${size.name}: ${e}`));
      page.on("console", (m) => m.type() === "error" && !/status of 40[0-9]/.test(m.text()) && out.errors.push(`${theme} ${size.name} ${page.url()}: ${m.text()}`));
      const take = async (name) => {
        for (const v of await violations(page)) out.violations.push(`${name} ${theme} ${size.name}: ${v}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) out.violations.push(`${name} ${theme} ${size.name}: scrolls sideways by ${wide} pixels`);
        out.checked += 1;
        if (folder) await page.screenshot({ path: `${folder}/${name}-${theme}-${size.name}.png` });
      };
      await page.goto(`${base}/console/`);
      await page.getByLabel("Access key").waitFor();
      await page.evaluate(() => document.fonts.ready);
      await take("login");
      await signIn(page, base, user, secret);
      for (const [name, route] of Object.entries(routes)) {
        if (name === "lost") await page.goto(`${base}/console/#${route}`);
        else await show(page, base, route);
        if (name === "object") await page.getByRole("dialog").getByText("ETag").waitFor();
        if (name === "overview") await page.getByRole("img", { name: /Chart of requests/ }).waitFor();
        await take(name);
        if (name === "object") {
          await page.getByRole("tab", { name: "Placement" }).click();
          await page.getByText(/shards are in their places/).waitFor();
          await take("placement");
          await page.getByRole("tab", { name: "Protection" }).click();
          await page.getByText("No retention.").waitFor();
          await take("protection");
        }
        if (name === "bucket") {
          await page.getByRole("button", { name: "Simulate", exact: true }).click();
          await page.getByText(/objects? expires?/).first().waitFor();
          await take("simulation");
        }
        if (name === "settings") {
          await page.getByRole("button", { name: "Actions for notify_webhook shop" }).click();
          await page.getByRole("menuitem", { name: "Edit" }).click();
          await page.getByRole("dialog").getByLabel("comment").fill("of the shop");
          await take("setting");
        }
      }
      await show(page, base, "/buckets");
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Screen, bucket or path" }).fill(bucket.slice(0, 4));
      await page.getByRole("option", { name: bucket }).first().waitFor();
      await take("command-bar");
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await take("key-help");
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Create bucket" }).first().click();
      await page.getByRole("dialog").waitFor();
      await take("create-bucket");
      await page.keyboard.press("Escape");
      await show(page, base, `/buckets/${bucket}`);
      await page.getByRole("button", { name: "Actions for notes.txt" }).click();
      await page.getByRole("menuitem", { name: "Share" }).click();
      await page.getByRole("button", { name: "Make link" }).click();
      await page.getByText("Works until").waitFor();
      await take("share");
      await show(page, base, `/why?user=reader&action=s3:PutObject&resource=${bucket}/x`);
      await page.getByRole("button", { name: "Explain" }).last().click();
      await page.getByText("Denied", { exact: true }).waitFor();
      await settled(page);
      await take("denied");
    });
  }
}
console.log(JSON.stringify(out));
