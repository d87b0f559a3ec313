// Where the client stands in each topic, across connections: the sequence rule,
// epochs, gaps (protocol, 6.4 to 6.6). It is told what the gateway sent, in its
// order, and tells events; it knows no connection and no clock.
import { entriesOf, safe, type Entry } from "./batch.js";
import { causeOf, type Cause } from "./codes.js";
import { violation } from "./errors.js";
import type { TopicalEvent } from "./events.js";
import type { Batch, Gap, Reset, TopicState, Value } from "./messages.js";

/** A topic; `last` is the highest sequence number that was seen or told as lost. */
export interface TopicView {
  readonly name: string;
  epoch: number;
  last: number;
  /** Announced on this connection, and matched by a filter that is held. */
  held: boolean;
}

export class View {
  private readonly topics = new Map<string, TopicView>();
  private numbers = new Map<number, TopicView>();
  /** What times in batches count from on this connection. */
  clock = 0n;

  constructor(private readonly emit: (event: TopicalEvent) => void) {}

  /** The connection is gone, and with it the numbers. */
  disconnect(): void {
    this.numbers.clear();
    for (const topic of this.topics.values()) topic.held = false;
  }

  /** Positions in topics that the filters match, for a Subscribe on a new connection. */
  positions(matched: (name: string) => boolean): TopicView[] {
    return [...this.topics.values()].filter((topic) => !topic.held && matched(topic.name));
  }

  /** Topics that are being delivered. */
  held(): TopicView[] {
    return [...this.topics.values()].filter((topic) => topic.held);
  }

  /** Filters were given back; topics that no other one matches begin anew when they come again. */
  release(matched: (name: string) => boolean): void {
    for (const topic of this.topics.values()) {
      if (matched(topic.name)) continue;
      topic.held = false;
      this.topics.delete(topic.name);
    }
  }

  announce(state: TopicState): void {
    const numbered = this.numbers.get(state.number);
    if (numbered && numbered.name !== state.name) throw violation("a topic's number stands for two names");
    const epoch = safe(state.epoch);
    const nextSeq = safe(state.nextSeq);
    const known = this.topics.get(state.name);
    if (!known) {
      const topic = { name: state.name, epoch, last: nextSeq - 1, held: true };
      this.topics.set(topic.name, topic);
      this.numbers.set(state.number, topic);
      this.emit({ type: "topic", topic: topic.name, epoch, nextSeq });
      return;
    }
    this.numbers.set(state.number, known);
    const wasHeld = known.held;
    known.held = true;
    if (known.epoch !== epoch) {
      known.epoch = epoch;
      known.last = nextSeq - 1;
      // Recovered under another epoch: another gateway, and a cursor that both understand.
      const cause = wasHeld ? "unspecified" : "disconnected";
      this.emit(state.recovered ? { type: "topic", topic: known.name, epoch, nextSeq } : { type: "reset", topic: known.name, epoch, nextSeq, cause });
    } else if (!wasHeld) this.lose(known, nextSeq - 1, "disconnected");
  }

  snapshot(value: Value): void {
    const topic = this.byNumber(value.topic);
    const { payload, stale } = value;
    const epoch = safe(value.epoch);
    const seq = safe(value.seq);
    if (topic.held) this.emit({ type: "snapshot", topic: topic.name, epoch, seq, time: Number(value.timeUs), payload, stale });
  }

  /** Checks the whole batch before it uses anything of it. */
  batch(batch: Batch): void {
    const entries = entriesOf(batch);
    batch.topics.forEach((number) => this.byNumber(number));
    batch.resets.forEach(({ topic }) => this.byNumber(topic));
    for (const entry of entries) {
      const topic = this.byNumber(entry.topic);
      if (!topic.held) continue;
      if (entry.reset) this.reset(topic, entry.reset);
      else this.tick(topic, entry);
    }
  }

  gap(gap: Gap): void {
    const topic = this.byNumber(gap.topic);
    if (gap.from > gap.to) throw violation("a gap ends before it begins");
    const epoch = safe(gap.epoch);
    const to = safe(gap.to);
    // A reset has told of an earlier epoch's loss.
    if (topic.held && topic.epoch === epoch) this.lose(topic, to, causeOf(gap.cause));
  }

  /** A heartbeat says that the topic was sent up to this tick. */
  head(number: number, seq: bigint): void {
    const topic = this.byNumber(number);
    const to = safe(seq);
    if (topic.held) this.lose(topic, to, "skipped");
  }

  /** Names of topics by number, those that are held. */
  names(numbers: number[]): string[] {
    return numbers.map((number) => this.byNumber(number)).filter((topic) => topic.held).map((topic) => topic.name);
  }

  nameOf(number: number): string {
    return this.byNumber(number).name;
  }

  private byNumber(number: number): TopicView {
    const topic = this.numbers.get(number);
    if (!topic) throw violation("a topic was never announced");
    return topic;
  }

  private tick(topic: TopicView, entry: Entry): void {
    const seq = Number(entry.seq);
    if (seq <= topic.last) return;
    const first = seq - Number(entry.skipped);
    if (first > topic.last + 1) this.lose(topic, first - 1, "skipped");
    const merged = seq - topic.last - 1;
    topic.last = seq;
    const { payload } = entry;
    this.emit({ type: "tick", topic: topic.name, epoch: topic.epoch, seq, merged, time: Number(this.clock + entry.received), payload });
  }

  private reset(topic: TopicView, reset: Reset): void {
    const epoch = Number(reset.epoch);
    if (epoch === topic.epoch) return;
    topic.epoch = epoch;
    topic.last = Number(reset.nextSeq) - 1;
    this.emit({ type: "reset", topic: topic.name, epoch, nextSeq: topic.last + 1, cause: causeOf(reset.cause) });
  }

  private lose(topic: TopicView, to: number, cause: Cause): void {
    if (to <= topic.last) return;
    const from = topic.last + 1;
    topic.last = to;
    this.emit({ type: "gap", topic: topic.name, epoch: topic.epoch, from, to, cause });
  }
}
