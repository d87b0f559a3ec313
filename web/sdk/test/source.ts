// Ticks for the gateway of the tests: topics with sequences, history that can be
// short, and delivery to every session by the rules of the protocol.
import type { Entry } from "../src/batch.js";
import type { Batch, ClientFrame, ServerFrame, TopicState } from "../src/messages.js";
import { matches } from "../src/topics.js";
import { concat, fromUtf8, utf8, type Bytes } from "../src/bytes.js";
import type { FakeSession } from "./fake.js";

const empty: Bytes = new Uint8Array(0);

/** When everything is received. */
const receivedUs = 1_790_000_000_000_000n;

/** A batch of these entries, which are of topic 1 and seq 1 unless they say otherwise. */
export function batchOf(entries: Partial<Entry>[]): Batch {
  const batch: Batch = {
    baseUs: receivedUs, topics: [], firsts: [], order: [], sizes: [], deltas: [], skipped: [], steps: [], resets: [], payloads: empty, cursor: empty,
  };
  const next: bigint[] = [];
  const payloads: Bytes[][] = [];
  for (const { topic = 1, seq = 1n, skipped = 0n, payload = empty, reset } of entries) {
    if (reset) {
      batch.resets.push({ ...reset, topic, at: batch.order.length });
      continue;
    }
    const first = BigInt.asUintN(64, seq - skipped);
    let place = batch.topics.indexOf(topic);
    if (place < 0) {
      place = batch.topics.push(topic) - 1;
      batch.firsts.push(first);
      next.push(first);
      payloads.push([]);
    }
    batch.order.push(place);
    batch.sizes.push(payload.length);
    batch.skipped.push(skipped);
    batch.steps.push(BigInt.asIntN(64, first - next[place]));
    next[place] = seq + 1n;
    payloads[place].push(payload);
  }
  batch.sizes.pop();
  batch.payloads = concat(...payloads.flat());
  return batch;
}

interface Tick {
  seq: number;
  payload: Bytes;
}

interface Topic {
  name: string;
  number: number;
  epoch: number;
  next: number;
  history: Tick[];
}

export interface SourceOptions {
  /** Ticks kept of each topic. */
  history: number;
  random: () => number;
  /** How much of the time ticks are merged into one. */
  merging?: number;
}

interface Held {
  filters: Set<string>;
  /** Delivered topics, by name, with what waits to be merged into the next tick. */
  topics: Map<string, number>;
}

export class Source {
  readonly topics = new Map<string, Topic>();
  private numbers = 1;
  private readonly held = new Map<FakeSession, Held>();

  constructor(private readonly options: SourceOptions) {}

  /** Another process of the gateway: other numbers, and other epochs unless the source is the same. */
  restart(sameEpochs: boolean): void {
    this.numbers += 100;
    for (const topic of this.topics.values()) {
      topic.number = this.numbers++;
      if (!sameEpochs) this.renew(topic);
    }
  }

  answer(session: FakeSession, frame: ClientFrame): void {
    if (frame.subscribe) this.subscribe(session, frame.subscribe);
    else if (frame.unsubscribe) this.unsubscribe(session, frame.unsubscribe);
    else if (frame.ping) session.send({ pong: frame.ping });
    else if (frame.refresh) session.send({ refreshed: { id: frame.refresh.id, expiresAtS: 0n } });
  }

  /** Publishes a tick; one that is mergeable may wait to come with the next. */
  publish(name: string, payload: string, mergeable = true): void {
    const topic = this.topicOf(name);
    const tick = { seq: topic.next++, payload: utf8(payload) };
    topic.history.push(tick);
    if (topic.history.length > this.options.history) topic.history.shift();
    for (const [session, held] of this.live()) {
      if (!held.topics.has(name) && this.wants(held, name)) {
        this.announce(session, held, [this.stateOf(topic, tick.seq)]);
      }
      if (!held.topics.has(name)) continue;
      const waiting = held.topics.get(name)!;
      if (mergeable && this.options.random() < (this.options.merging ?? 0)) held.topics.set(name, waiting + 1);
      else {
        held.topics.set(name, 0);
        session.sendBatch(batchOf([this.entry(topic, tick, waiting)]));
      }
    }
  }

  /** A new epoch, told by a reset. */
  reset(name: string): void {
    const topic = this.topicOf(name);
    this.renew(topic);
    for (const [session, held] of this.live()) {
      if (!held.topics.has(name)) continue;
      held.topics.set(name, 0);
      const reset = { epoch: BigInt(topic.epoch), nextSeq: BigInt(topic.next), cause: 1, topic: topic.number, at: 0 };
      session.sendBatch(batchOf([{ topic: topic.number, reset }]));
    }
  }

  private renew(topic: Topic): void {
    topic.epoch++;
    topic.next = 1 + Math.floor(this.options.random() * 5);
    topic.history = [];
  }

  private live(): [FakeSession, Held][] {
    for (const session of this.held.keys()) if (!session.open) this.held.delete(session);
    return [...this.held];
  }

  private wants(held: Held, name: string): boolean {
    return [...held.filters].some((filter) => matches(filter, name));
  }

  private topicOf(name: string): Topic {
    let topic = this.topics.get(name);
    if (!topic) {
      topic = { name, number: this.numbers++, epoch: 1 + Math.floor(this.options.random() * 2 ** 40), next: 1, history: [] };
      this.topics.set(name, topic);
    }
    return topic;
  }

  private stateOf(topic: Topic, next: number, recovered = false): TopicState {
    return { number: topic.number, name: topic.name, epoch: BigInt(topic.epoch), nextSeq: BigInt(next), recovered };
  }

  private announce(session: FakeSession, held: Held, topics: TopicState[]): void {
    topics.forEach(({ name }) => held.topics.set(name, 0));
    session.send({ topics: { topics } });
  }

  private entry(topic: Topic, tick: Tick, skipped: number): Partial<Entry> {
    return { topic: topic.number, seq: BigInt(tick.seq), skipped: BigInt(skipped), payload: tick.payload };
  }

  private subscribe(session: FakeSession, { id, subscriptions, since }: NonNullable<ClientFrame["subscribe"]>): void {
    const held = this.held.get(session) ?? { filters: new Set(), topics: new Map() };
    this.held.set(session, held);
    const filters = subscriptions.map(({ filter }) => filter!);
    const refused = filters.filter((filter) => filter.startsWith("secret"));
    for (const filter of refused) session.send({ error: { id, code: 4403, text: "not allowed", filter } });
    const accepted = filters.filter((filter) => !refused.includes(filter));
    accepted.filter((filter) => !filter.includes("*")).forEach((name) => this.topicOf(name));
    const states: TopicState[] = [];
    const recovered: Partial<Entry>[] = [];
    const values: NonNullable<ServerFrame["snapshot"]>["values"] = [];
    for (const topic of this.topics.values()) {
      if (held.topics.has(topic.name) || !accepted.some((filter) => matches(filter, topic.name))) continue;
      held.topics.set(topic.name, 0);
      const position = since.find((p) => p.topic === topic.name && p.epoch === BigInt(topic.epoch));
      const missed = position && topic.history.filter((tick) => BigInt(tick.seq) > position.seq);
      if (position && missed!.length === topic.next - 1 - Number(position.seq)) {
        states.push(this.stateOf(topic, Number(position.seq) + 1, true));
        recovered.push(...missed!.map((tick) => this.entry(topic, tick, 0)));
        continue;
      }
      states.push(this.stateOf(topic, topic.next));
      const last = topic.history.at(-1);
      if (last) values.push({ topic: topic.number, epoch: BigInt(topic.epoch), seq: BigInt(last.seq), timeUs: 0n, payload: last.payload, stale: false });
    }
    accepted.forEach((filter) => held.filters.add(filter));
    session.send({ subscribed: { id, filters: accepted, topics: states } });
    if (values.length > 0) session.send({ snapshot: { values } });
    if (recovered.length > 0) session.sendBatch(batchOf(recovered));
  }

  private unsubscribe(session: FakeSession, { id, filters }: NonNullable<ClientFrame["unsubscribe"]>): void {
    const held = this.held.get(session)!;
    filters.forEach((filter) => held.filters.delete(filter));
    for (const name of held.topics.keys()) if (!this.wants(held, name)) held.topics.delete(name);
    session.send({ unsubscribed: { id, filters } });
  }
}

export function textOf(payload: Bytes): string {
  return fromUtf8(payload);
}
