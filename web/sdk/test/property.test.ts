// Whatever happens to its connections, a client drops no tick and keeps their
// order: a random schedule of ticks, cuts in the middle of what is on its way,
// restarts, lost epochs, key changes and groups, determined by a seed.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Client } from "../src/client.js";
import type { SubscriptionEvent } from "../src/events.js";
import { FakeGateway } from "./fake.js";
import { Source, textOf, type SourceOptions } from "./source.js";
import { seeded } from "./tools.js";

const realSetTimeout = setTimeout; // WebCrypto takes real time, whatever the clock of the test says
const moment = () => new Promise<void>((resolve) => realSetTimeout(resolve, 1));
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

interface Run {
  seed: number;
  events: SubscriptionEvent[];
  published: Map<string, { epoch: number; seq: number; payload: string }[]>;
  client: Client;
  sessions: number;
}

interface Schedule extends Omit<SourceOptions, "random"> {
  seed: number;
  steps: number;
  groups: boolean;
  /** New epochs now and then. */
  resets: boolean;
}

const runs = process.env.SEALCAST_LONG ? 60 : 5;
const topics = ["md:a", "md:b", "md:c:d", "fx:x"];

async function run({ seed, steps, groups, resets, ...options }: Schedule): Promise<Run> {
  mock.timers.enable({ apis: ["setTimeout"] });
  const random = seeded(seed);
  const source = new Source({ ...options, random });
  const gateway = await FakeGateway.make({
    tickets: random() < 0.5,
    rekeyEvery: 1 + Math.floor(random() * 20),
    onFrame: (session, frame) => source.answer(session, frame),
    onSession: (session) => groups && session.joinGroup(1 + Math.floor(random() * 1000)),
  });
  const suites = [["aes-128-gcm"], ["chacha20-poly1305"], ["plain"]] as const;
  let ready = false; // this connection's Subscribe is answered
  const client = new Client("ws://fake/ws", {
    pins: [gateway.pin], realm: "tests", suites: suites[Math.floor(random() * 3)], WebSocket: gateway.WebSocket, groups, random,
    onStatus: () => (ready = false),
    timeout: 1e9, // time is ours and runs faster than WebCrypto
    postQuantum: random() < 0.2 ? "required" : "off",
  });
  try {
    const events: SubscriptionEvent[] = [];
    client.subscribe(["md:**", "fx:x"], {
      onEvent(event) {
        events.push(event);
        if (event.type === "subscribed") ready = true;
      },
    });
    const published: Run["published"] = new Map();
    const publish = (topic: string, n: number, mergeable = true) => {
      source.publish(topic, `${topic} ${n}`, mergeable);
      const { epoch, next } = source.topics.get(topic)!;
      const all = published.get(topic) ?? [];
      published.set(topic, [...all, { epoch, seq: next - 1, payload: `${topic} ${n}` }]);
    };
    const passing = async (milliseconds: number) => {
      await moment();
      mock.timers.tick(milliseconds);
    };
    const until = async (reached: () => boolean, what: string) => {
      const deadline = performance.now() + 20_000;
      while (!reached() && performance.now() < deadline) await passing(200);
      assert.ok(reached(), `seed ${seed}: ${what}, ${JSON.stringify(client.status)} ${(client.status as { reason?: Error }).reason}`);
    };
    const subscribed = () => client.status.state === "connected" && ready && gateway.open.length === 1;
    await until(subscribed, "connected");
    // Ticks before a topic's first announcement are none of the client's.
    for (const topic of topics) publish(topic, 0, false);
    await until(() => topics.every((topic) => events.some((e) => e.type === "tick" && e.topic === topic)), "the first ticks");
    for (let n = 1; n <= steps; n++) {
      const dice = random();
      if (dice < 0.4) for (let i = Math.floor(random() * 4); i >= 0; i--) publish(topics[Math.floor(random() * topics.length)], n * 10 + i);
      else if (dice < 0.46) gateway.open.forEach((session) => session.cut());
      else if (dice < 0.49) gateway.open.forEach((session) => session.sayGoodbye({ code: 1012, text: "restart", reconnectAfterMs: 100 }));
      else if (dice < 0.52) gateway.down = !gateway.down;
      else if (dice < 0.55) {
        gateway.open.forEach((session) => session.cut());
        source.restart(!resets);
      } else if (dice < 0.6 && resets) source.reset(topics[Math.floor(random() * topics.length)]);
      else for (let i = 0; i < 4; i++) await passing(Math.floor(random() * 1000));
      if (random() < 0.6) await turn();
    }
    gateway.down = false;
    await until(() => subscribed(), "back again");
    for (const topic of topics) publish(topic, 1_000_000, false); // uncovers what is missing at the end
    await until(() => topics.every((topic) => events.some((e) => e.type === "tick" && e.topic === topic && textOf(e.payload).endsWith(" 1000000"))), "the last ticks");
    return { seed, events, published, client, sessions: gateway.sessions.length };
  } finally {
    mock.timers.reset();
    await client.close();
  }
}

/** Every tick that was published comes once and in order, is merged into one that came, or is told as lost. */
function account({ seed, events, published }: Run): { ticks: number; merged: number; lost: number; resets: number } {
  const sum = { ticks: 0, merged: 0, lost: 0, resets: 0 };
  for (const topic of topics) {
    const all = published.get(topic)!;
    let epoch = 0;
    let last = 0;
    for (const event of events) {
      if (!("topic" in event) || event.topic !== topic) continue;
      const where = `seed ${seed}, ${JSON.stringify({ ...event, payload: undefined })} after ${epoch} ${last}`;
      if (event.type === "topic" || event.type === "reset") {
        assert.notEqual(event.epoch, epoch, where);
        if (event.type === "reset") sum.resets++;
        epoch = event.epoch;
        last = event.nextSeq - 1;
      } else if (event.type === "tick") {
        assert.deepEqual([event.epoch, event.seq], [epoch, last + event.merged + 1], where);
        assert.equal(all.find((p) => p.epoch === epoch && p.seq === event.seq)?.payload, textOf(event.payload), where);
        last = event.seq;
        sum.ticks++;
        sum.merged += event.merged;
      } else if (event.type === "gap") {
        assert.deepEqual([event.epoch, event.from], [epoch, last + 1], where);
        last = event.to;
        sum.lost += event.to - event.from + 1;
      }
    }
    assert.deepEqual([epoch, last], [all.at(-1)!.epoch, all.at(-1)!.seq], `seed ${seed}: the end of ${topic}`);
  }
  return sum;
}

for (const groups of [false, true]) {
  test(`with a history no tick is lost, groups: ${groups}`, async (t) => {
    let sessions = 0;
    let ticks = 0;
    for (let seed = 1; seed <= runs; seed++) {
      const done = await run({ seed, steps: 160, groups, history: 10_000, resets: false });
      const sum = account(done);
      const total = [...done.published.values()].reduce((n, all) => n + all.length, 0);
      assert.deepEqual({ ...sum, seed }, { ticks: total, merged: 0, lost: 0, resets: 0, seed });
      const texts = done.events.filter((e) => e.type === "tick").map((e) => textOf(e.payload));
      assert.equal(new Set(texts).size, total, `seed ${seed}: no tick comes twice`);
      sessions += done.sessions;
      ticks += total;
    }
    t.diagnostic(`${ticks} ticks over ${sessions} connections`);
    assert.ok(sessions > runs * 3, "the schedule cuts often enough");
  });

  test(`without a history everything that is missing is told, groups: ${groups}`, async (t) => {
    const all = { ticks: 0, merged: 0, lost: 0, resets: 0 };
    for (let seed = 101; seed <= 100 + runs; seed++) {
      const done = await run({ seed, steps: 160, groups, history: 3, resets: true, merging: 0.2 });
      const sum = account(done);
      const stats = done.client.stats();
      assert.deepEqual([stats.ticks, stats.merged, stats.lost, stats.resets], [sum.ticks, sum.merged, sum.lost, sum.resets], `seed ${seed}`);
      for (const key of Object.keys(all) as (keyof typeof all)[]) all[key] += sum[key];
    }
    t.diagnostic(JSON.stringify(all));
    for (const [what, n] of Object.entries(all)) assert.ok(n > 4, `${what}: ${n}`);
  });
}
