// The live page in a real headless Chromium, served by the real gateway.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { build } from "vite";
import { freePort, Gateway, Redis, Workshop } from "../../sdk/test/gateway.js";
import { root } from "../../sdk/test/tools.js";
import { chromiumPath, feed, newTopic, quote, settings, shot } from "./stage.js";

let workshop: Workshop;
let redis: Redis;
let gateway: Gateway;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let faults: string[];

before(async () => {
  workshop = new Workshop();
  redis = await Redis.start();
  gateway = await Gateway.start(workshop, settings(redis));
  browser = await chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP elsewhere.test 127.0.0.1"] });
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  redis?.stop();
  workshop.remove();
});

beforeEach(async () => {
  faults = [];
  context = await browser.newContext({ viewport: { width: 1600, height: 1000 } });
  page = await context.newPage();
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && faults.push(`console: ${message.text()}`));
  page.on("request", (request) => {
    if (new URL(request.url()).hostname !== "127.0.0.1" && !request.url().startsWith("data:")) faults.push(`request: ${request.url()}`);
  });
});

afterEach(() => context.close());

/** A violation of the policy is a console error as well. */
function noFaults(allowed = /^$/): void {
  assert.deepEqual(faults.filter((fault) => !allowed.test(fault)), []);
}

async function open(hash = ""): Promise<void> {
  await page.goto(`${gateway.admin}/${hash}`);
}

async function connected(): Promise<void> {
  await page.waitForSelector('#state[data-state="connected"]', { timeout: 20_000 });
}

const cell = (topic: string, n: number) => page.textContent(`tr[data-topic="${topic}"] td:nth-child(${n})`);

async function factIs(name: string, wanted: RegExp): Promise<void> {
  const source = [name, wanted.source] as const;
  await page.waitForFunction(([n, pattern]) => new RegExp(pattern).test(document.querySelector(`[data-fact="${n}"]`)?.textContent ?? ""), source, { timeout: 20_000 });
}

async function cellIs(topic: string, n: number, wanted: string): Promise<void> {
  await page.waitForFunction(([t, column, text]) => document.querySelector(`tr[data-topic="${t}"] td:nth-child(${column})`)?.textContent === text, [topic, n, wanted] as const, { timeout: 20_000 });
}

async function subscribe(pattern: string): Promise<void> {
  await page.fill("#pattern", pattern);
  await page.press("#pattern", "Enter");
  await connected();
}

test("the bundle is what the sources make", async () => {
  const out = mkdtempSync(join(tmpdir(), "sealcast-page-"));
  process.env.SEALCAST_PAGE_OUT = out;
  await build({ root: fileURLToPath(new URL("web/page/", root)), configFile: fileURLToPath(new URL("web/page/vite.config.mjs", root)), logLevel: "error" });
  const committed = fileURLToPath(new URL("gateway/admin/page/", root));
  assert.deepEqual(readdirSync(out).sort(), readdirSync(committed).sort(), "make page builds it");
  for (const name of readdirSync(out)) assert.ok(readFileSync(join(out, name)).equals(readFileSync(join(committed, name))), `${name} is another: make page builds it`);
  rmSync(out, { recursive: true });
});

test("ticks change, with what is known of the connection, and screenshots for people", async () => {
  const { topic, stop, bid } = feed(redis);
  await open();
  await connected();
  await subscribe("md:page:**");
  await page.waitForFunction((t) => Number(document.querySelector(`tr[data-topic="${t}"]`)?.getAttribute("data-seq")) > 20, topic);
  const before = Number(await cell(topic, 2));
  await page.waitForFunction(([t, n]) => Number(document.querySelector(`tr[data-topic="${t}"] td:nth-child(2)`)?.textContent) > Number(n), [topic, before] as const);
  assert.match((await cell(topic, 4))!, /▲$/);
  await factIs("Suite", /^aes-128-gcm$/);
  await factIs("Gateway's key", new RegExp(workshop.pin));
  await factIs("Pin", /matches/);
  await factIs("Hybrid", /yes/);
  await factIs("Round trip \\(p50, p90, p99\\)".replaceAll("\\", ""), /\d ms, .* ms/);
  await factIs("Redis", /connected/);
  await factIs("Deliveries", /\d/);
  await page.waitForFunction(() => /^\d+ bytes\n10 /.test(document.getElementById("sealed")!.textContent!));
  assert.match((await page.textContent("#opened"))!, new RegExp(`md:page:T\\d+:ticker \\d+ \\{"symbol"`));
  await page.waitForTimeout(2500); // for the charts
  for (const [name, width, scheme] of [["wide-light", 1600, "light"], ["wide-dark", 1600, "dark"], ["narrow-dark", 400, "dark"]] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 1000 });
    await page.waitForTimeout(150);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(overflow <= 0, `${name} is ${overflow} px too wide`);
    await page.screenshot({ path: shot(name), fullPage: true });
  }
  stop();
  await cellIs(topic, 2, bid().toFixed(2));
  noFaults();
});

test("suite, batching and seal mode are switched live", async () => {
  const { topic, stop } = feed(redis);
  await open();
  await connected();
  for (const suite of ["chacha20-poly1305", "aes-256-gcm"]) {
    await page.selectOption("#suite", suite);
    await page.selectOption("#seal", "group");
    await page.selectOption("#rate", "10");
    await page.click("#settings button");
    await factIs("Suite", new RegExp(`^${suite}$`));
    await connected();
    await page.waitForSelector(`tr[data-topic="${topic}"]`);
  }
  const session = await page.textContent('[data-fact="Session"]');
  await page.waitForTimeout(2500); // the page does not connect anew of itself
  assert.equal(await page.textContent('[data-fact="Session"]'), session);
  stop();
  noFaults();
});

for (const native of [true, false]) {
  test(`ChaCha20-Poly1305 ${native ? "by the browser's own WebCrypto" : "in JavaScript, where WebCrypto has none"}`, async () => {
    await page.addInitScript((has) => {
      type Method = (this: unknown, ...args: unknown[]) => Promise<unknown>;
      const subtle = SubtleCrypto.prototype as unknown as Record<string, Method>;
      const { importKey, decrypt } = subtle;
      const name = "ChaCha20-Poly1305";
      const opened = { native: 0 };
      Object.assign(globalThis, { opened });
      subtle.importKey = function (...args) {
        return !has && args[2] === name ? Promise.reject(new DOMException("not here", "NotSupportedError")) : importKey.apply(this, args);
      };
      subtle.decrypt = function (...args) {
        if ((args[0] as { name: string }).name === name) opened.native++;
        return decrypt.apply(this, args);
      };
    }, native);
    const topic = newTopic();
    await open();
    await connected();
    await page.selectOption("#suite", "chacha20-poly1305");
    await subscribe(topic);
    await factIs("Suite", /^chacha20-poly1305$/);
    await page.waitForSelector(`tr[data-topic="${topic}"]`);
    for (let i = 1; i <= 500; i++) redis.publish(topic, quote(i));
    await cellIs(topic, 2, "500.00");
    await cellIs(topic, 6, "500");
    const opened = await page.evaluate(() => (globalThis as unknown as { opened: { native: number } }).opened.native);
    assert.ok(native ? opened > 0 : opened === 0, `${opened} records were opened by WebCrypto`);
    noFaults();
  });
}

test("a key that is not the pin is refused, in words and without data", async () => {
  const { topic, stop } = feed(redis);
  await open(`#pin=${"A".repeat(43)}`);
  await page.waitForSelector("#trouble:not([hidden])");
  assert.match((await page.textContent("#trouble"))!, /No data is shown: the gateway's key .* is none of the pins/);
  assert.equal(await page.locator(`tr[data-topic="${topic}"]`).count(), 0);
  assert.equal(await page.locator(`[data-fact="Suite"]`).count(), 0);
  stop();
  noFaults();
});

test("numbers are those that sealctl tail sees", async () => {
  const topic = newTopic();
  await open();
  await connected();
  await subscribe(topic);
  await page.waitForSelector(`tr[data-topic="${topic}"]`);
  const tail = promisify(execFile)(workshop.program("sealctl"), ["tail", gateway.url, "--key", workshop.pin, "--topics", topic, "--count", "30", "--for", "20s", "-o", "json"]);
  const timer = setInterval(() => redis.publish(topic, quote(500 + Math.round(Math.random() * 1000))), 30);
  const lines = (await tail).stdout.trim().split("\n").map((line) => JSON.parse(line) as { event?: string; seq: number });
  clearInterval(timer);
  await new Promise((resolve) => setTimeout(resolve, 100));
  redis.publish(topic, quote(4321));
  await cellIs(topic, 2, "4321.00");
  const ticks = lines.filter((line) => line.event === undefined);
  assert.equal(ticks.length, 30);
  const seq = Number(await page.getAttribute(`tr[data-topic="${topic}"]`, "data-seq"));
  assert.equal(Number(await cell(topic, 6)), seq, "a tick for every sequence number");
  assert.ok(seq > ticks.at(-1)!.seq);
  const again = await promisify(execFile)(workshop.program("sealctl"), ["tail", gateway.url, "--key", workshop.pin, "--topics", topic, "--for", "1s", "-o", "json"]);
  const snapshot = again.stdout.trim().split("\n").map((line) => JSON.parse(line)).find((line) => line.event === "snapshot");
  assert.deepEqual([snapshot.seq, snapshot.payload], [seq, quote(4321)]);
  noFaults();
});

test("search and patterns", async () => {
  await open();
  await connected();
  await subscribe("shop:apples shop:pears");
  redis.publish("shop:apples", "3");
  redis.publish("shop:pears", "4");
  await cellIs("shop:apples", 4, "3");
  await page.fill("#search", "PEAR");
  await page.waitForFunction(() => document.querySelectorAll("#watch tbody tr").length === 1);
  await cellIs("shop:pears", 4, "4");
  await page.fill("#pattern", "a*");
  await page.press("#pattern", "Enter");
  assert.match((await page.textContent("#refused"))!, /no name and no pattern/);
  noFaults();
});

/** Waits until a canvas has pixels of one colour, and none of the other. */
async function drawnIn(selector: string, shown: string, gone: string): Promise<void> {
  await page.waitForFunction(([s, ...colors]) => {
    const canvas = document.querySelector<HTMLCanvasElement>(`${s} canvas`)!;
    const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
    const [yes, no] = colors.map((color) => {
      const [r, g, b] = color.match(/../g)!.map((two) => parseInt(two, 16));
      return data.some((value, i) => i % 4 === 0 && value === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255);
    });
    return yes && !no;
  }, [selector, shown, gone] as const);
}

test("echo benchmark: a figure for every suite, and a chart; charts follow the theme", async () => {
  const { topic, stop } = feed(redis);
  await open();
  await connected();
  await page.click("#bench");
  await page.waitForSelector("#bench-chart canvas", { timeout: 30_000 });
  const rows = await page.locator("#bench-table tbody tr").allTextContents();
  assert.equal(rows.length, 3);
  for (const row of rows) assert.match(row, /^(aes-(128|256)-gcm|chacha20-poly1305)[\d,.]+ms|^(aes-(128|256)-gcm|chacha20-poly1305)[\d,.]+ ms/, row);
  stop();
  const [light, dark] = ["1f5fbf", "7fb0ff"]; // --accent
  for (const [scheme, shown, gone] of [["dark", dark, light], ["light", light, dark]] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const selector of ["#bench-chart", "#figures-ticks", `tr[data-topic="${topic}"]`]) await drawnIn(selector, shown, gone);
  }
  noFaults();
});

test("by keyboard alone: everything that can be operated is reached in order, and works", async () => {
  const { topic, stop } = feed(redis);
  await open();
  await connected();
  const { keyboard } = page;
  const focused = () => page.evaluate(() => {
    const { id, className, textContent, tagName } = document.activeElement!;
    return id || className || (tagName === "BUTTON" ? textContent! : tagName);
  });
  const order = ["pattern", "Subscribe", "search", "scroll", "suite", "rate", "seal", "token", "Apply", "sealed", "opened", "bench"];
  for (const wanted of order) {
    await keyboard.press("Tab");
    assert.equal(await focused(), wanted);
    assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement!).outlineStyle), "solid", `${wanted} shows that it has the focus`);
  }
  let at = order.length - 1;
  const go = async (to: string) => {
    for (; at !== order.indexOf(to); at += at < order.indexOf(to) ? 1 : -1) await keyboard.press(at < order.indexOf(to) ? "Tab" : "Shift+Tab");
    assert.equal(await focused(), to);
  };
  await go("pattern");
  await keyboard.press("Control+A");
  await keyboard.type("md:page:**");
  await go("Subscribe");
  await keyboard.press("Space");
  await connected();
  await page.waitForSelector(`tr[data-topic="${topic}"]`);
  redis.publish("md:page:other:ticker", quote(7));
  await page.waitForSelector('tr[data-topic="md:page:other:ticker"]');
  await go("search");
  await keyboard.type(topic.split(":")[2]);
  await page.waitForSelector('tr[data-topic="md:page:other:ticker"]', { state: "detached" });
  await go("suite");
  await keyboard.type("chacha");
  await go("rate");
  await keyboard.press("ArrowDown");
  await go("seal");
  await keyboard.type("once");
  await go("Apply");
  await keyboard.press("Enter");
  await factIs("Suite", /^chacha20-poly1305$/);
  assert.deepEqual(await page.evaluate(() => ["suite", "rate", "seal"].map((id) => (document.getElementById(id) as HTMLSelectElement).value)), ["chacha20-poly1305", "10", "group"]);
  await page.waitForSelector(`tr[data-topic="${topic}"]`);
  await go("bench");
  await keyboard.press("Space");
  await page.waitForSelector("#bench-chart canvas", { timeout: 30_000 });
  stop();
  noFaults();
});

test("a gateway that is killed and comes back: the page says so and recovers", async () => {
  const mortal = await Gateway.start(workshop, settings(redis));
  const { topic, stop } = feed(redis);
  await page.goto(mortal.admin);
  await connected();
  await page.waitForSelector(`tr[data-topic="${topic}"]`);
  await mortal.stop();
  await page.waitForSelector("#trouble:not([hidden])");
  assert.match((await page.textContent("#trouble"))!, /gateway is away/);
  await page.waitForSelector(`tr.stale[data-topic="${topic}"]`);
  const again = await Gateway.start(workshop, settings(redis), mortal.ports);
  await connected();
  await page.waitForSelector("#trouble", { state: "hidden" });
  const seq = Number(await page.getAttribute(`tr[data-topic="${topic}"]`, "data-seq"));
  await page.waitForFunction(([t, n]) => Number(document.querySelector(`tr[data-topic="${t}"]`)?.getAttribute("data-seq")) !== n, [topic, seq] as const);
  await page.waitForSelector(`tr:not(.stale)[data-topic="${topic}"]`);
  stop();
  noFaults(/ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|WebSocket connection to/); // while it was away
  await page.goto("about:blank");
  await again.stop();
});

test("an admin token is asked for, and nothing is known before", async () => {
  const guarded = await Gateway.start(workshop, { ...settings(redis), "admin.token": "let-me-in" });
  const { topic, stop } = feed(redis);
  await page.goto(guarded.admin);
  await page.waitForSelector("#admin-login:not([hidden])");
  assert.equal(await page.locator(`tr[data-topic="${topic}"]`).count(), 0);
  await page.keyboard.type("wrong");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("admin-note")!.textContent!.includes("does not take") && !document.getElementById("admin-login")!.hidden);
  await page.fill("#admin-token", "let-me-in");
  await page.keyboard.press("Enter");
  await connected();
  await page.waitForSelector(`tr[data-topic="${topic}"]`);
  stop();
  noFaults(/401/);
  await page.goto("about:blank");
  await guarded.stop();
});

test("over plain http on another host than this one the page says what is missing", async () => {
  const port = await freePort();
  const reachable = await Gateway.start(workshop, { ...settings(redis), "admin.listen": `0.0.0.0:${port}` }, { listen: await freePort(), admin: port });
  await page.goto(`http://elsewhere.test:${port}/`);
  await page.waitForSelector("#trouble:not([hidden])");
  assert.match((await page.textContent("#trouble"))!, /only over https/);
  assert.equal(await page.locator("#watch tbody tr").count(), 0);
  noFaults(/^request: http:\/\/elsewhere\.test|Cross-Origin-Opener-Policy/);
  await page.goto("about:blank");
  await reachable.stop();
});
