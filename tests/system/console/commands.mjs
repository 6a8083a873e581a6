// The commands that the console shows for calls, without a browser: JSON of calls on the standard input, of commands on the output.
//
//   node commands.mjs ENDPOINT REGION < calls.json
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const require = createRequire(new URL("../../../console/package.json", import.meta.url));
const { build } = createRequire(require.resolve("vite"))("esbuild");
const source = fileURLToPath(new URL("../../../console/src/lib/commands.ts", import.meta.url));
const { outputFiles: [file] } = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
const { commandsOf } = await import(`data:text/javascript;base64,${Buffer.from(file.contents).toString("base64")}`);

const [endpoint, region] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(calls.map((call) => Object.fromEntries(commandsOf([call], { endpoint, region }).map((c) => [c.program, c.text])))));
