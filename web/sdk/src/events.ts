// What a subscription hands to the program.
import type { Bytes } from "./bytes.js";
import type { Cause } from "./codes.js";

export interface Tick {
  type: "tick";
  topic: string;
  epoch: number;
  seq: number;
  /** Earlier ticks that came as part of this one, merged by the gateway. */
  merged: number;
  /** When the gateway received it, in microseconds since the Unix epoch. */
  time: number;
  /** Shares memory with other ticks: copy it to change it. */
  payload: Bytes;
}

/** The last tick of a topic before its delivery began; with epoch 0 a first value that the publisher keeps. */
export interface SnapshotEvent {
  type: "snapshot";
  topic: string;
  epoch: number;
  seq: number;
  /** Microseconds since the Unix epoch; 0: not known. */
  time: number;
  payload: Bytes;
  /** Newer ticks may have been lost. */
  stale: boolean;
}

/** The ticks `from` to `to` will not come. */
export interface GapEvent {
  type: "gap";
  topic: string;
  epoch: number;
  from: number;
  to: number;
  cause: Cause;
}

/** An unknown number of ticks may be missing: what the program keeps of the topic is stale until the next one. */
export interface ResetEvent {
  type: "reset";
  topic: string;
  epoch: number;
  nextSeq: number;
  cause: Cause;
}

/** A topic's delivery begins. */
export interface TopicEvent {
  type: "topic";
  topic: string;
  epoch: number;
  nextSeq: number;
}

/** The gateway has confirmed these filters; again after each reconnection. */
export interface SubscribedEvent {
  type: "subscribed";
  filters: string[];
}

/** The gateway does not allow a filter, or takes it away. */
export interface RefusedEvent {
  type: "refused";
  filter: string;
  /** Of the table of close codes. */
  code: number;
  text: string;
}

export type SubscriptionEvent = Tick | SnapshotEvent | GapEvent | ResetEvent | TopicEvent | SubscribedEvent | RefusedEvent;

/** Events about one topic. */
export type TopicalEvent = Exclude<SubscriptionEvent, SubscribedEvent | RefusedEvent>;
