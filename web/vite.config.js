// Builds the page into the server's crate. File names are fixed: the server has a table of them.
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const MODULES = fileURLToPath(new URL("node_modules", import.meta.url));
/** The libraries that only the worker has: Vite writes down the licences of the page's own bundle. */
const OF_WORKER = ["devlop", "highlight.js", "lowlight"];

const workerLicenses = {
  name: "licences of the worker",
  writeBundle({ dir }) {
    for (const name of OF_WORKER) {
      const folder = join(MODULES, name);
      const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
      const text = readFileSync(join(folder, file), "utf8").trim();
      appendFileSync(join(dir, "licenses.txt"), `\n## ${name} - ${version} (${license})\n\n${text}\n`);
    }
  },
};

export default defineConfig({
  plugins: [workerLicenses],
  base: "/",
  resolve: {
    alias: { turnstream: fileURLToPath(new URL("../clients/typescript/src/index.ts", import.meta.url)) },
  },
  worker: {
    format: "es",
    rollupOptions: { output: { entryFileNames: "worker.js", codeSplitting: false } },
  },
  build: {
    outDir: "../crates/server/src/page/bundle",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // The page allows no inline styles, scripts or images.
    assetsInlineLimit: 0,
    // The licences of the libraries in the bundle, which have to go with it.
    license: { fileName: "licenses.txt" },
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
        codeSplitting: false,
      },
    },
  },
});
