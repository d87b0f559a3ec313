// The client in Node against the real gateway, with a real redis-server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import WebSocket from "ws";
import type { WebSocketConstructor } from "../src/channel.js";
import { Client, type ClientOptions } from "../src/client.js";
import { measureEcho } from "../src/echo.js";
import type { SubscriptionEvent } from "../src/events.js";
import { Gateway, Line, Redis, Workshop } from "./gateway.js";
import { textOf } from "./source.js";
import { seeded, until } from "./tools.js";

const topics = JSON.stringify([{ match: "**", policy: "every", snapshot: true, history: 10_000 }]);
let workshop: Workshop;
let redis: Redis;
let settings: Record<string, string>;
let gateway: Gateway;

before(async () => {
  workshop = new Workshop();
  redis = await Redis.start();
  settings = {
    "redis.mode": "standalone", "redis.addrs": redis.address, topics, "cipher.allow_plain": "true",
    "batch.max_delay": "2ms", "compress.min_bytes": "64",
  };
  gateway = await Gateway.start(workshop, settings);
});

after(async () => {
  await gateway.stop();
  redis.stop();
  workshop.remove();
});

function client(options: Partial<ClientOptions> = {}, url = gateway.url): Client {
  return new Client(url, { pins: [workshop.pin], WebSocket: WebSocket as unknown as WebSocketConstructor, ...options });
}

const payload = (n: number) => `{"n":${n},"bid":"64230.15","ask":"64230.16","note":"a quote like any other, so that it can be compressed"}`;
const numbers = (events: SubscriptionEvent[]) => events.filter((e) => e.type === "tick").map((e) => JSON.parse(textOf(e.payload)).n as number);
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i);
let names = 0;

/** Publishes n ticks to a new topic and waits until the client has them. */
async function follow(c: Client, n: number): Promise<SubscriptionEvent[]> {
  const topic = `test:${++names}`;
  const events: SubscriptionEvent[] = [];
  await c.subscribe(`${topic}:*`, { onEvent: (event) => events.push(event) }).ready;
  for (let i = 0; i < n; i++) redis.publish(`${topic}:${i % 3}`, payload(i));
  await until(() => numbers(events).length >= n, `${n} ticks, ${events.length} came`);
  return events;
}

for (const suite of ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "plain"] as const) {
  for (const [postQuantum, codec] of [["off", "zstd"], ["required", "snappy"]] as const) {
    test(`${suite}, post-quantum ${postQuantum}, ${codec}: every tick in order`, async () => {
      const packed = { records: 0, bytes: 0, unpacked: 0 };
      const c = client({
        suites: [suite], postQuantum, compression: [codec],
        onRecord(record) {
          if (!record.batch) return;
          packed.records++;
          packed.bytes += record.packed;
          packed.unpacked += record.unpacked;
        },
      });
      const events = await follow(c, 500);
      assert.deepEqual(numbers(events), upTo(500));
      assert.ok(c.status.state === "connected");
      const { connection } = c.status;
      assert.deepEqual([connection.suite, connection.hybrid, connection.codec, connection.key, connection.pinned], [suite, postQuantum === "required", codec, workshop.pin, true]);
      assert.ok(packed.records > 0 && packed.bytes < packed.unpacked / 2, JSON.stringify(packed));
      assert.ok((await c.ping()) > 0);
      await c.close();
    });
  }
}

test("a group: records that were sealed once, with their marks", async () => {
  const group = await Gateway.start(workshop, { ...settings, "fanout.seal": "group", loops: "1", "heartbeat.interval": "1s" });
  const members = [client({ groups: true }, group.url), client({ groups: true }, group.url), client({}, group.url)];
  const topic = `test:${++names}`;
  const all = members.map(() => [] as SubscriptionEvent[]);
  await Promise.all(members.map((c, i) => c.subscribe(`${topic}:**`, { onEvent: (e) => all[i].push(e) }).ready));
  let sent = 0;
  const next = () => {
    for (let i = 0; i < 20; i++, sent++) redis.publish(`${topic}:a`, payload(sent));
  };
  await until(() => {
    next();
    return members[0].stats().groupRecords > 20 && members[1].stats().groupRecords > 20;
  }, "group records");
  await new Promise((resolve) => setTimeout(resolve, 1500)); // a heartbeat, with a mark
  next();
  for (const events of all) await until(() => numbers(events).length === sent, `${sent} ticks`);
  for (const events of all) assert.deepEqual(numbers(events), upTo(sent));
  assert.equal(members[2].stats().groupRecords, 0);
  assert.deepEqual(members.map((c) => c.stats().connections), [1, 1, 1]);
  await Promise.all(members.map((c) => c.close()));
  await group.stop();
});

test("a cut line, again and again: no tick is lost, comes twice, or out of order", async (t) => {
  const random = seeded(8);
  const line = await Line.to(gateway.ports.listen);
  const c = client({ random: () => 0 }, line.url);
  const topic = `test:${++names}`;
  const events: SubscriptionEvent[] = [];
  await c.subscribe(`${topic}:**`, { onEvent: (event) => events.push(event) }).ready;
  const total = 3000;
  for (let i = 0; i < 6; i++) redis.publish(`${topic}:${i}`, payload(i)); // announces them
  await until(() => numbers(events).length === 6, "the first ticks");
  for (let i = 6; i < total; i++) {
    redis.publish(`${topic}:${i % 6}`, payload(i));
    if (i % 20 === 0) await new Promise((resolve) => setTimeout(resolve, random() * 40));
    if (random() < 0.004) line.cut();
  }
  await until(() => numbers(events).length >= total, "all ticks");
  for (let k = 0; k < 6; k++) assert.deepEqual(numbers(events).filter((n) => n % 6 === k), upTo(total).filter((n) => n % 6 === k));
  assert.equal(numbers(events).length, total);
  const { connections, resumptions, gaps, resets } = c.stats();
  t.diagnostic(`${total} ticks over ${connections} connections, ${resumptions} of them resumed`);
  assert.deepEqual([gaps, resets], [0, 0]);
  assert.ok(connections > 3 && resumptions > 0, `${connections}, ${resumptions}`); // a cut handshake spends its ticket
  await c.close();
  line.close();
});

test("streams: a client that is cut goes on at another gateway where it stopped", async (t) => {
  const streams = { ...settings, "redis.source": "streams" };
  const both = [await Gateway.start(workshop, streams), await Gateway.start(workshop, streams)];
  const line = await Line.to(both[0].ports.listen);
  const visits = [0, 0];
  const at = () => both.findIndex((g) => g.ports.listen === line.port);
  const c = client({ random: () => 0, resume: false, onStatus: (s) => s.state === "connected" && visits[at()]++ }, line.url);
  const topic = `test:${++names}`;
  const events: SubscriptionEvent[] = [];
  await c.subscribe(`${topic}:**`, { onEvent: (event) => events.push(event) }).ready;
  let sent = 0;
  const add = (n: number) => {
    for (let i = 0; i < n; i++, sent++) redis.add(`${topic}:${sent % 6}`, payload(sent));
  };
  add(60);
  await until(() => numbers(events).length === sent, "the first ticks");
  const settled = () => new Promise((resolve) => setTimeout(resolve, 300)); // a cursor is a record of its own behind its ticks
  await settled();
  for (let move = 1; move <= 4; move++) {
    line.port = both[move % 2].ports.listen;
    line.cut();
    add(200); // while the client is nowhere
    await until(() => c.stats().connections === 1 + move, "back");
    add(200);
    await until(() => numbers(events).length >= sent, `all ticks after move ${move}`);
    await settled();
  }
  for (let k = 0; k < 6; k++) assert.deepEqual(numbers(events).filter((n) => n % 6 === k), upTo(sent).filter((n) => n % 6 === k));
  assert.equal(numbers(events).length, sent);
  const { gaps, resets } = c.stats();
  assert.deepEqual([gaps, resets, visits], [0, 0, [3, 2]]);
  t.diagnostic(`${sent} ticks, visits to the two gateways: ${visits.join(", ")}`);
  await c.close();
  line.close();
  await Promise.all(both.map((g) => g.stop()));
});

test("a gateway that is killed and comes back: a reset, then what follows", async () => {
  const mortal = await Gateway.start(workshop, settings);
  const c = client({ random: () => 0 }, mortal.url);
  const topic = `test:${++names}`;
  const events: SubscriptionEvent[] = [];
  await c.subscribe(topic, { onEvent: (event) => events.push(event) }).ready;
  redis.publish(topic, payload(0));
  await until(() => numbers(events).length === 1, "the first");
  await mortal.stop();
  await until(() => c.status.state === "waiting", "waiting");
  const again = await Gateway.start(workshop, settings, mortal.ports);
  await until(() => c.stats().connections === 2 && events.filter((e) => e.type === "subscribed").length === 2, "back");
  redis.publish(topic, payload(1));
  await until(() => numbers(events).length === 2, "the second");
  assert.deepEqual(events.map((e) => e.type).filter((type) => type !== "snapshot"), ["topic", "subscribed", "tick", "reset", "subscribed", "tick"]);
  await again.stop("SIGTERM");
  await c.close();
});

test("a gateway that drains says goodbye, and the client comes back by itself", async () => {
  const draining = await Gateway.start(workshop, { ...settings, "drain.window": "100ms" });
  const reasons: string[] = [];
  const c = client({ random: () => 0, onStatus: (s) => s.state === "waiting" && reasons.push(s.reason.message) }, draining.url);
  await c.subscribe("md:x").ready;
  await draining.stop("SIGTERM");
  await until(() => reasons.length > 0, "a goodbye");
  assert.match(reasons[0], /\(1012\)/);
  await c.close();
});

test("a wrong pin, a wrong realm, and a suite that the gateway refuses", async () => {
  const strict = await Gateway.start(workshop, { ...settings, "cipher.allow_plain": "false" });
  const codes: string[] = [];
  for (const options of [{ pins: ["A".repeat(43)] }, { realm: "another" }, { suites: ["plain"] }] as Partial<ClientOptions>[]) {
    const c = client({ ...options, onStatus: (s) => s.state === "waiting" && codes.push(s.reason.code) }, strict.url);
    await until(() => c.status.state === "waiting", "waiting");
    await c.close();
  }
  assert.deepEqual(codes, ["pin", "protocol", "unreachable"]);
  await strict.stop();
});

test("echo, by every suite", async () => {
  for (const suite of ["aes-128-gcm", "chacha20-poly1305"] as const) {
    const result = await measureEcho(gateway.echo, { suite, pins: [workshop.pin], size: 256, window: 8, duration: 100, WebSocket: WebSocket as unknown as WebSocketConstructor });
    assert.ok(result.messages >= 8 && result.times[0] > 0);
  }
});
