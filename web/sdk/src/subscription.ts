// One subscription of a program: its filters, and where its events go.
import type { SubscriptionEvent } from "./events.js";
import { SealcastError } from "./errors.js";
import { EventQueue } from "./queue.js";
import type { Wanted } from "./session.js";
import { matches } from "./topics.js";

export interface SubscribeOptions {
  /** Of topics that may be merged: ticks a second and topic, at most; the newest of each interval comes. */
  maxRate?: number;
  /** Of topics that may be merged: milliseconds after which a tick is not sent any more. */
  maxAge?: number;
  /**
   * Ticks that may wait for the iteration; 65,536 if absent. Beyond it the
   * oldest is dropped, and told by a gap of cause `buffer`.
   */
  buffer?: number;
  /** Takes events as they come, instead of the iteration. It must be quick, and must not throw. */
  onEvent?: (event: SubscriptionEvent) => void;
}

const defaultBuffer = 65_536;

/**
 * Iterate over it (`for await`) to get its events. Leaving the loop closes it.
 * When the client ends for good, the iteration throws the reason.
 */
export class Subscription implements AsyncIterable<SubscriptionEvent> {
  /** Resolves when the gateway has accepted all filters; rejects if it refuses one, or the client ends before. */
  readonly ready: Promise<void>;
  private readonly queue: EventQueue;
  private readonly pending: Set<string>;
  private resolve!: () => void;
  private reject!: (error: SealcastError) => void;

  /** @internal */
  constructor(
    readonly filters: readonly string[],
    private readonly options: SubscribeOptions,
    private readonly onClose: (subscription: Subscription) => void,
  ) {
    this.pending = new Set(filters);
    this.queue = new EventQueue(options.buffer ?? defaultBuffer, () => this.close());
    this.ready = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.ready.catch(() => undefined); // for those who do not look at it
  }

  /** Ticks that were dropped because the program did not take them in time. */
  get dropped(): number {
    return this.queue.dropped;
  }

  /** Gives the filters back; what waits can still be taken. */
  close(): void {
    this.queue.end();
    this.reject(new SealcastError("closed", "the subscription was closed"));
    this.onClose(this);
  }

  [Symbol.asyncIterator](): AsyncIterator<SubscriptionEvent> {
    return this.queue;
  }

  /** @internal */
  wanted(): Wanted[] {
    const { maxRate, maxAge } = this.options;
    return this.filters.map((filter) => ({ filter, maxRate, maxAge }));
  }

  /** @internal */
  matches(topic: string): boolean {
    return this.filters.some((filter) => matches(filter, topic));
  }

  /** @internal */
  push(event: SubscriptionEvent): void {
    if (this.options.onEvent) this.options.onEvent(event);
    else this.queue.push(event);
  }

  /** @internal */
  accept(filters: string[]): void {
    const own = filters.filter((filter) => this.filters.includes(filter));
    if (own.length === 0) return;
    for (const filter of own) this.pending.delete(filter);
    if (this.pending.size === 0) this.resolve();
    this.push({ type: "subscribed", filters: own });
  }

  /** @internal */
  refuse(filter: string, code: number, text: string): void {
    if (!this.filters.includes(filter)) return;
    this.reject(new SealcastError("refused", `${filter}: ${text}`, code));
    this.push({ type: "refused", filter, code, text });
  }

  /** @internal */
  end(error?: SealcastError): void {
    this.queue.end(error);
    this.reject(error ?? new SealcastError("closed", "the client was closed"));
  }
}
