// One tab of a real Chromium shows 5,000 ticks a second over 200 topics for a
// minute, and in the end has every single one of them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium, type Browser, type CDPSession, type Page } from "playwright-core";
import { Gateway, Redis, Workshop } from "../../sdk/test/gateway.js";
import { chromiumPath, settings, shot } from "./stage.js";

const rate = 5000;
const seconds = 60;
const topics = Array.from({ length: 200 }, (_, i) => `md:load:S${String(i).padStart(3, "0")}:ticker`);
const watched = topics.filter((_, i) => i % 40 === 0); // whose delays are measured
const total = rate * seconds;
const mostDelay = 3000; // milliseconds; a page that falls behind by 5% reaches it within the minute

let workshop: Workshop;
let redis: Redis;
let gateway: Gateway;
let browser: Browser;
let page: Page;
let devtools: CDPSession;

before(async () => {
  workshop = new Workshop();
  redis = await Redis.start();
  gateway = await Gateway.start(workshop, settings(redis));
  browser = await chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
  devtools = await page.context().newCDPSession(page);
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  redis?.stop();
  workshop?.remove();
});

/** A price is the number of its tick among those of its topic, so that what is shown tells when it was published. */
const payload = (n: number) => `{"symbol":"BTC-USD","bid":${n},"ask":${n + 1},"last":${n}}`;

/** Publishes to all topics in turn, at a steady rate; resolves with the times of the watched ones' ticks. */
async function publish(): Promise<Map<string, number[]>> {
  const times = new Map(watched.map((topic) => [topic, [] as number[]]));
  const start = performance.now();
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - start) * rate) / 1000));
    for (; sent < due; sent++) {
      const topic = topics[sent % topics.length];
      times.get(topic)?.push(Date.now());
      redis.publish(topic, payload(1 + Math.floor(sent / topics.length)));
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return times;
}

/** Notes in the page when a watched topic's price is shown. */
async function watch(): Promise<void> {
  await page.evaluate((names) => {
    const shown: [topic: string, price: number, at: number][] = [];
    Object.assign(globalThis, { shown });
    const follow = (row: Element) => {
      const last = row.children[3];
      const note = () => shown.push([row.getAttribute("data-topic")!, parseFloat(last.textContent!), Date.now()]);
      new MutationObserver(note).observe(last, { childList: true });
    };
    const seen = new Set<Element>();
    new MutationObserver(() => {
      for (const name of names) {
        const row = document.querySelector(`tr[data-topic="${name}"]`);
        if (row && !seen.has(row)) follow(row);
        if (row) seen.add(row);
      }
    }).observe(document.querySelector("#watch tbody")!, { childList: true });
  }, watched);
}

/** Seconds that the page's main thread has worked so far. */
async function busy(): Promise<number> {
  const { metrics } = await devtools.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "TaskDuration")!.value;
}

/** Milliseconds from publishing to showing, in the order of showing. */
async function delays(published: Map<string, number[]>): Promise<number[]> {
  const shown = await page.evaluate(() => (globalThis as unknown as { shown: [string, number, number][] }).shown);
  return shown.map(([topic, price, at]) => at - published.get(topic)![price - 1]);
}

const quantile = (values: number[], part: number) => values.slice().sort((a, b) => a - b)[Math.floor(part * (values.length - 1))];

/** Every row shows all ticks of its topic, and the last price; the facts say that none was merged or lost. */
async function complete(): Promise<void> {
  const each = total / topics.length;
  const rows = () => page.locator("#watch tbody tr").evaluateAll((all) => all.map((row) => [row.getAttribute("data-topic"), row.getAttribute("data-seq"), parseFloat(row.children[3].textContent!), row.children[5].textContent]));
  const shown = ([n, rows]: [string, number]) => [...document.querySelectorAll("#watch tbody tr")].filter((row) => row.getAttribute("data-seq") === n).length === rows;
  await page.waitForFunction(shown, [String(each), topics.length] as [string, number], { timeout: 2 * mostDelay });
  assert.deepEqual(await rows(), topics.map((topic) => [topic, String(each), each, String(each)]));
  await page.waitForFunction((n) => document.querySelector('[data-fact="Ticks"]')!.textContent!.startsWith(`${n}, `), total.toLocaleString("en"), { timeout: 10_000 });
  assert.equal(await page.textContent('[data-fact="Merged"]'), "0 ticks");
  assert.equal(await page.textContent('[data-fact="Gaps"]'), "0, 0 ticks lost; 0 resets");
  assert.equal(await page.textContent('[data-fact="Connections"]'), "1, 0 resumed");
}

test("5,000 ticks a second over 200 topics for a minute", async (t) => {
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  await page.goto(gateway.admin);
  await page.waitForSelector('#state[data-state="connected"]', { timeout: 20_000 });
  await page.fill("#pattern", "md:load:**");
  await page.press("#pattern", "Enter");
  await page.waitForFunction(() => document.getElementById("more")!.textContent === "No topic yet.");
  await page.waitForSelector('#state[data-state="connected"]', { timeout: 20_000 });
  await watch();
  await devtools.send("Performance.enable");
  const [before, began] = [await busy(), performance.now()];
  const published = await publish();
  const share = ((await busy()) - before) / ((performance.now() - began) / 1000);
  await complete();
  await page.screenshot({ path: shot("minute") });

  const all = await delays(published);
  const late = all.slice(-Math.floor(all.length / 4));
  const figures = (values: number[]) => [0.5, 0.9, 0.99, 1].map((part) => `${quantile(values, part)} ms`).join(", ");
  t.diagnostic(`${total} ticks over ${topics.length} topics in ${seconds} s; main thread busy ${(100 * share).toFixed(1)}% of the time`);
  t.diagnostic(`from publishing to showing (p50, p90, p99, most): ${figures(all)} over the minute, ${figures(late)} in its last quarter`);
  assert.ok(all.length > 100, `${all.length} values shown`);
  assert.ok(quantile(late, 0.99) < mostDelay, "the page falls behind");
  assert.deepEqual(faults, []);
});
