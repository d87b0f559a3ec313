// Bundles the tests of a package (sdk or page), which are TypeScript, and runs them
// with Node's own runner. Further arguments choose files by a part of their name;
// those called .long.ts take minutes and run only with SEALCAST_LONG=1. Programs
// that they start are built before, once.
import { build } from "esbuild";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [, , name, ...wanted] = process.argv;
const web = dirname(fileURLToPath(import.meta.url));
const here = join(web, name, "test");
const out = join(here, "..", "build");
const kinds = process.env.SEALCAST_LONG ? /\.(test|long)\.ts$/ : /\.test\.ts$/;
const names = readdirSync(here).filter(
  (file) => kinds.test(file) && (wanted.length === 0 || wanted.some((part) => file.includes(part))),
);
if (names.length === 0) throw new Error(`no test is called ${wanted.join(", ")}`);

rmSync(out, { recursive: true, force: true });
const { metafile } = await build({
  entryPoints: names.map((file) => join(here, file)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  splitting: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  sourcemap: "inline",
  metafile: true,
  logLevel: "warning",
});
const files = names.map((file) => join(out, file.replace(/\.ts$/, ".mjs")));
// Debian 12's Node 18 keeps WebCrypto behind a flag.
const flags = parseInt(process.versions.node) < 20 ? ["--experimental-global-webcrypto"] : [];
const programs = join(web, "programs");
if (Object.keys(metafile.inputs).some((file) => file.endsWith("sdk/test/gateway.ts"))) {
  execFileSync("go", ["build", "-buildvcs=false", "-o", `${programs}/`, "./cmd/sealcast", "./cmd/sealctl"], { cwd: dirname(web), stdio: "inherit" });
}
const env = { ...process.env, SEALCAST_TEST_PROGRAMS: programs, NODE_OPTIONS: [process.env.NODE_OPTIONS, ...flags].filter(Boolean).join(" ") };
const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit", env, timeout: 15 * 60_000 });
if (run.error) console.error(`not over after 15 minutes: a test that has failed may have left something running (${run.error.message})`);
process.exit(run.status ?? 1);
