// How the console is built: relative addresses, because a proxy may serve it below any path, and names with hashes,
// because browsers keep the files for ever. `scripts/embed.mjs` then puts the result into crates/console.
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  plugins: [react(), tailwindcss()],
  build: {
    target: "es2022",
    minify: "terser",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    chunkSizeWarningLimit: 700,
  },
});
