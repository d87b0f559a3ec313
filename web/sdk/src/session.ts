// A session is one connection in the push role: Connect, requests and their
// answers, groups, compression, signs of life (protocol, sections 5 to 7). What
// it is sent about topics goes to the view.
import { utf8, type Bytes } from "./bytes.js";
import type { Channel, End } from "./channel.js";
import { entriesOf } from "./batch.js";
import { codecs, decompressorOf } from "./compress.js";
import { SealcastError, violation } from "./errors.js";
import { Groups } from "./group.js";
import type { Batch, ClientFrame, Connected, Notice, ServerFrame } from "./messages.js";
import { kinds, type Ticket } from "./noise.js";
import { clientPlaintext, serverFrame, type Codec } from "./plaintext.js";
import type { TopicView, View } from "./view.js";

/** A record from the gateway as it came and as it was read, for those who want to look. */
export interface Inspection {
  /** The whole sealed message. */
  sealed: Bytes;
  /** Sealed once for a group of sessions. */
  group: boolean;
  /** Length of the body as it was sealed, and after decompression. */
  packed: number;
  unpacked: number;
  /** If the record held a Batch; `topics` are the names for what `entriesOf` makes of it, in that order. */
  batch?: Batch;
  topics?: string[];
}

/** What a session tells whoever runs it. */
export interface SessionHandlers {
  /** Filters that the gateway takes away. */
  withdrawn(filter: string, code: number, text: string): void;
  notice(notice: Notice, topics: string[]): void;
  /** The gateway's clock, in microseconds. */
  heartbeat(timeUs: number): void;
  ticket(ticket: Ticket): void;
  cursor(cursor: Bytes): void;
  inspect?(record: Inspection): void;
}

/** A filter with its options. */
export interface Wanted {
  filter: string;
  /** Ticks a second and topic, at most, of topics that may be merged. */
  maxRate?: number;
  /** Milliseconds after which such ticks are not sent any more. */
  maxAge?: number;
}

export interface Answer {
  accepted: string[];
  refused: { filter: string; code: number; text: string }[];
}

interface Request {
  refused: Answer["refused"];
  resolve(frame: ServerFrame): void;
  reject(error: SealcastError): void;
}

// What parts of a Subscribe take at most, beside their strings.
const frameOverhead = 64;
const filterOverhead = 24;
const positionOverhead = 32;

export interface ConnectOptions {
  token: string;
  clientName: string;
  clientVersion: string;
  groups: boolean;
  codecs: readonly number[];
}

export class Session {
  /** From Connected on. */
  connected!: Connected;
  readonly ended: Promise<End>;
  readonly groups: Groups;
  private codec?: Codec;
  private nextId = 1;
  private readonly requests = new Map<number, Request>();
  private readonly pings = new Map<bigint, () => void>();
  private over = false;
  private timer?: ReturnType<typeof setTimeout>;
  private accept!: () => void;

  constructor(
    readonly channel: Channel,
    private readonly view: View,
    private readonly handlers: SessionHandlers,
    private readonly options: ConnectOptions,
    private readonly now: () => number,
  ) {
    this.groups = new Groups(channel.info.suite);
    this.ended = new Promise((resolve) => {
      channel.start(
        (kind, plaintext, message) => this.receive(kind, plaintext, message),
        (end) => {
          this.end();
          resolve(end);
        },
      );
    });
  }

  /** Sends Connect; false if the channel ends before it is answered. */
  async connect(timeout: number): Promise<boolean> {
    const { token, clientName, clientVersion, groups, codecs } = this.options;
    const answered = new Promise<true>((resolve) => (this.accept = () => resolve(true)));
    const frame = { connect: { token, codecs: [...codecs], clientName, clientVersion, groups } };
    this.channel.send(clientPlaintext(frame, 1024));
    const timer = setTimeout(() => this.channel.fail(new SealcastError("timeout", "the gateway did not answer Connect in time", 4408)), timeout);
    const accepted = await Promise.race([answered, this.ended.then(() => false)]);
    clearTimeout(timer);
    if (accepted) this.watch();
    return accepted;
  }

  /** Asks for filters, in several requests if one would be too large, with the positions that fit. */
  async subscribe(wanted: Wanted[], since: TopicView[], matches: (filter: string, name: string) => boolean, cursor: Bytes): Promise<Answer> {
    const limit = this.connected.limits?.messageBytes || 2048;
    const all: Answer = { accepted: [], refused: [] };
    for (const part of chunks(wanted, limit - frameOverhead - cursor.length)) {
      let room = limit - frameOverhead - cursor.length - sizeOf(part);
      const fitting = since.filter(({ name }) => {
        if (room < 0 || !part.some(({ filter }) => matches(filter, name))) return false;
        room -= utf8(name).length + positionOverhead;
        return room >= 0;
      });
      const positions = fitting.map(({ name, epoch, last }) => ({ topic: name, epoch: BigInt(epoch), seq: BigInt(last) }));
      const subscriptions = part.map(({ filter, maxRate = 0, maxAge = 0 }) => ({ filter, maxRate, maxAgeMs: maxAge }));
      const { frame, refused } = await this.ask((id) => ({ subscribe: { id, subscriptions, since: positions, cursor } }));
      all.accepted.push(...frame.subscribed!.filters);
      all.refused.push(...refused);
    }
    return all;
  }

  async unsubscribe(filters: string[]): Promise<void> {
    const limit = this.connected.limits?.messageBytes || 2048;
    for (const part of chunks(filters.map((filter) => ({ filter })), limit - frameOverhead)) {
      await this.ask((id) => ({ unsubscribe: { id, filters: part.map(({ filter }) => filter) } }));
    }
  }

  /** Exchanges the token; resolves with its expiry in Unix seconds, 0 for never. */
  async refresh(token: string): Promise<number> {
    const { frame } = await this.ask((id) => ({ refresh: { id, token } }));
    return Number(frame.refreshed!.expiresAtS);
  }

  /** Resolves with the milliseconds that an answer took. */
  async ping(): Promise<number> {
    const id = BigInt(this.takeId());
    const sent = performance.now();
    const answered = new Promise<void>((resolve) => this.pings.set(id, resolve));
    this.channel.send(clientPlaintext({ ping: { id } }));
    const over = await Promise.race([answered, this.ended]);
    if (over) throw new SealcastError("closed", "the connection has ended");
    return performance.now() - sent;
  }

  private takeId(): number {
    const id = this.nextId;
    this.nextId = id === 2 ** 32 - 1 ? 1 : id + 1;
    return id;
  }

  private ask(make: (id: number) => ClientFrame): Promise<{ frame: ServerFrame; refused: Answer["refused"] }> {
    return new Promise((resolve, reject) => {
      if (this.over) return reject(new SealcastError("closed", "the connection has ended"));
      const id = this.takeId();
      const refused: Answer["refused"] = [];
      this.requests.set(id, { refused, resolve: (frame) => resolve({ frame, refused }), reject });
      this.channel.send(clientPlaintext(make(id)));
    });
  }

  private async receive(kind: number, plaintext: Bytes, message: Bytes): Promise<void> {
    if (kind === kinds.goodbye) {
      await this.groups.take();
      return;
    }
    const group = kind === kinds.groupRecord;
    const opened = group ? await this.groups.open(plaintext) : plaintext;
    const { frame, unpacked } = serverFrame(opened, this.codec);
    if (group && !frame.batch) throw violation("a group record holds something else than a batch");
    if (!group && (await this.groups.take(frame))) return;
    await this.take(frame);
    this.handlers.inspect?.(this.inspection(frame, opened, unpacked, message, group));
  }

  private inspection(frame: ServerFrame, opened: Bytes, unpacked: number, sealed: Bytes, group: boolean): Inspection {
    const packed = opened.length - 3 - ((opened[1] << 8) | opened[2]);
    const { batch } = frame;
    const topics = batch && entriesOf(batch).map((entry) => this.view.nameOf(entry.topic));
    return { sealed, group, packed, unpacked, batch, topics };
  }

  private async take(frame: ServerFrame): Promise<void> {
    if (!this.connected) {
      if (!frame.connected) throw violation("the gateway's first message is not Connected");
      return this.begin(frame.connected);
    }
    if (frame.batch) this.view.batch(frame.batch);
    else if (frame.subscribed) {
      frame.subscribed.topics.forEach((topic) => this.view.announce(topic));
      this.answer(frame.subscribed.id, frame);
    } else if (frame.unsubscribed) this.answer(frame.unsubscribed.id, frame);
    else if (frame.topics) frame.topics.topics.forEach((topic) => this.view.announce(topic));
    else if (frame.snapshot) frame.snapshot.values.forEach((value) => this.view.snapshot(value));
    else if (frame.gap) this.view.gap(frame.gap);
    else if (frame.notice) this.handlers.notice(frame.notice, this.view.names(frame.notice.topics));
    else if (frame.heartbeat) {
      frame.heartbeat.heads.forEach(({ topic, seq }) => this.view.head(topic, seq));
      this.handlers.heartbeat(Number(frame.heartbeat.timeUs));
    } else if (frame.error) this.refuse(frame.error);
    else if (frame.pong) {
      this.pings.get(frame.pong.id)?.();
      this.pings.delete(frame.pong.id);
    } else if (frame.refreshed) this.answer(frame.refreshed.id, frame);
    else throw violation("the gateway sent Connected twice");
    const cursor = frame.batch?.cursor ?? frame.heartbeat?.cursor;
    if (cursor?.length) this.handlers.cursor(cursor.slice());
  }

  private async begin(connected: Connected): Promise<void> {
    const { codec, ticket, ticketNonce, ticketLifetimeS } = connected;
    this.view.clock = connected.clockUs;
    if (codec !== codecs.none) {
      if (!this.options.codecs.includes(codec)) throw violation("the gateway chose a codec that was not offered");
      this.codec = { number: codec, undo: await decompressorOf(codec) };
    }
    if (ticket.length > 0) {
      if (ticketNonce.length !== 16 || ticket.length > 1024) throw violation("a ticket is not as it should be");
      this.handlers.ticket(await this.channel.ticket(ticket, ticketNonce, ticketLifetimeS));
    }
    this.connected = connected;
    this.accept();
  }

  private answer(id: number, frame: ServerFrame): void {
    this.requests.get(id)?.resolve(frame);
    this.requests.delete(id);
  }

  private refuse({ id, code, text, filter }: NonNullable<ServerFrame["error"]>): void {
    const request = this.requests.get(id);
    if (filter !== "") {
      if (request) request.refused.push({ filter, code, text });
      else if (id === 0) this.handlers.withdrawn(filter, code, text);
      return;
    }
    this.requests.delete(id);
    request?.reject(new SealcastError("refused", text || `refused with ${code}`, code));
  }

  /** Looks for signs of life: records alone, since others can send pings. */
  private watch(): void {
    const timeout = this.connected.heartbeatTimeoutMs;
    if (timeout === 0 || this.over) return;
    const silent = this.now() - this.channel.lastRecord;
    if (silent >= timeout) return this.channel.fail(new SealcastError("timeout", "the gateway has given no sign of life", 4410));
    this.timer = setTimeout(() => this.watch(), Math.max(timeout - silent, 10));
  }

  private end(): void {
    this.over = true;
    clearTimeout(this.timer);
    const error = new SealcastError("closed", "the connection has ended");
    for (const request of this.requests.values()) request.reject(error);
    this.requests.clear();
    this.view.disconnect();
  }
}

function sizeOf(wanted: Wanted[]): number {
  return wanted.reduce((sum, { filter }) => sum + utf8(filter).length + filterOverhead, 0);
}

/** Parts whose filters fit into `room` bytes together; a single one always fits. */
function* chunks(wanted: Wanted[], room: number): Generator<Wanted[]> {
  let part: Wanted[] = [];
  for (const one of wanted) {
    if (part.length > 0 && sizeOf([...part, one]) > room) {
      yield part;
      part = [];
    }
    part.push(one);
  }
  if (part.length > 0) yield part;
}
