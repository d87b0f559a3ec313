// The live page in Chromium, over wss:// through HAProxy and nginx, as it is in
// production: ticks come, the gateway knows the browser's address, and what the
// terminator sees in the clear has no tick, no topic and no token.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { chromium, type Browser } from "playwright-core";
import { freePort, Gateway, Redis, Workshop } from "../../sdk/test/gateway.js";
import { chromiumPath, settings } from "./stage.js";
import { Certificate, kinds, Tap } from "./terminators.js";

const topic = "md:terminator:quokka-numbat:ticker";
const secret = "a secret of thirty-two bytes or more";

let workshop: Workshop;
let redis: Redis;
let certificate: Certificate;
let browser: Browser;

before(async () => {
  workshop = new Workshop();
  redis = await Redis.start();
  certificate = new Certificate();
  browser = await chromium.launch({
    executablePath: chromiumPath(),
    args: ["--no-sandbox", "--disable-dev-shm-usage", `--ignore-certificate-errors-spki-list=${certificate.fingerprint}`],
  });
});

after(async () => {
  await browser?.close();
  redis?.stop();
  certificate?.remove();
  workshop?.remove();
});

function newToken(): string {
  const args = ["token", "--user", "ann", "--topics", "md:terminator:**", "--for", "1h"];
  return execFileSync(workshop.program("sealctl"), args, { encoding: "utf8", env: { ...process.env, SEALCTL_TOKEN_SECRET: secret } }).trim();
}

for (const [name, kind] of Object.entries(kinds)) {
  test(`wss:// through ${name}`, async (t) => {
    const ports = { listen: await freePort(), admin: await freePort() };
    const at = await freePort();
    const gateway = await Gateway.start(workshop, {
      ...settings(redis), ...kind.settings, public_url: `wss://localhost:${at}/ws`, "compress.codecs": "[none]",
      "auth.mode": "jwt", "auth.keys": JSON.stringify([{ alg: "HS256", secret }]),
    }, ports);
    t.after(() => gateway.stop());
    const tap = await Tap.to(ports.listen);
    t.after(() => tap.close());
    const terminator = await kind.start({ at, gateway: tap.port, admin: ports.admin, certificate });
    t.after(() => terminator.stop());
    const page = await browser.newPage();
    t.after(() => page.close());
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(error.message)).on("console", (message) => message.type() === "error" && faults.push(message.text()));

    const token = newToken();
    await page.goto(gateway.admin);
    await page.fill("#token", token);
    await page.fill("#pattern", "md:terminator:**");
    await page.press("#pattern", "Enter");
    await page.waitForSelector('#state[data-state="connected"]', { timeout: 20_000 });
    const timer = setInterval(() => redis.publish(topic, '{"last":"31415.92653","venue":"wombat"}'), 20);
    t.after(() => clearInterval(timer));
    await page.waitForFunction((name) => Number(document.querySelector(`tr[data-topic="${name}"]`)?.getAttribute("data-seq")) > 10, topic);
    assert.match((await page.textContent(`tr[data-topic="${topic}"] td:nth-child(4)`))!, /^31415\.92653/);
    assert.match((await page.textContent('[data-fact="Pin"]'))!, /matches/);

    const { sessions } = (await (await fetch(`${gateway.admin}/v1/sessions`)).json()) as { sessions: { remote: string; user: string }[] };
    assert.deepEqual(sessions.map(({ remote, user }) => `${remote.replace(/:\d+$/, "")} ${user}`), ["127.0.0.1 ann"]);
    const login = gateway.log.map((line) => JSON.parse(line) as { msg: string; remote?: string }).find(({ msg }) => msg === "login");
    assert.match(login!.remote!, /^127\.0\.0\.1:/, "of the browser, in the log");

    assert.match(tap.seen, /GET \/ws HTTP\/1\.1\r\n/);
    assert.ok(tap.seen.length > 2000, `${tap.seen.length} bytes seen`);
    for (const word of [token, "quokka", "31415", "wombat", "Bearer", secret]) {
      assert.ok(!tap.seen.includes(word), `what ${name} sees in the clear has ${word}`);
      assert.ok(!terminator.log.includes(word), `the log of ${name} has ${word}`);
    }
    assert.deepEqual(faults, []);
  });
}
