// Package @sealcast/client reads decrypted ticks from a Sealcast gateway, in
// browsers and in Node. README.md shows how; docs/protocol.md says what it does.
export { Client, type ClientOptions, type ConnectionInfo, type Notice, type Stats, type Status } from "./client.js";
export type { PostQuantum, WebSocketConstructor, WebSocketLike } from "./channel.js";
export type { Cause } from "./codes.js";
export { measureEcho, type EchoOptions, type EchoResult } from "./echo.js";
export { SealcastError, type ErrorCode } from "./errors.js";
export type { GapEvent, RefusedEvent, ResetEvent, SnapshotEvent, SubscribedEvent, SubscriptionEvent, Tick, TopicEvent } from "./events.js";
export { entriesOf, type Entry } from "./batch.js";
export type { Batch } from "./messages.js";
export type { Inspection } from "./session.js";
export type { Subscription, SubscribeOptions } from "./subscription.js";
export type { SuiteName } from "./suites.js";
export { isFilter, matches } from "./topics.js";
