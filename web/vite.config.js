// Builds the page into the server's crate. File names are fixed: the server has a table of them.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
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
