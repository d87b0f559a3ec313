// Builds the page into the directory that the gateway embeds. Names have no
// hashes: the listener sends an ETag, and a test compares the bytes.
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

export default defineConfig({
  root: path("."),
  base: "./",
  resolve: { alias: { "@sealcast/client": path("../sdk/src/index.ts") } },
  build: {
    outDir: process.env.SEALCAST_PAGE_OUT ?? path("../../gateway/admin/page"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    assetsDir: "",
    rollupOptions: { output: { entryFileNames: "page.js", chunkFileNames: "[name].js", assetFileNames: "page[extname]" } },
  },
});
