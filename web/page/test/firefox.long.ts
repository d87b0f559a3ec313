// What the page does, in Firefox: the parts that depend on the browser.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, Redis, Workshop } from "../../sdk/test/gateway.js";
import { Firefox } from "./firefox.js";
import { feed, newTopic, quote, settings, shot } from "./stage.js";

let workshop: Workshop;
let redis: Redis;
let gateway: Gateway;
let firefox: Firefox;

before(async () => {
  workshop = new Workshop();
  redis = await Redis.start();
  gateway = await Gateway.start(workshop, settings(redis));
  firefox = await Firefox.start();
});

after(async () => {
  await firefox?.stop();
  await gateway?.stop();
  redis?.stop();
  workshop?.remove();
});

const connected = () => firefox.until(() => document.querySelector('#state[data-state="connected"]') !== null);
const factIs = (name: string, pattern: string) => firefox.until((n, p) => new RegExp(p).test(document.querySelector(`[data-fact="${n}"]`)?.textContent ?? ""), name, pattern);
const cellIs = (topic: string, n: number, text: string) => firefox.until((t, i, wanted) => document.querySelector(`tr[data-topic="${t}"] td:nth-child(${i})`)?.textContent === wanted, topic, n, text);
const troubleIs = (pattern: string) => firefox.until((p) => new RegExp(p).test(document.getElementById("trouble")!.textContent!), pattern);
const sequenceOver = (topic: string, seq: number) => firefox.until((t, n) => Number(document.querySelector(`tr:not(.stale)[data-topic="${t}"]`)?.getAttribute("data-seq")) > n, topic, seq);

test("ticks change, with what is known of the connection, and a screenshot for people", async () => {
  const { topic, stop, bid } = feed(redis);
  await firefox.open(gateway.admin);
  await connected();
  await firefox.enter("#pattern", "md:page:**");
  await sequenceOver(topic, 20);
  await factIs("Suite", "^aes-128-gcm$");
  await factIs("Gateway's key", workshop.pin);
  await factIs("Pin", "matches");
  await factIs("Hybrid", "yes");
  await factIs("Redis", "connected");
  await firefox.until(() => /^\d+ bytes\n10 /.test(document.getElementById("sealed")!.textContent!));
  stop();
  await cellIs(topic, 2, bid().toFixed(2));
  await firefox.screenshot(shot("firefox"));
  assert.deepEqual(firefox.faults, []);
});

test("every suite, for this session and for a group: all ticks are counted", async () => {
  await firefox.open(gateway.admin);
  await connected();
  for (const suite of ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"]) {
    for (const seal of ["session", "group"]) {
      const topic = newTopic();
      const choose = (s: string, how: string) => {
        document.querySelector<HTMLSelectElement>("#suite")!.value = s;
        document.querySelector<HTMLSelectElement>("#seal")!.value = how;
      };
      await firefox.call(choose, suite, seal);
      await firefox.enter("#pattern", topic);
      await factIs("Suite", `^${suite}$`);
      await firefox.until((t) => document.querySelector(`tr[data-topic="${t}"]`) !== null, topic);
      for (let i = 1; i <= 300; i++) redis.publish(topic, quote(i));
      await cellIs(topic, 2, "300.00");
      await cellIs(topic, 6, "300");
    }
  }
  assert.deepEqual(firefox.faults, []);
});

test("a key that is not the pin is refused, in words and without data", async () => {
  const { topic, stop } = feed(redis);
  await firefox.open(`${gateway.admin}/#pin=${"A".repeat(43)}`);
  await troubleIs("No data is shown: the gateway's key .* is none of the pins");
  assert.equal(await firefox.call((t) => document.querySelector(`tr[data-topic="${t}"]`) === null, topic), true);
  stop();
  assert.deepEqual(firefox.faults, []);
});

test("echo benchmark: a figure for every suite, and a chart", async () => {
  await firefox.open(gateway.admin);
  await connected();
  await firefox.call(() => document.getElementById("bench")!.click());
  await firefox.until(() => document.querySelector("#bench-chart canvas") !== null);
  const rates = await firefox.call(() => [...document.querySelectorAll("#bench-table tbody tr")].map((row) => parseFloat(row.children[1].textContent!)));
  assert.ok(rates.length === 3 && rates.every((rate) => rate > 0), JSON.stringify(rates));
  assert.deepEqual(firefox.faults, []);
});

test("a gateway that is killed and comes back: the page says so and recovers", async () => {
  const mortal = await Gateway.start(workshop, settings(redis));
  const { topic, stop } = feed(redis);
  await firefox.open(mortal.admin);
  await connected();
  await sequenceOver(topic, 0);
  await mortal.stop();
  await troubleIs("gateway is away");
  const again = await Gateway.start(workshop, settings(redis), mortal.ports);
  await connected();
  await troubleIs("^$");
  await sequenceOver(topic, 0);
  stop();
  await firefox.open("about:blank");
  await again.stop();
});
