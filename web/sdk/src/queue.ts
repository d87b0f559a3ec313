// The bounded queue between a connection and a program that iterates.
import type { SubscriptionEvent, TopicalEvent } from "./events.js";

/**
 * Events wait here until the program takes them, up to a number of ticks.
 * When one more comes, the oldest tick is dropped, and the program is told by a
 * gap of cause `buffer` before anything later of that topic. Other events are
 * never dropped: they are few.
 */
export class EventQueue implements AsyncIterableIterator<SubscriptionEvent> {
  private events: SubscriptionEvent[] = [];
  private start = 0; // of what is left in events
  private ticks = 0;
  /** What came out of the queue's front to make room: gaps, and events between them. */
  private early: SubscriptionEvent[] = [];
  private openGaps = new Map<string, Extract<TopicalEvent, { type: "gap" }>>();
  private waiting?: { resolve: (result: IteratorResult<SubscriptionEvent>) => void; reject: (error: Error) => void };
  private ended = false;
  private error?: Error;
  /** Ticks dropped so far. */
  dropped = 0;

  /** onReturn is called when the program leaves its loop. */
  constructor(
    private readonly limit: number,
    private readonly onReturn: () => void,
  ) {}

  push(event: SubscriptionEvent): void {
    if (this.ended) return;
    if (this.waiting) {
      const { resolve } = this.waiting;
      this.waiting = undefined;
      return resolve({ done: false, value: event });
    }
    this.events.push(event);
    if (event.type === "tick" && ++this.ticks > this.limit) this.dropOldest();
  }

  /** What waits can still be taken; then the iteration ends, by throwing the error if there is one. */
  end(error?: Error): void {
    if (this.ended) return;
    this.ended = true;
    this.error = error;
    const { waiting } = this;
    this.waiting = undefined;
    if (waiting) this.next().then(waiting.resolve, waiting.reject);
  }

  next(): Promise<IteratorResult<SubscriptionEvent>> {
    if (this.waiting) return Promise.reject(new Error("next was called before the last call had settled"));
    const value = this.early.shift() ?? this.shift();
    if (value) {
      if (value.type === "gap") this.openGaps.delete(value.topic); // what is lost later is another gap
      return Promise.resolve({ done: false, value });
    }
    if (this.error) {
      const { error } = this;
      this.error = undefined; // told once
      return Promise.reject(error);
    }
    if (this.ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => (this.waiting = { resolve, reject }));
  }

  return(): Promise<IteratorResult<SubscriptionEvent>> {
    this.events = [];
    this.early = [];
    this.start = 0;
    this.end();
    this.onReturn();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  private shift(): SubscriptionEvent | undefined {
    if (this.start === this.events.length) return undefined;
    const event = this.events[this.start];
    this.start++;
    if (event.type === "tick") this.ticks--;
    if (this.start > 1024 && this.start * 2 > this.events.length) {
      this.events = this.events.slice(this.start);
      this.start = 0;
    }
    return event;
  }

  private dropOldest(): void {
    for (let event = this.shift(); event; event = this.shift()) {
      if (event.type === "tick") return this.drop(event.topic, event.epoch, event.seq - event.merged, event.seq);
      this.early.push(event);
      if ("topic" in event) this.openGaps.delete(event.topic);
    }
  }

  private drop(topic: string, epoch: number, from: number, to: number): void {
    this.dropped++;
    const open = this.openGaps.get(topic);
    if (open) {
      open.to = to;
      return;
    }
    const gap = { type: "gap" as const, topic, epoch, from, to, cause: "buffer" as const };
    this.openGaps.set(topic, gap);
    this.early.push(gap);
  }
}
