// The client against a gateway in memory: what it checks, how it comes back,
// what it tells.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { fromBase64Url } from "../src/bytes.js";
import { Client, type ClientOptions, type Notice, type Status } from "../src/client.js";
import { backoff, hintOf, ruleOf } from "../src/codes.js";
import { measureEcho } from "../src/echo.js";
import type { SubscriptionEvent } from "../src/events.js";
import { EventQueue } from "../src/queue.js";
import { FakeGateway, type FakeOptions, type FakeSession } from "./fake.js";
import { batchOf, Source, textOf } from "./source.js";

interface World {
  gateway: FakeGateway;
  source: Source;
  client: Client;
  statuses: Status[];
  notices: Notice[];
}

/** A gateway with a source, and a client of it; delays of reconnecting are as short as they may be. */
async function world(options: FakeOptions = {}, client: Partial<ClientOptions> = {}): Promise<World> {
  const source = new Source({ history: 100, random: () => 0.5 });
  const gateway = await FakeGateway.make({ onFrame: (session, frame) => source.answer(session, frame), ...options });
  const statuses: Status[] = [];
  const notices: Notice[] = [];
  const made = new Client("ws://fake/ws", {
    pins: [gateway.pin], realm: "tests", WebSocket: gateway.WebSocket, random: () => 0, postQuantum: "off",
    onStatus: (status) => statuses.push(status), onNotice: (notice) => notices.push(notice), ...client,
  });
  return { gateway, source, client: made, statuses, notices };
}

async function until<T>(reached: () => T | undefined | false, what: string): Promise<T> {
  const deadline = performance.now() + 10_000;
  while (performance.now() < deadline) {
    const value = reached();
    if (value) return value;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`never: ${what}`);
}

const connected = ({ client }: World) => until(() => client.status.state === "connected", "connected");
const waiting = ({ statuses }: World, what = "waiting") =>
  until(() => statuses.find((s): s is Extract<Status, { state: "waiting" }> => s.state === "waiting"), what);
const closedFor = ({ client }: World) => client.closed.then(() => undefined, (error) => error);

async function take(events: AsyncIterator<SubscriptionEvent>, n: number): Promise<SubscriptionEvent[]> {
  const all = [];
  for (let i = 0; i < n; i++) all.push((await events.next()).value as SubscriptionEvent);
  return all;
}

const empty = new Uint8Array(0);

test("subscribe, tick, unsubscribe, goodbye", async () => {
  const w = await world({}, { token: "secret" });
  const subscription = w.client.subscribe("md:*");
  await subscription.ready;
  w.source.publish("md:a", "one");
  w.source.publish("fx:a", "not ours");
  w.source.publish("md:a", "two");
  const events = await take(subscription[Symbol.asyncIterator](), 4);
  assert.deepEqual(events.map((e) => e.type), ["subscribed", "topic", "tick", "tick"]);
  const { epoch } = w.source.topics.get("md:a")!;
  assert.deepEqual(events[2], { type: "tick", topic: "md:a", epoch, seq: 1, merged: 0, time: 1_790_000_000_000_000, payload: new Uint8Array(Buffer.from("one")) });
  const session = w.gateway.open[0];
  assert.equal(session.token, "secret");
  subscription.close();
  await until(() => session.filters.size === 0 && w.client.subscribe("md:*").ready.then(() => true), "again");
  await w.client.close();
  assert.equal((await until(() => session.goodbye, "the goodbye")).code, 1000);
  assert.equal(session.closeCode, 1000);
  assert.equal(await closedFor(w), undefined);
  assert.deepEqual(w.statuses.map((s) => s.state), ["connecting", "connected", "closed"]);
});

test("leaving a loop closes the subscription, and a second one of the topic is told where it stands", async () => {
  const w = await world();
  const first = w.client.subscribe("md:a");
  await first.ready;
  w.source.publish("md:a", "one");
  for await (const event of first) if (event.type === "tick") break;
  const second = w.client.subscribe(["md:a", "md:b"]);
  await second.ready;
  w.source.publish("md:a", "two");
  for await (const event of second) {
    if (event.type !== "tick") continue;
    assert.equal(textOf(event.payload), "two");
    break;
  }
  await w.client.close();
});

test("overlapping subscriptions get their ticks, each once", async () => {
  const w = await world();
  const seen: Record<string, string[]> = { all: [], one: [] };
  const note = (name: string) => (event: SubscriptionEvent) => event.type === "tick" && seen[name].push(textOf(event.payload));
  const all = w.client.subscribe("md:**", { onEvent: note("all") });
  const one = w.client.subscribe("md:a", { onEvent: note("one") });
  await Promise.all([all.ready, one.ready]);
  w.source.publish("md:a", "1");
  w.source.publish("md:b", "2");
  await until(() => seen.all.length === 2, "two ticks");
  assert.deepEqual(seen, { all: ["1", "2"], one: ["1"] });
  one.close();
  w.source.publish("md:a", "3");
  await until(() => seen.all.length === 3, "the third");
  assert.deepEqual(seen.one, ["1"]);
  assert.throws(() => w.client.subscribe("md:**", { maxRate: 2 }), { code: "options" });
  await w.client.close();
});

test("a filter that is refused", async () => {
  const w = await world();
  const subscription = w.client.subscribe(["secret:x", "md:a"]);
  await assert.rejects(subscription.ready, { code: "refused", closeCode: 4403 });
  const events = await take(subscription[Symbol.asyncIterator](), 3);
  assert.deepEqual(events.map((e) => e.type).sort(), ["refused", "subscribed", "topic"]);
  w.gateway.open[0].send({ error: { id: 0, code: 4403, text: "taken away", filter: "md:a" } });
  assert.deepEqual(await take(subscription[Symbol.asyncIterator](), 1), [{ type: "refused", filter: "md:a", code: 4403, text: "taken away" }]);
  await w.client.close();
});

test("a gateway with another key gets no token and is left with 4403", async () => {
  const other = await FakeGateway.make();
  const w = await world({}, { pins: [other.pin], token: "secret" });
  const { reason, delay } = await waiting(w);
  assert.equal(reason.code, "pin");
  assert.match(reason.message, /none of the pins/);
  assert.equal(delay, 10_000);
  assert.equal(w.gateway.sessions[0].token, "");
  assert.equal(w.gateway.sessions[0].closeCode, 4403);
  await w.client.close();
});

test("one of several pins is enough, and any key if the user wants that", async () => {
  const other = await FakeGateway.make();
  const gateway = await FakeGateway.make();
  for (const pins of [[other.pin, gateway.pin], "any"] as const) {
    const client = new Client("ws://fake/ws", { pins, realm: "tests", WebSocket: gateway.WebSocket });
    const status = await until(() => client.status.state === "connected" && client.status, "connected");
    assert.equal(status.connection.key, gateway.pin);
    assert.equal(status.connection.pinned, pins !== "any");
    assert.equal(status.connection.hybrid, true);
    await client.close();
  }
});

test("what the upgrade must not do", async () => {
  const cases: [FakeOptions, RegExp][] = [
    [{ protocol: () => "" }, /no suite that was offered/],
    [{ protocol: () => "sealcast.v1.plain" }, /no suite that was offered/],
    [{ extensions: "permessage-deflate" }, /extension/],
    [{ realm: "another" }, /does not open/],
    [{ tamper: (m) => (m[0] === 2 ? m.slice(0, -1) : m) }, /wrong kind or length/],
    [{ tamper: (m) => (m[0] === 2 ? m.map((byte, i) => (i === 40 ? byte ^ 1 : byte)) : m) }, /does not open/],
  ];
  for (const [options, text] of cases) {
    const w = await world(options);
    const { reason } = await waiting(w);
    assert.match(reason.message, text);
    assert.equal(w.gateway.sessions[0].closeCode, 4400);
    await w.client.close();
  }
});

test("post-quantum agreement: off, preferred and required", async () => {
  for (const [postQuantum, hybrid] of [["off", false], ["preferred", true], ["required", true]] as const) {
    const w = await world({}, { postQuantum });
    await connected(w);
    assert.equal(w.gateway.sessions[0].hybrid, hybrid);
    await w.client.close();
  }
});

test("what a gateway must not send ends the session with 4400", async () => {
  const bad: [string, (session: FakeSession) => void][] = [
    ["a tick of an unknown topic", (s) => s.sendBatch(batchOf([{ topic: 9 }]))],
    ["sizes that do not fit", (s) => s.sendBatch({ ...batchOf([]), payloads: Uint8Array.of(1) })],
    ["skipped above seq", (s) => s.sendBatch(batchOf([{ seq: 1n, skipped: 2n }]))],
    ["a text message", (s) => s.raw("hello")],
    ["an unknown kind", (s) => s.raw(Uint8Array.of(0x7f))],
    ["an empty message", (s) => s.raw(empty)],
    ["a record that is no record", (s) => s.raw(new Uint8Array(40).fill(0x10))],
    ["a group record without a group", (s) => s.raw(new Uint8Array(40).fill(0x11))],
    ["Connected again", (s) => s.send({ connected: { session: "", user: "", codec: 0, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0, version: "", ticket: empty, ticketNonce: empty, ticketLifetimeS: 0, expiresAtS: 0n, dictionary: empty, groups: false, clockUs: 0n } })],
    ["a goodbye with a code that may not stand there", (s) => s.sayGoodbye({ code: 1005 }, false)],
    ["a mark without a group", (s) => s.send({ groupMark: { id: 1, counter: 0n, chain: new Uint8Array(32) } })],
  ];
  for (const [what, send] of bad) {
    const w = await world();
    await w.client.subscribe("md:a").ready;
    const session = w.gateway.open[0];
    send(session);
    const { reason } = await waiting(w, what);
    assert.equal(reason.code, "protocol", what);
    await until(() => session.closeCode === 4400, `${what}: ${session.closeCode}`);
    assert.equal(session.goodbye, undefined, what);
    await w.client.close();
  }
});

test("a codec that was not offered is refused", async () => {
  const w = await world({ connected: { codec: 2 } }, { compression: ["snappy"] });
  assert.match((await waiting(w)).reason.message, /codec that was not offered/);
  await w.client.close();
});

test("a goodbye decides whether the client comes back, a close code does not", async () => {
  const final = await world();
  await final.client.subscribe("md:a").ready;
  final.gateway.open[0].sayGoodbye({ code: 4403, text: "by the operator" });
  const error = await closedFor(final);
  assert.deepEqual([error.code, error.closeCode], ["closed", 4403]);
  assert.match(error.message, /by the operator/);

  const cut = await world();
  const subscription = cut.client.subscribe("md:a");
  await subscription.ready;
  cut.gateway.open[0].cut(4403);
  assert.equal((await waiting(cut)).delay, 500);
  await until(() => cut.client.stats().connections === 2, "back");
  await cut.client.close();
});

test("when the client ends for good, iterations throw the reason", async () => {
  const w = await world();
  const subscription = w.client.subscribe("md:a");
  await subscription.ready;
  w.gateway.open[0].sayGoodbye({ code: 4409, text: "replaced" });
  await assert.rejects(async () => {
    for await (const event of subscription) assert.ok(event);
  }, { closeCode: 4409 });
  assert.throws(() => w.client.subscribe("a*"), { code: "options" });
  await assert.rejects(w.client.subscribe("md:b").ready, { code: "closed" });
});

test("4401: with another token again, with the same one never", async () => {
  const same = await world({ accepts: (token) => token === "good" }, { token: "bad" });
  assert.equal((await closedFor(same)).closeCode, 4401);
  assert.equal(same.gateway.attempts, 1);

  let calls = 0;
  const fresh = await world({ accepts: (token) => token === "good" }, { token: () => (++calls === 1 ? "bad" : "good") });
  await connected(fresh);
  assert.equal(fresh.gateway.attempts, 2);
  await fresh.client.close();
});

test("a token that runs out is exchanged, and a refusal is told", async () => {
  const tokens: string[] = [];
  let n = 0;
  const w = await world(
    {
      onFrame(session, { refresh }) {
        if (!refresh) return;
        tokens.push(refresh.token);
        if (tokens.length === 1) session.send({ refreshed: { id: refresh.id, expiresAtS: 99n } });
        else session.send({ error: { id: refresh.id, code: 4403, text: "another subject", filter: "" } });
      },
    },
    { token: () => Promise.resolve(`t${++n}`) },
  );
  await connected(w);
  for (let i = 1; i <= 2; i++) {
    w.gateway.open[0].send({ notice: { kind: 5, text: "soon", merged: 0n, dropped: 0n, expiresAtS: 50n, topics: [] } });
    await until(() => tokens.length === i, "a refresh");
  }
  await until(() => w.notices.length === 3, "notices");
  assert.deepEqual(tokens, ["t2", "t3"]);
  assert.deepEqual(w.notices.map(({ kind, text }) => [kind, text]), [["token-expires", "soon"], ["token-expires", "soon"], ["token-refused", "another subject"]]);
  await w.client.close();
});

test("tickets: used once, and not where they may not be", async () => {
  const w = await world({ tickets: true });
  await connected(w);
  for (let i = 2; i <= 3; i++) {
    w.gateway.open[0].cut();
    await until(() => w.client.stats().connections === i, "back");
  }
  assert.deepEqual(w.gateway.sessions.map((s) => s.resumed), [false, true, true]);
  assert.equal(w.client.stats().resumptions, 2);
  w.gateway.tickets.clear(); // refused: the full handshake follows on the same connection
  w.gateway.open[0].cut();
  await until(() => w.client.stats().connections === 4, "back");
  assert.equal(w.gateway.attempts, 4);
  assert.equal(w.gateway.sessions[3].resumed, false);
  await w.client.close();

  const never = await world({ tickets: true }, { resume: false });
  await connected(never);
  never.gateway.open[0].cut();
  await until(() => never.client.stats().connections === 2, "back");
  assert.equal(never.gateway.sessions[1].resumed, false);
  await never.client.close();
});

test("gaps that are told, heads of heartbeats, snapshots and notices", async () => {
  const w = await world();
  const subscription = w.client.subscribe("md:a");
  await subscription.ready;
  const events = subscription[Symbol.asyncIterator]();
  await take(events, 2);
  const topic = w.source.topics.get("md:a")!;
  const epoch = BigInt(topic.epoch);
  const session = w.gateway.open[0];
  const number = topic.number;
  session.send({ gap: { topic: number, epoch, from: 1n, to: 4n, cause: 5 } });
  session.send({ gap: { topic: number, epoch: epoch + 1n, from: 1n, to: 40n, cause: 5 } });
  session.send({ heartbeat: { timeUs: 1n, heads: [{ topic: number, seq: 4n }], cursor: empty } });
  session.send({ heartbeat: { timeUs: 1n, heads: [{ topic: number, seq: 6n }], cursor: empty } });
  session.sendBatch(batchOf([{ topic: number, seq: 6n }, { topic: number, seq: 9n, skipped: 5n }, { topic: number, seq: 12n, skipped: 1n }]));
  session.send({ snapshot: { values: [{ topic: number, epoch, seq: 3n, timeUs: 5n, payload: empty, stale: true }] } });
  session.sendBatch(batchOf([{ topic: number, reset: { epoch: 77n, nextSeq: 5n, cause: 99, topic: number, at: 0 } }]));
  session.send({ notice: { kind: 3, text: "Redis is away", merged: 0n, dropped: 0n, expiresAtS: 0n, topics: [number] } });
  session.send({ notice: { kind: 99, text: "from the future", merged: 0n, dropped: 0n, expiresAtS: 0n, topics: [] } });
  const seen = (await take(events, 7)).map((e) => ({ ...e, payload: undefined, topic: undefined, epoch: undefined, time: undefined }));
  const plain = { payload: undefined, topic: undefined, epoch: undefined, time: undefined };
  assert.deepEqual(seen, [
    { ...plain, type: "gap", from: 1, to: 4, cause: "too-slow" },
    { ...plain, type: "gap", from: 5, to: 6, cause: "skipped" },
    { ...plain, type: "tick", seq: 9, merged: 2 },
    { ...plain, type: "gap", from: 10, to: 10, cause: "skipped" },
    { ...plain, type: "tick", seq: 12, merged: 1 },
    { ...plain, type: "snapshot", seq: 3, stale: true },
    { ...plain, type: "reset", nextSeq: 5, cause: "unspecified" },
  ]);
  await until(() => w.notices.length === 1, "the notice");
  assert.deepEqual(w.notices[0], { kind: "source-lost", text: "Redis is away", merged: 0, dropped: 0, topics: ["md:a"] });
  assert.ok((await w.client.ping()) >= 0);
  await w.client.close();
});

test("silence: a gateway without a sign of life is given up with 4410", async () => {
  const w = await world({ connected: { heartbeatTimeoutMs: 60 } });
  await connected(w);
  const { reason } = await waiting(w);
  assert.deepEqual([reason.code, reason.closeCode], ["timeout", 4410]);
  assert.equal(w.gateway.sessions[0].closeCode, 4410);
  await w.client.close();
});

test("a gateway that does not answer is given up", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const w = await world({ tamper: (m) => (m[0] === 2 ? new Uint8Array(0) : m) }, { timeout: 4000 });
  const silent = await FakeGateway.make({ tamper: () => empty });
  assert.ok(silent.pin);
  await waiting(w);
  mock.timers.reset();
  await w.client.close();
});

test("positions are sent when coming back, and closing while waiting ends at once", async () => {
  const w = await world();
  const texts: string[] = [];
  await w.client.subscribe("md:**", { onEvent: (e) => e.type === "tick" && texts.push(textOf(e.payload)) }).ready;
  w.source.publish("md:a", "1");
  await until(() => texts.length === 1, "the first");
  w.gateway.down = true;
  w.gateway.open[0].cut();
  w.source.publish("md:a", "2");
  await waiting(w);
  w.gateway.down = false;
  await until(() => texts.length === 2, "the second");
  assert.deepEqual(texts, ["1", "2"]);
  assert.equal(w.client.stats().gaps, 0);
  w.gateway.down = true;
  w.gateway.open[0].cut();
  await until(() => w.client.status.state === "waiting", "waiting");
  await w.client.close();
  assert.equal(w.client.status.state, "closed");
});

test("options that are wrong are told at once", async () => {
  const gateway = await FakeGateway.make();
  const good = { pins: [gateway.pin], WebSocket: gateway.WebSocket };
  const bad = [{ pins: [] }, { pins: ["short"] }, { pins: [`${gateway.pin}=`] }, { suites: [] }, { suites: ["rot13"] }, { suites: ["plain", "aes-128-gcm"] }, { realm: "a\0b" }];
  for (const wrong of bad) {
    assert.throws(() => new Client("ws://fake/ws", { ...good, ...wrong } as ClientOptions), { name: "SealcastError", code: "options" }, JSON.stringify(wrong));
  }
  assert.equal(fromBase64Url(gateway.pin).length, 32);
});

test("without WebCrypto the reason is given in words", async () => {
  const real = globalThis.crypto;
  Object.defineProperty(globalThis, "crypto", { value: {}, configurable: true });
  try {
    assert.throws(() => new Client("ws://fake/ws", { pins: "any" }), { code: "insecure-context", message: /https/ });
  } finally {
    Object.defineProperty(globalThis, "crypto", { value: real, configurable: true });
  }
});

test("echo: what comes back is what was sent, by every suite", async () => {
  const gateway = await FakeGateway.make({ realm: "default" });
  for (const suite of ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "plain"] as const) {
    const result = await measureEcho("ws://fake/echo", { suite, pins: [gateway.pin], size: 100, window: 4, duration: 30, WebSocket: gateway.WebSocket });
    assert.equal(result.info.suite, suite);
    assert.equal(result.messages, result.times.length);
    assert.ok(result.messages >= 4);
  }
  await assert.rejects(measureEcho("ws://fake/echo", { suite: "plain", pins: ["A".repeat(43)], size: 1, window: 1, duration: 1, WebSocket: gateway.WebSocket }), { code: "pin" });
});

test("the queue drops the oldest ticks, and tells them before anything later of their topic", async () => {
  const queue = new EventQueue(2, () => undefined);
  const tick = (topic: string, seq: number): SubscriptionEvent => ({ type: "tick", topic, epoch: 1, seq, merged: 0, time: 0, payload: empty });
  const reset: SubscriptionEvent = { type: "reset", topic: "a", epoch: 2, nextSeq: 1, cause: "source-lost" };
  for (const event of [tick("a", 1), tick("b", 1), tick("a", 2), tick("a", 3), reset, tick("a", 4), tick("a", 5), tick("a", 6)]) queue.push(event);
  queue.end();
  const all = [];
  for await (const event of queue) all.push(event);
  const gap = (topic: string, from: number, to: number) => ({ type: "gap", topic, epoch: 1, from, to, cause: "buffer" });
  assert.deepEqual(all, [gap("a", 1, 3), gap("b", 1, 1), reset, gap("a", 4, 4), tick("a", 5), tick("a", 6)]);
  assert.equal(queue.dropped, 5);
});

test("delays: by the table, jittered, doubled up to 30 s", () => {
  assert.deepEqual([1000, 1001, 1012, 1013, 4400, 4403, 4429, 4999].map((code) => ruleOf(code).reconnect), [false, true, true, true, true, false, true, true]);
  assert.deepEqual([1012, 1001, 1013, 4403, 1006].map((code) => hintOf(code).delay), [500, 500, 10_000, 500, 500]);
  assert.equal(backoff(500, 0, () => 0), 500);
  assert.equal(backoff(0, 0, () => 0.5), 500, "at least up to a second");
  assert.equal(backoff(10_000, 0, () => 0.5), 15_000, "up to as much again");
  assert.deepEqual([1, 2, 3, 6, 7, 50].map((n) => backoff(500, n, () => 0)), [1000, 2000, 4000, 30_000, 30_000, 30_000]);
});
