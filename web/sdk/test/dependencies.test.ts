// docs/dependencies.md names the npm packages as they are, and the lock file names no registry.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { root } from "./tools.js";

const read = (path: string) => readFileSync(new URL(path, root), "utf8");

test("docs/dependencies.md has exactly the packages of web", () => {
  const rows = [...read("docs/dependencies.md").matchAll(/^\| `([^`]+)` \| (\d[^ ]*) \| (.+) \|$/gm)];
  const documented = Object.fromEntries(rows.map(([, name, version]) => [name, version]));
  const used: Record<string, string> = {};
  for (const path of ["web/package.json", "web/sdk/package.json", "web/page/package.json"]) {
    const { dependencies, devDependencies } = JSON.parse(read(path));
    Object.assign(used, dependencies, devDependencies);
  }
  delete used["@sealcast/client"];
  assert.deepEqual(documented, used);
  assert.equal(rows.length, Object.keys(documented).length, "a package stands there twice");
});

test("the lock file has a hash for every package and the address of none", () => {
  const lock = JSON.parse(read("web/package-lock.json"));
  const packages = Object.entries<{ resolved?: string; link?: boolean; integrity?: string }>(lock.packages);
  for (const [path, { resolved, link, integrity }] of packages) {
    if (!path.startsWith("node_modules/") && !path.includes("/node_modules/")) continue;
    assert.ok(link || integrity?.startsWith("sha512-"), path);
    if (!link) assert.equal(resolved, undefined, path);
  }
});
