// Protects an object of the bucket `vault`, sends the access log of the bucket to `logs`, and makes `vault-two` with the settings of
// `vault`. Makes a version of the bucket `rewound` current that was it at an instant. Then a look at the bays and the redundancy.
//
//   node protect.mjs BASE USER SECRET INSTANT
//
// Prints one line of JSON: {"day": the last day of the retention}.
import assert from "node:assert/strict";
import { show, signIn, withBrowser } from "./browser.mjs";

const [base, user, secret, instant] = process.argv.slice(2);
const day = new Date(Date.now() + 40 * 86_400_000).toISOString().slice(0, 10);

await withBrowser({ viewport: { width: 1280, height: 900 } }, async (context) => {
  const page = await context.newPage();
  await signIn(page, base, user, secret);

  await show(page, base, "/buckets/vault?object=contract.txt");
  const dialog = page.getByRole("dialog", { name: "contract.txt" });
  await dialog.getByRole("tab", { name: "Protection" }).click();
  await dialog.getByText("No retention.").waitFor();
  await dialog.getByRole("switch", { name: "Legal hold" }).click();
  await dialog.getByRole("switch", { name: "Legal hold", checked: true }).waitFor();
  await dialog.getByLabel("Retention", { exact: true }).selectOption("GOVERNANCE");
  await dialog.getByLabel("Last day").fill(day);
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText(/Governance until/).waitFor();
  // In compliance mode it can only be made longer: the page says so before anything is sent.
  await dialog.getByLabel("Retention", { exact: true }).selectOption("COMPLIANCE");
  await dialog.getByText("Nobody can shorten this, not even root.").waitFor();
  await page.keyboard.press("Escape");

  await show(page, base, "/buckets/vault/settings");
  const part = page.locator("section").filter({ has: page.getByRole("heading", { name: "Access log", exact: true }) });
  await part.getByLabel("Deliver to bucket").fill("logs");
  await part.getByLabel("Keys begin with").fill("of-vault/");
  await part.getByRole("button", { name: "Save" }).click();
  await part.getByText("Goes to logs/of-vault/").waitFor();

  await show(page, base, "/buckets");
  await page.getByRole("button", { name: "Create bucket" }).click();
  await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("vault-two");
  await page.getByRole("dialog").getByLabel("Copy settings from").fill("vault");
  await page.getByRole("dialog").getByRole("button", { name: "Create", exact: true }).click();
  await page.getByText("vault-two is created.", { exact: true }).waitFor();

  // The folder as it was: a key that is deleted now, and no key that was made later. One goes to other folders there.
  await show(page, base, `/buckets/rewound?at=${encodeURIComponent(instant)}`);
  await page.getByText(/^As it was on/).waitFor();
  await page.getByRole("button", { name: "deleted.txt", exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "later.txt", exact: true }).count(), 0);
  await page.getByRole("button", { name: "deep/", exact: true }).click();
  await page.getByRole("button", { name: "changed.txt", exact: true }).waitFor();
  await page.getByRole("button", { name: "Actions for changed.txt" }).click();
  await page.getByRole("menuitem", { name: "Make this version current" }).click();
  await page.getByText("changed.txt is current again.").waitFor();
  await page.getByRole("button", { name: "Back to now" }).click();
  await page.getByText(/^As it was on/).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Rewind" }).click();
  await page.getByRole("dialog", { name: "Rewind" }).getByLabel("Instant").fill("2020-01-01T00:00");
  await page.getByRole("dialog", { name: "Rewind" }).getByRole("button", { name: "Show", exact: true }).click();
  await page.getByRole("heading", { name: "Nothing was here" }).waitFor();

  // The editor of policies completes names and says what cannot be meant.
  await show(page, base, "/policies/+");
  const editor = page.getByRole("textbox", { name: "Policy document" });
  await editor.fill('{"Statement": [{"Effect": "Allow", "Resource": "arn:aws:s3:::vault", "Action": "s3:GetObj');
  await page.keyboard.type("e");
  await page.getByRole("option", { name: "s3:GetObjectTagging", exact: true }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  // What is typed before the next picture belongs behind the name that was taken.
  await page.evaluate(() => {
    const soon = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (call) => soon(() => setTimeout(call, 100));
  });
  await page.keyboard.press("Enter");
  assert.match(await editor.inputValue(), /"s3:GetObject$/);
  await page.keyboard.type('"}]}', { delay: 50 });
  await page.getByText("Statement 1: s3:GetObject concerns objects").waitFor();

  await show(page, base, "/drives");
  const bay = page.getByRole("list", { name: "Bays" }).getByRole("button", { name: /^Bay 3: .*drive3, Online/ });
  await bay.click();
  await page.waitForFunction(() => document.activeElement?.id.startsWith("drive-"));
  await page.getByRole("heading", { name: "Redundancy" }).waitFor();
  await page.getByRole("meter", { name: "1 more drive" }).and(page.locator('[aria-valuenow="100"]')).waitFor();
});
console.log(JSON.stringify({ day }));
process.exit(0);
