// Scrolls through a folder of many keys.
//
//   node scroll.mjs BASE USER SECRET ROUTE FIRST
import { signIn, withBrowser } from "./browser.mjs";
import { scrollThrough } from "./scrolling.mjs";

const [base, user, secret, route, first] = process.argv.slice(2);
await withBrowser({ viewport: { width: 1440, height: 900 } }, async (context) => {
  const page = await context.newPage();
  await signIn(page, base, user, secret);
  console.log(JSON.stringify(await scrollThrough(page, context, base, route, first, 3000)));
});
process.exit(0);
