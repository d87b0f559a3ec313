// The client: one connection at a time to one gateway, made anew whenever it
// ends and may be made anew; subscriptions and positions live on across them.
import { empty, fromBase64Url, utf8, type Bytes } from "./bytes.js";
import { openChannel, type ChannelInfo, type End, type PostQuantum, type WebSocketConstructor } from "./channel.js";
import { backoff, hintOf, ruleOf, type Rule } from "./codes.js";
import { codecs } from "./compress.js";
import { SealcastError } from "./errors.js";
import type { TopicalEvent } from "./events.js";
import type { Notice as NoticeMessage } from "./messages.js";
import type { Ticket } from "./noise.js";
import { webcrypto } from "./primitives.js";
import { Session, type Inspection, type Wanted } from "./session.js";
import { Subscription, type SubscribeOptions } from "./subscription.js";
import { defaultSuites, keyLengths, type SuiteName } from "./suites.js";
import { isFilter, matches } from "./topics.js";
import { View } from "./view.js";

export interface ClientOptions {
  /**
   * Keys that the gateway may have, 43 characters each. `"any"` goes on with
   * whatever key comes: that protects against listeners, not against somebody
   * who answers in the gateway's place, so no token should go that way.
   */
  pins: readonly string[] | "any";
  /** The gateway's realm; `default` if absent. */
  realm?: string;
  /** A token, or what fetches one: at each connection, and when one runs out. */
  token?: string | (() => string | Promise<string>);
  /** In order of preference. */
  suites?: readonly SuiteName[];
  postQuantum?: PostQuantum;
  /** Take batches that were sealed once for a group of sessions (protocol, 4.5); false if absent. */
  groups?: boolean;
  /** In order of preference; zstd, snappy if absent, and none in any case. */
  compression?: readonly ("zstd" | "snappy")[];
  /** Use tickets to come back faster; true if absent. */
  resume?: boolean;
  /** For platforms without a WebSocket, such as Node 20: that of the package `ws`. */
  WebSocket?: WebSocketConstructor;
  /** Told to the gateway's operators. */
  name?: string;
  version?: string;
  /** Milliseconds for a connection to be established; 10,000 if absent. */
  timeout?: number;
  onStatus?: (status: Status) => void;
  onNotice?: (notice: Notice) => void;
  /** Sees every record, sealed and opened. */
  onRecord?: (record: Inspection) => void;
  /** From 0 to below 1, for the delays of reconnecting; Math.random if absent. */
  random?: () => number;
}

/** Where the client stands. */
export type Status =
  | { state: "connecting"; attempt: number }
  | { state: "connected"; connection: ConnectionInfo }
  /** The next attempt follows after `delay` milliseconds. */
  | { state: "waiting"; delay: number; reason: SealcastError }
  /** For good. */
  | { state: "closed"; reason?: SealcastError };

export interface ConnectionInfo extends ChannelInfo {
  /** Names the session towards the gateway's operators. */
  session: string;
  user: string;
  gatewayVersion: string;
  codec: "none" | "snappy" | "zstd";
  /** Unix seconds at which the token expires; 0: never. */
  expires: number;
}

const noticeKinds = ["unknown", "slow", "caught-up", "source-lost", "source-back", "token-expires"] as const;

/** Something happens to the session; nothing need be done about it. */
export interface Notice {
  /** `token-refused`: the gateway did not take the new token, and the session goes on under the old one. */
  kind: (typeof noticeKinds)[number] | "token-refused";
  text: string;
  /** Of `caught-up`: ticks merged into newer ones, and ticks told as gaps. */
  merged: number;
  dropped: number;
  /** Of `source-lost` and `source-back`; empty: all. */
  topics: string[];
}

export interface Stats {
  connections: number;
  resumptions: number;
  ticks: number;
  merged: number;
  gaps: number;
  /** Ticks that gaps have told of. */
  lost: number;
  resets: number;
  /** Records of groups, of this connection. */
  groupRecords: number;
  /** Key changes of this connection. */
  keyUpdates: { sent: number; received: number };
  /** Bytes of sealed messages of this connection. */
  bytes: { received: number; sent: number };
}

const version = "0.1.0";
const pinDelay = 10_000; // a wrong key seldom mends itself soon

export class Client {
  /** Settles when the client has ended: rejects with the reason, unless close was called. */
  readonly closed: Promise<void>;
  private readonly options: ClientOptions;
  private readonly pins: Bytes[] | undefined;
  private readonly view = new View((event) => this.emit(event));
  private readonly subscriptions = new Set<Subscription>();
  /** Subscriptions by topic, made when a topic's event comes. */
  private readonly routes = new Map<string, Subscription[]>();
  private readonly counts = { connections: 0, resumptions: 0, ticks: 0, merged: 0, gaps: 0, lost: 0, resets: 0 };
  private session?: Session;
  private ticket?: Ticket;
  private cursor: Bytes = empty;
  private token?: string;
  private stopped = false;
  private stop: () => void = () => undefined;
  private readonly stopping = new Promise<void>((resolve) => (this.stop = resolve));
  /** Where the client stands now. */
  status: Status = { state: "connecting", attempt: 1 };

  /** Begins to connect. Wrong options throw. */
  constructor(
    readonly url: string,
    options: ClientOptions,
  ) {
    this.options = options;
    this.pins = options.pins === "any" ? undefined : parsePins(options.pins);
    check(options);
    this.closed = this.run();
    this.closed.catch(() => undefined); // for those who do not look at it
  }

  /** Follows topics: names, or patterns with `*` for one segment and `**` for the rest. */
  subscribe(filters: string | readonly string[], options: SubscribeOptions = {}): Subscription {
    const list = [...new Set(typeof filters === "string" ? [filters] : filters)];
    const wrong = list.find((filter) => !isFilter(filter));
    if (list.length === 0 || wrong !== undefined) throw new SealcastError("options", `not a name or pattern: ${JSON.stringify(wrong ?? "")}`);
    const subscription = new Subscription(list, options, (closed) => this.release(closed));
    const held = this.wanted();
    const clash = subscription.wanted().find((one) => held.some((other) => other.filter === one.filter && (other.maxRate !== one.maxRate || other.maxAge !== one.maxAge)));
    if (clash) throw new SealcastError("options", `${clash.filter} is subscribed already with other options`);
    if (this.stopped) {
      subscription.end(new SealcastError("closed", "the client was closed"));
      return subscription;
    }
    this.subscriptions.add(subscription);
    this.routes.clear();
    // What another subscription follows already is not announced again.
    for (const { name, epoch, last } of this.view.held()) {
      if (subscription.matches(name)) subscription.push({ type: "topic", topic: name, epoch, nextSeq: last + 1 });
    }
    if (this.session) void this.ask(this.session, subscription.wanted(), [], empty);
    return subscription;
  }

  /** Resolves with the milliseconds that an answer took. */
  ping(): Promise<number> {
    if (!this.session) return Promise.reject(new SealcastError("closed", "not connected"));
    return this.session.ping();
  }

  /** Gives the gateway a new token now, without waiting until the old one runs out. */
  async refresh(): Promise<void> {
    const { session } = this;
    if (!session) return; // the next connection fetches one
    try {
      this.token = await this.fetchToken();
      await session.refresh(this.token);
    } catch (error) {
      if (this.session === session) this.options.onNotice?.({ kind: "token-refused", text: (error as Error).message, merged: 0, dropped: 0, topics: [] });
    }
  }

  stats(): Stats {
    const channel = this.session?.channel;
    return {
      ...this.counts,
      groupRecords: this.session?.groups.records ?? 0,
      keyUpdates: channel?.keyUpdates ?? { sent: 0, received: 0 },
      bytes: { received: 0, sent: 0, ...channel?.bytes },
    };
  }

  /** Says goodbye, and resolves when the connection is closed. It can be called at any time. */
  async close(): Promise<void> {
    this.stopped = true;
    this.stop();
    this.session?.channel.leave();
    await this.closed.catch(() => undefined);
  }

  private async run(): Promise<void> {
    let failures = 0;
    while (!this.stopped) {
      this.tell({ state: "connecting", attempt: failures + 1 });
      const before = this.counts.connections;
      const end = await this.attempt();
      if (this.stopped) break;
      failures = this.counts.connections > before ? 0 : failures + 1;
      const reason = reasonOf(end);
      const rule = await this.ruleFor(end);
      if (!rule.reconnect) return this.finish(reason);
      const delay = Math.round(backoff(rule.delay, failures, this.options.random ?? Math.random));
      this.tell({ state: "waiting", delay, reason });
      await this.pause(delay);
    }
    this.finish();
  }

  /** One connection from its beginning to its end. */
  private async attempt(): Promise<End> {
    try {
      const token = await this.fetchToken();
      this.token = token;
      const session = await this.open(token);
      if (!(await session.connect(this.timeout))) return await session.ended;
      this.enter(session);
      const end = await session.ended;
      this.session = undefined;
      return end;
    } catch (error) {
      const known = error instanceof SealcastError ? error : new SealcastError("unreachable", String(error));
      return { closeCode: known.closeCode, error: known };
    }
  }

  private get timeout(): number {
    return this.options.timeout ?? 10_000;
  }

  private async open(token: string): Promise<Session> {
    const { options, url } = this;
    const ticket = this.takeTicket();
    const channel = await openChannel({
      url,
      role: "push",
      realm: options.realm ?? "default",
      suites: options.suites ?? defaultSuites,
      pins: this.pins,
      postQuantum: options.postQuantum ?? "preferred",
      ticket,
      webSocket: webSocketOf(options),
      timeout: this.timeout,
    });
    const handlers = {
      withdrawn: (filter: string, code: number, text: string) => this.subscriptions.forEach((s) => s.refuse(filter, code, text)),
      notice: (notice: NoticeMessage, topics: string[]) => this.notice(notice, topics),
      heartbeat: () => undefined,
      ticket: (fresh: Ticket) => (this.ticket = fresh),
      cursor: (cursor: Bytes) => (this.cursor = cursor),
      inspect: options.onRecord,
    };
    const connect = {
      token,
      clientName: options.name ?? "@sealcast/client",
      clientVersion: options.version ?? version,
      groups: options.groups ?? false,
      codecs: (options.compression ?? (["zstd", "snappy"] as const)).map((name) => codecs[name]),
    };
    if (this.stopped) channel.leave();
    return new Session(channel, this.view, handlers, connect, Date.now);
  }

  /** A ticket is for one attempt, and only where a full handshake would be accepted as well. */
  private takeTicket(): Ticket | undefined {
    const { ticket } = this;
    this.ticket = undefined;
    const { resume = true, postQuantum = "preferred" } = this.options;
    if (!ticket || !resume || ticket.expires <= Date.now()) return undefined;
    return ticket.hybrid === (postQuantum !== "off") || postQuantum === "preferred" ? ticket : undefined;
  }

  private enter(session: Session): void {
    const { connected, channel } = session;
    this.session = session;
    this.counts.connections++;
    if (channel.info.resumed) this.counts.resumptions++;
    this.tell({
      state: "connected",
      connection: {
        ...channel.info,
        session: connected.session,
        user: connected.user,
        gatewayVersion: connected.version,
        codec: (["none", "snappy", "zstd"] as const)[connected.codec],
        expires: Number(connected.expiresAtS),
      },
    });
    if (this.stopped) channel.leave();
    else void this.ask(session, this.wanted(), this.view.positions((name) => this.route(name).length > 0), this.cursor);
  }

  /** Subscribes on a connection; if that ends, the next one asks again. */
  private async ask(session: Session, wanted: Wanted[], since: Parameters<Session["subscribe"]>[1], cursor: Bytes): Promise<void> {
    if (wanted.length === 0) return;
    try {
      const { accepted, refused } = await session.subscribe(wanted, since, matches, cursor);
      for (const subscription of [...this.subscriptions]) {
        for (const { filter, code, text } of refused) subscription.refuse(filter, code, text);
        subscription.accept(accepted);
      }
    } catch (error) {
      const { code, closeCode, message } = error as SealcastError;
      if (code !== "refused") return;
      for (const { filter } of wanted) this.subscriptions.forEach((s) => s.refuse(filter, closeCode, message));
    }
  }

  private release(subscription: Subscription): void {
    if (!this.subscriptions.delete(subscription)) return;
    this.routes.clear();
    const left = new Set(this.wanted().map(({ filter }) => filter));
    const gone = subscription.filters.filter((filter) => !left.has(filter));
    const forget = () => this.view.release((name) => this.route(name).length > 0);
    if (!this.session) return forget();
    this.session.unsubscribe(gone).then(forget, forget);
  }

  /** All filters, each once. */
  private wanted(): Wanted[] {
    const all = new Map<string, Wanted>();
    for (const subscription of this.subscriptions) for (const one of subscription.wanted()) all.set(one.filter, one);
    return [...all.values()];
  }

  private route(topic: string): Subscription[] {
    let route = this.routes.get(topic);
    if (!route) {
      route = [...this.subscriptions].filter((subscription) => subscription.matches(topic));
      this.routes.set(topic, route);
    }
    return route;
  }

  private emit(event: TopicalEvent): void {
    const { counts } = this;
    if (event.type === "tick") {
      counts.ticks++;
      counts.merged += event.merged;
    } else if (event.type === "gap") {
      counts.gaps++;
      counts.lost += event.to - event.from + 1;
    } else if (event.type === "reset") counts.resets++;
    for (const subscription of this.route(event.topic)) subscription.push(event);
  }

  private notice({ kind, text, merged, dropped }: NoticeMessage, topics: string[]): void {
    const name = noticeKinds[kind];
    if (!name || name === "unknown") return;
    this.options.onNotice?.({ kind: name, text, merged: Number(merged), dropped: Number(dropped), topics });
    if (name === "token-expires" && typeof this.options.token === "function") void this.refresh();
  }

  private async fetchToken(): Promise<string> {
    const { token = "" } = this.options;
    return typeof token === "string" ? token : token();
  }

  private async ruleFor(end: End): Promise<Rule> {
    const { goodbye, error } = end;
    if (error?.code === "options" || error?.code === "insecure-context") return { reconnect: false, delay: 0 };
    if (error?.code === "pin" || error?.code === "post-quantum") return { reconnect: true, delay: pinDelay };
    if (!goodbye) return hintOf(end.closeCode);
    const rule = ruleOf(goodbye.code);
    const delay = goodbye.reconnectAfterMs || rule.delay;
    if (rule.reconnect !== "token") return { ...rule, delay };
    const refused = this.token;
    const fresh = await this.fetchToken().catch(() => refused);
    return { reconnect: fresh !== refused, delay };
  }

  private pause(delay: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout>;
    const slept = new Promise<void>((resolve) => (timer = setTimeout(resolve, delay)));
    return Promise.race([slept, this.stopping]).finally(() => clearTimeout(timer));
  }

  private tell(status: Status): void {
    this.status = status;
    this.options.onStatus?.(status);
  }

  private finish(reason?: SealcastError): void {
    this.stopped = true;
    for (const subscription of this.subscriptions) subscription.end(reason);
    this.subscriptions.clear();
    this.tell({ state: "closed", reason });
    if (reason) throw reason;
  }
}

/** Why a connection ended, in words. */
function reasonOf({ goodbye, closeCode, error }: End): SealcastError {
  if (error) return error;
  if (goodbye) return new SealcastError("closed", `the gateway ended the session: ${goodbye.text || "no reason given"} (${goodbye.code})`, goodbye.code);
  return new SealcastError("closed", `the connection was cut (${closeCode})`, closeCode);
}

function parsePins(pins: readonly string[]): Bytes[] {
  if (pins.length === 0) throw new SealcastError("options", 'give at least one pin, or "any" to go on with whatever key the gateway has');
  return pins.map((pin) => {
    if (!/^[A-Za-z0-9_-]{43}$/.test(pin)) throw new SealcastError("options", `not a pin: ${JSON.stringify(pin)}; \`sealctl info\` shows a gateway's`);
    return fromBase64Url(pin);
  });
}

function check({ suites, realm = "" }: ClientOptions): void {
  if (suites?.some((suite) => !(suite in keyLengths)) || suites?.length === 0) {
    throw new SealcastError("options", `suites are ${Object.keys(keyLengths).join(", ")}`);
  }
  if (suites?.includes("plain") && suites.length > 1) throw new SealcastError("options", "plain must be the only suite");
  if (realm.includes("\0") || utf8(realm).length > 255) throw new SealcastError("options", "a realm has up to 255 bytes and no NUL");
  webcrypto();
}

function webSocketOf(options: ClientOptions): WebSocketConstructor {
  const found = options.WebSocket ?? (globalThis as { WebSocket?: unknown }).WebSocket;
  if (!found) throw new SealcastError("options", "this platform has no WebSocket: pass one in, such as that of the package ws");
  return found as WebSocketConstructor;
}
