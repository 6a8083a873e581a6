// Puts the built console (dist/) into crates/console: every file compressed with gzip in assets/, the page and the table
// of files in src/embedded.rs, and the licences of what is in the bundle. `--check`: fails if that would change anything.
// Fails also if what a browser loads first is more than 200 KB compressed.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync, existsSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

const BUDGET = 200 * 1000;
const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
const out = join(root, "../crates/console/assets");
const table = join(root, "../crates/console/src/embedded.rs");
const check = process.argv.includes("--check");
const kinds = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml", woff2: "font/woff2", txt: "text/plain; charset=utf-8" };
const kindOf = (name) => kinds[name.split(".").pop()] ?? fail(`no content type for ${name}`);

function fail(why) {
  console.error(`embed: ${why}`);
  process.exit(1);
}

// Licences of the packages that are in the bundle, with those that they need. Optional ones are not in it: what pdf.js wants for Node.
function licences() {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  const used = Object.entries(lock).filter(([path, p]) => path && !p.dev && !p.devOptional && !p.peer && !p.optional);
  const parts = used.map(([path, p]) => {
    const folder = join(root, path);
    if (!existsSync(folder)) return null;
    const file = readdirSync(folder).find((n) => /^(licen[cs]e|copying)/i.test(n));
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${p.license}`;
    return `${path.replace(/^.*node_modules\//, "")} ${p.version} (${p.license})\n\n${text}`;
  });
  parts.push(`PDFium (BSD-3-Clause and Apache-2.0), its decoders of JBIG2 and fax, in pdfjs-dist\n\n${readFileSync(join(root, "node_modules/pdfjs-dist/wasm/LICENSE_JBIG2"), "utf8").trim()}`);
  parts.push(`Inter (OFL-1.1), a subset\n\n${readFileSync(join(root, "src/styles/inter.LICENSE"), "utf8").trim()}`);
  return `The console of Ashlar contains these packages.\n\n${parts.filter(Boolean).sort().join("\n\n---\n\n")}\n`;
}

const page = readFileSync(join(dist, "index.html"), "utf8");
const names = readdirSync(join(dist, "assets")).sort();
const files = new Map(names.map((name) => [name, readFileSync(join(dist, "assets", name))]));
files.set("licences.txt", Buffer.from(licences()));

const text = [...files.values()].filter((_, i) => /\.(js|css)$/.test([...files.keys()][i]));
const first = [...page.matchAll(/"\.\/assets\/([^"]+)"/g)].map((m) => m[1]);
// What the entry imports at once, and the fonts that its style sheet names.
const queue = [...first];
const loaded = new Set(first);
while (queue.length > 0) {
  const name = queue.pop();
  const content = files.get(name)?.toString() ?? fail(`the page names ${name}, which does not exist`);
  const found = name.endsWith(".js")
    ? [...content.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)].map((m) => m[1])
    : [...content.matchAll(/url\((?:\.\/)?([^)]+\.woff2)\)/g)].map((m) => basename(m[1]));
  for (const other of found) {
    if (!loaded.has(other) && files.has(other)) {
      loaded.add(other);
      queue.push(other);
    }
  }
}
const size = [...loaded].reduce((sum, name) => sum + gzipSync(files.get(name), { level: 9 }).length, gzipSync(page).length);
console.log(`first load: ${[...loaded].length} files, ${(size / 1000).toFixed(1)} KB of at most ${BUDGET / 1000} KB compressed; all: ${files.size} files`);
if (size > BUDGET) fail(`the first load is ${size} bytes compressed, more than ${BUDGET}`);
if (text.some((b) => b.includes("sourceMappingURL"))) fail("a file names a source map");

const hashes = page.split("#").length;
const quote = "#".repeat(Math.min(hashes, 3) + 1);
const rows = [...files.keys()].sort().map((name) =>
  `    Asset { name: ${JSON.stringify(name)}, kind: ${JSON.stringify(kindOf(name))}, gzip: include_bytes!(${JSON.stringify(`../assets/${name}.gz`)}) },`);
const source = `//! The built files of the console: made by \`npm run build\` in the folder \`console\`, not edited by hand.
#![cfg_attr(rustfmt, rustfmt_skip)]

use crate::assets::Asset;

/// The page.
pub(crate) const PAGE: &str = r${quote}"${page}"${quote};

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
${rows.join("\n")}
];
`;

if (check) {
  const there = existsSync(out) ? readdirSync(out).filter((n) => n.endsWith(".gz")).sort() : [];
  const wanted = [...files.keys()].map((n) => `${n}.gz`).sort();
  if (there.join() !== wanted.join()) fail(`crates/console/assets has other files than the build: run \`npm run build\``);
  for (const [name, content] of files) {
    // Compressed bytes differ between releases of zlib; contents do not.
    if (!gunzipSync(readFileSync(join(out, `${name}.gz`))).equals(content)) fail(`${name} differs: run \`npm run build\``);
  }
  if (readFileSync(table, "utf8") !== source) fail("crates/console/src/embedded.rs differs: run `npm run build`");
} else {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  for (const [name, content] of files) writeFileSync(join(out, `${name}.gz`), gzipSync(content, { level: 9 }));
  writeFileSync(table, source);
}
