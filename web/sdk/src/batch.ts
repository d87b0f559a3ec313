// What a Batch holds: its columns and payloads as one entry after the other
// (protocol, 6.4). It knows nothing of topics' names and positions.
import type { Bytes } from "./bytes.js";
import { violation } from "./errors.js";
import type { Batch, Reset } from "./messages.js";

/** A tick or, with `reset`, a topic's change of epoch. */
export interface Entry {
  topic: number;
  seq: bigint;
  /** Earlier ticks merged into this one. */
  skipped: bigint;
  /** When the gateway received the tick: microseconds since `clockUs` of Connected. */
  received: bigint;
  payload: Bytes;
  reset?: Reset;
}

/** A sequence number or epoch as a JavaScript number; what reaches 2^53, and no gateway's ever does, is a violation. */
export function safe(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw violation("a sequence number or epoch is too large");
  return Number(value);
}

const contradiction = () => violation("a batch contradicts itself");

/** The entries in their order. Payloads are parts of the batch's. A batch that contradicts itself or has numbers that are too large is a violation. */
export function entriesOf(batch: Batch): Entry[] {
  const { topics, sizes, order, deltas, skipped, steps, resets } = batch;
  const n = topics.length === 0 ? 0 : sizes.length + 1;
  const fits = (column: unknown[], length: number) => column.length === 0 || column.length === length;
  if (batch.firsts.length !== topics.length || topics.length > n || (n === 0 && sizes.length > 0)) throw contradiction();
  if (!fits(order, n) || !fits(deltas, n - 1) || !fits(skipped, n) || !fits(steps, n)) throw contradiction();
  const placeOf = (tick: number) => (order.length > 0 ? order[tick] : Math.min(tick, topics.length - 1));
  const starts = startsOf(batch, n, placeOf);
  const next = batch.firsts.slice();
  const entries: Entry[] = [];
  let received = batch.baseUs;
  let reset = 0;
  let left = batch.payloads.length;
  for (const { epoch, nextSeq } of resets) [epoch, nextSeq].forEach(safe);
  const takeResets = (tick: number) => {
    for (; resets[reset]?.at === tick; reset++) {
      entries.push({ topic: resets[reset].topic, seq: 0n, skipped: 0n, received: 0n, payload: batch.payloads.subarray(0, 0), reset: resets[reset] });
    }
  };
  for (let tick = 0; tick < n; tick++) {
    takeResets(tick);
    const place = placeOf(tick);
    const size = tick < n - 1 ? sizes[tick] : left;
    left -= size;
    if (tick > 0) received += deltas[tick - 1] ?? 0n;
    const merged = skipped[tick] ?? 0n;
    const seq = BigInt.asUintN(64, next[place] + merged + (steps[tick] ?? 0n));
    if (merged > seq) throw contradiction();
    safe(seq);
    next[place] = seq + 1n;
    const payload = batch.payloads.subarray(starts[place], (starts[place] += size));
    entries.push({ topic: topics[place], seq, skipped: merged, received, payload });
  }
  takeResets(n);
  if (reset !== resets.length) throw contradiction();
  return entries;
}

/** Where the payloads of each topic begin. */
function startsOf({ topics, sizes, payloads }: Batch, n: number, placeOf: (tick: number) => number): number[] {
  const bytes = new Array<number>(topics.length).fill(0);
  let left = payloads.length;
  for (let tick = 0; tick < n; tick++) {
    const place = placeOf(tick);
    const size = tick < n - 1 ? sizes[tick] : left;
    if (place >= topics.length || size > left) throw contradiction();
    bytes[place] += size;
    left -= size;
  }
  if (left > 0) throw contradiction();
  let at = 0;
  return bytes.map((size) => (at += size) - size);
}
