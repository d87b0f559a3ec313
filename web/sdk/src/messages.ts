// The messages of wire/sealcast.proto (protocol, section 6): their types, and one
// table of the fields of all of them. A test compares it with the .proto file.
import type { Bytes } from "./bytes.js";

export interface Position {
  topic: string;
  epoch: bigint;
  seq: bigint;
}

export interface Subscription {
  filter: string;
  maxRate: number;
  maxAgeMs: number;
}

export interface Limits {
  messageBytes: number;
  subscriptions: number;
  messagesPerSecond: number;
}

export interface Connected {
  session: string;
  user: string;
  codec: number;
  heartbeatIntervalMs: number;
  heartbeatTimeoutMs: number;
  limits?: Limits;
  version: string;
  ticket: Bytes;
  ticketNonce: Bytes;
  ticketLifetimeS: number;
  expiresAtS: bigint;
  dictionary: Bytes;
  groups: boolean;
  clockUs: bigint;
}

export interface TopicState {
  number: number;
  name: string;
  epoch: bigint;
  nextSeq: bigint;
  recovered: boolean;
}

export interface Value {
  topic: number;
  epoch: bigint;
  seq: bigint;
  timeUs: bigint;
  payload: Bytes;
  stale: boolean;
}

export interface Reset {
  epoch: bigint;
  nextSeq: bigint;
  cause: number;
  topic: number;
  at: number;
}

/** Columns; `entriesOf` reads them. */
export interface Batch {
  baseUs: bigint;
  topics: number[];
  firsts: bigint[];
  order: number[];
  sizes: number[];
  deltas: bigint[];
  skipped: bigint[];
  steps: bigint[];
  resets: Reset[];
  payloads: Bytes;
  cursor: Bytes;
}

export interface Gap {
  topic: number;
  epoch: bigint;
  from: bigint;
  to: bigint;
  cause: number;
}

export interface Notice {
  kind: number;
  text: string;
  merged: bigint;
  dropped: bigint;
  expiresAtS: bigint;
  topics: number[];
}

export interface Goodbye {
  code: number;
  text: string;
  reconnectAfterMs: number;
}

export interface ClientFrame {
  connect?: { token: string; codecs: number[]; clientName: string; clientVersion: string; groups?: boolean };
  subscribe?: { id: number; subscriptions: Partial<Subscription>[]; since: Position[]; cursor: Bytes };
  unsubscribe?: { id: number; filters: string[] };
  refresh?: { id: number; token: string };
  ping?: { id: bigint };
}

export interface ServerFrame {
  connected?: Connected;
  subscribed?: { id: number; filters: string[]; topics: TopicState[] };
  unsubscribed?: { id: number; filters: string[] };
  topics?: { topics: TopicState[] };
  snapshot?: { values: Value[] };
  batch?: Batch;
  gap?: Gap;
  notice?: Notice;
  heartbeat?: { timeUs: bigint; heads: { topic: number; seq: bigint }[]; cursor: Bytes };
  groupKey?: { id: number; secret: Bytes; suite: string; nextCounter: bigint; chain: Bytes };
  groupMark?: { id: number; counter: bigint; chain: Bytes };
  groupLeave?: { id: number };
  error?: { id: number; code: number; text: string; filter: string };
  pong?: { id: bigint };
  refreshed?: { id: number; expiresAtS: bigint };
}

/** Types of fields that are no messages. */
export type Scalar = "uint32" | "uint64" | "sint64" | "fixed64" | "double" | "bool" | "enum" | "string" | "bytes";

/** number, name, type: a scalar or a message of the table; [] means repeated. */
type Field = readonly [number: number, name: string, type: string];

/** The fields of every message, by the message's name. */
export const table: Record<string, readonly Field[]> = {
  ClientFrame: [
    [1, "connect", "Connect"],
    [2, "subscribe", "Subscribe"],
    [3, "unsubscribe", "Unsubscribe"],
    [4, "refresh", "Refresh"],
    [5, "ping", "Ping"],
  ],
  Connect: [
    [1, "token", "string"],
    [2, "codecs", "uint32[]"],
    [3, "clientName", "string"],
    [4, "clientVersion", "string"],
    [5, "groups", "bool"],
  ],
  Subscribe: [
    [1, "id", "uint32"],
    [2, "subscriptions", "Subscription[]"],
    [3, "since", "Position[]"],
    [4, "cursor", "bytes"],
  ],
  Position: [
    [1, "topic", "string"],
    [2, "epoch", "uint64"],
    [3, "seq", "uint64"],
  ],
  Subscription: [
    [1, "filter", "string"],
    [2, "maxRate", "double"],
    [3, "maxAgeMs", "uint32"],
  ],
  Unsubscribe: [
    [1, "id", "uint32"],
    [2, "filters", "string[]"],
  ],
  Refresh: [
    [1, "id", "uint32"],
    [2, "token", "string"],
  ],
  Ping: [[1, "id", "uint64"]],
  ServerFrame: [
    [15, "batch", "Batch"],
    [16, "connected", "Connected"],
    [17, "subscribed", "Subscribed"],
    [18, "unsubscribed", "Unsubscribed"],
    [19, "topics", "Topics"],
    [20, "snapshot", "Snapshot"],
    [22, "gap", "Gap"],
    [23, "notice", "Notice"],
    [24, "heartbeat", "Heartbeat"],
    [25, "groupKey", "GroupKey"],
    [26, "groupMark", "GroupMark"],
    [27, "groupLeave", "GroupLeave"],
    [28, "error", "Error"],
    [29, "pong", "Pong"],
    [30, "refreshed", "Refreshed"],
  ],
  Connected: [
    [1, "session", "string"],
    [2, "user", "string"],
    [3, "codec", "uint32"],
    [4, "heartbeatIntervalMs", "uint32"],
    [5, "heartbeatTimeoutMs", "uint32"],
    [6, "limits", "Limits"],
    [7, "version", "string"],
    [8, "ticket", "bytes"],
    [9, "ticketNonce", "bytes"],
    [10, "ticketLifetimeS", "uint32"],
    [11, "expiresAtS", "uint64"],
    [12, "dictionary", "bytes"],
    [13, "groups", "bool"],
    [14, "clockUs", "uint64"],
  ],
  Limits: [
    [1, "messageBytes", "uint32"],
    [2, "subscriptions", "uint32"],
    [3, "messagesPerSecond", "uint32"],
  ],
  Subscribed: [
    [1, "id", "uint32"],
    [2, "filters", "string[]"],
    [3, "topics", "TopicState[]"],
  ],
  Unsubscribed: [
    [1, "id", "uint32"],
    [2, "filters", "string[]"],
  ],
  Topics: [[1, "topics", "TopicState[]"]],
  TopicState: [
    [1, "number", "uint32"],
    [2, "name", "string"],
    [3, "epoch", "uint64"],
    [4, "nextSeq", "uint64"],
    [5, "recovered", "bool"],
  ],
  Snapshot: [[1, "values", "Value[]"]],
  Value: [
    [1, "topic", "uint32"],
    [2, "epoch", "uint64"],
    [3, "seq", "uint64"],
    [4, "timeUs", "fixed64"],
    [5, "payload", "bytes"],
    [6, "stale", "bool"],
  ],
  Batch: [
    [1, "baseUs", "sint64"],
    [2, "topics", "uint32[]"],
    [3, "firsts", "uint64[]"],
    [4, "order", "uint32[]"],
    [5, "sizes", "uint32[]"],
    [6, "deltas", "sint64[]"],
    [7, "skipped", "uint64[]"],
    [8, "steps", "sint64[]"],
    [9, "resets", "Reset[]"],
    [10, "payloads", "bytes"],
    [11, "cursor", "bytes"],
  ],
  Reset: [
    [1, "epoch", "uint64"],
    [2, "nextSeq", "uint64"],
    [3, "cause", "enum"],
    [4, "topic", "uint32"],
    [5, "at", "uint32"],
  ],
  Heartbeat: [
    [1, "timeUs", "uint64"],
    [2, "heads", "TopicHead[]"],
    [3, "cursor", "bytes"],
  ],
  TopicHead: [
    [1, "topic", "uint32"],
    [2, "seq", "uint64"],
  ],
  Gap: [
    [1, "topic", "uint32"],
    [2, "epoch", "uint64"],
    [3, "from", "uint64"],
    [4, "to", "uint64"],
    [5, "cause", "enum"],
  ],
  Notice: [
    [1, "kind", "enum"],
    [2, "text", "string"],
    [3, "merged", "uint64"],
    [4, "dropped", "uint64"],
    [5, "expiresAtS", "uint64"],
    [6, "topics", "uint32[]"],
  ],
  GroupKey: [
    [1, "id", "uint32"],
    [2, "secret", "bytes"],
    [3, "suite", "string"],
    [4, "nextCounter", "uint64"],
    [5, "chain", "bytes"],
  ],
  GroupMark: [
    [1, "id", "uint32"],
    [2, "counter", "uint64"],
    [3, "chain", "bytes"],
  ],
  GroupLeave: [[1, "id", "uint32"]],
  Refreshed: [
    [1, "id", "uint32"],
    [2, "expiresAtS", "uint64"],
  ],
  Error: [
    [1, "id", "uint32"],
    [2, "code", "uint32"],
    [3, "text", "string"],
    [4, "filter", "string"],
  ],
  Pong: [[1, "id", "uint64"]],
  Goodbye: [
    [1, "code", "uint32"],
    [2, "text", "string"],
    [3, "reconnectAfterMs", "uint32"],
  ],
};
