// How the console is built: relative addresses, because a proxy may serve it below any path, and names with hashes,
// because browsers keep the files for ever. `scripts/embed.mjs` then puts the result into crates/console.
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/**
 * Two changes of pdf.js. It makes all of its parts global, so that none could be left out: they are not. It decodes some pictures with
 * WebAssembly, which the console's policy forbids, or with the same decoders as JavaScript, which it asks for by names without a hash:
 * the one for JBIG2 and fax (scanned pages) becomes a file of the build, JPEG 2000 is left out.
 */
const pdfjs: Plugin = {
  name: "pdfjs",
  enforce: "pre",
  transform(code, id) {
    const change = (found: RegExp, instead: string) => {
      const parts = code.split(found);
      if (parts.length !== 2) throw new Error(`this release of pdf.js is made in another way: look at "pdfjs" in vite.config.ts (${found})`);
      return { code: parts.join(instead), map: null };
    };
    if (/pdfjs-dist\/build\/pdf\.mjs/.test(id)) return change(/globalThis\.pdfjsLib = \{[^{}]*\};/, "");
    // What the page imports is only the address of the worker.
    if (!/pdfjs-dist\/build\/pdf\.worker\.mjs/.test(id) || id.endsWith("?worker")) return null;
    return change(
      /import\(\s*(?:\/\*[^*]*\*\/\s*)*`\$\{WasmImage\.#wasmUrl\}\$\{this\._noWasmFilename\}`\)/,
      '(this._noWasmFilename === "jbig2_nowasm_fallback.js" ? import("../wasm/jbig2_nowasm_fallback.js") : Promise.reject(new Error("left out")))',
    );
  },
};

export default defineConfig({
  base: "./",
  plugins: [pdfjs, react(), tailwindcss()],
  worker: { format: "es", plugins: () => [pdfjs] },
  build: {
    target: "es2022",
    minify: "terser",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    chunkSizeWarningLimit: 1400,
  },
});
