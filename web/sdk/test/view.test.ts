// What View makes of messages that it must not use, without a connection.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Entry } from "../src/batch.js";
import { empty } from "../src/bytes.js";
import type { TopicalEvent } from "../src/events.js";
import type { Value } from "../src/messages.js";
import { View } from "../src/view.js";
import { batchOf } from "./source.js";

const most = 2n ** 53n - 1n;
const beyond = most + 1n;
const refused = { name: "SealcastError", closeCode: 4400 };

/** A view of the topics 1, which is held, and 2, which was given back. */
function world(epoch = 7n, nextSeq = 1n): { view: View; events: TopicalEvent[] } {
  const events: TopicalEvent[] = [];
  const view = new View((event) => events.push(event));
  view.announce({ number: 1, name: "a", epoch, nextSeq, recovered: false });
  view.announce({ number: 2, name: "b", epoch, nextSeq, recovered: false });
  view.release((name) => name === "a");
  events.length = 0;
  return { view, events };
}

const reset = (topic: number, epoch: bigint, nextSeq: bigint): Partial<Entry> => ({ topic, reset: { epoch, nextSeq, cause: 0, topic, at: 0 } });

test("of a batch that must not be nothing is used, wherever in it the fault is", () => {
  const good = { topic: 1, seq: 1n };
  const bad: [string, Partial<Entry>][] = [
    ["a tick of a topic that was never announced", { topic: 9 }],
    ["a reset of one", reset(9, 8n, 1n)],
    ["more skipped than there is", { topic: 1, seq: 5n, skipped: 6n }],
    ["a sequence number of 2^53", { topic: 1, seq: beyond }],
    ["a sequence number of 2^64-1", { topic: 1, seq: 2n ** 64n - 1n }],
    ["one of a topic that is not held", { topic: 2, seq: beyond }],
    ["a reset to a sequence number of 2^53", reset(1, 8n, beyond)],
    ["a reset to an epoch of 2^53", reset(1, beyond, 1n)],
    ["one of a topic that is not held", reset(2, 8n, beyond)],
  ];
  for (const [what, entry] of bad) {
    const { view, events } = world();
    assert.throws(() => view.batch(batchOf([good, entry])), refused, what);
    assert.deepEqual(events, [], what);
    view.batch(batchOf([good]));
    assert.deepEqual(events.map(({ type }) => type), ["tick"], `${what}: the position has not moved`);
  }
  const { view, events } = world();
  const withoutTick = batchOf([good, { topic: 1, seq: 2n }]);
  withoutTick.topics.push(9);
  withoutTick.firsts.push(1n);
  assert.throws(() => view.batch(withoutTick), refused, "a topic that was never announced and has no tick");
  assert.deepEqual(events, []);
});

test("numbers up to 2^53-1 are taken, and none beyond", () => {
  const value: Value = { topic: 1, epoch: most, seq: most, timeUs: 1n, payload: empty, stale: false };
  const { view, events } = world(most, most);
  view.snapshot(value);
  view.batch(batchOf([{ topic: 1, seq: most, skipped: most }]));
  view.gap({ topic: 1, epoch: most, from: most, to: most, cause: 0 });
  view.head(1, most);
  view.batch(batchOf([reset(1, 8n, most), { topic: 1, seq: most }]));
  assert.deepEqual(events.map((e) => [e.type, "seq" in e ? e.seq : "nextSeq" in e ? e.nextSeq : 0]),
    ["snapshot", "tick", "reset", "tick"].map((type) => [type, Number.MAX_SAFE_INTEGER]));
  const bad: (() => void)[] = [
    () => view.announce({ number: 1, name: "a", epoch: 9n, nextSeq: beyond, recovered: false }),
    () => view.announce({ number: 1, name: "a", epoch: beyond, nextSeq: 1n, recovered: false }),
    ...[1, 2].flatMap((topic) => [
      () => view.snapshot({ ...value, topic, seq: beyond }),
      () => view.snapshot({ ...value, topic, epoch: beyond }),
      () => view.gap({ topic, epoch: 8n, from: 1n, to: beyond, cause: 0 }),
      () => view.gap({ topic, epoch: beyond, from: 1n, to: 2n, cause: 0 }),
      () => view.head(topic, beyond),
    ]),
  ];
  for (const use of bad) assert.throws(use, { ...refused, message: "a sequence number or epoch is too large" }, String(use));
  assert.equal(events.length, 4);
});
