// How large the client is in a browser, minified and gzipped.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { root } from "./tools.js";

const limits = { core: 24 * 1024, everything: 45 * 1024 };

test("the size of the client for browsers", async (t) => {
  const { outputFiles } = await build({
    entryPoints: [join(fileURLToPath(root), "web/sdk/src/index.ts")],
    bundle: true,
    minify: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    outdir: "out",
    write: false,
  });
  const sizes = outputFiles.map((file) => ({ name: file.path.split("/").at(-1)!, size: gzipSync(file.contents, { level: 9 }).length }));
  const core = sizes.find(({ name }) => name === "index.js")!.size;
  const everything = sizes.reduce((sum, { size }) => sum + size, 0);
  t.diagnostic(`${core} bytes gzipped; ${everything} with every fallback: ${sizes.map(({ name, size }) => `${name} ${size}`).join(", ")}`);
  assert.ok(outputFiles.length >= 4, "what is loaded on demand has files of its own");
  assert.ok(core < limits.core, `${core} bytes`);
  assert.ok(everything < limits.everything, `${everything} bytes`);
});
