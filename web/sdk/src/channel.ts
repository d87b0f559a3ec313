// A channel is one connection whose records are sealed: WebSocket, handshake,
// and the queue of each direction. It knows nothing of what records hold, and
// never connects again.
//
//   1  the WebSocket opens; the gateway has selected a suite
//   2  handshake, by a ticket if there is one; the key is compared with the pins
//   3  messages: opened as they come, handed on in their order
//   4  end: a Goodbye of either side, a failure, or a cut
import { equal, toBase64Url, type Bytes } from "./bytes.js";
import { SealcastError, violation } from "./errors.js";
import type { Goodbye } from "./messages.js";
import { kinds, NxHandshake, ResumeHandshake, type Handshaken, type HandshakeKeys, type Negotiated, type Ticket } from "./noise.js";
import { freshKeys, webcrypto, type KeySource } from "./primitives.js";
import { decode, encode } from "./protobuf.js";
import { firstSecrets, Opener, Sealer, ticketKey, type RekeyLimits } from "./records.js";
import { suiteOf, tokenOf, type SuiteName } from "./suites.js";

/** What a channel needs of a WebSocket; that of browsers, of Node and of `ws` have it. */
export interface WebSocketLike {
  binaryType: string;
  readonly protocol: string;
  readonly extensions: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  send(data: Bytes): void;
  close(code?: number, reason?: string): void;
}

/**
 * Makes a WebSocket. The third argument is for the package `ws`: no extensions,
 * and no memory for messages that are too large. Browsers pass it over.
 */
export type WebSocketConstructor = new (
  url: string,
  protocols: string[],
  options: { perMessageDeflate: boolean; maxPayload: number },
) => WebSocketLike;

export type PostQuantum = "off" | "preferred" | "required";

export interface ChannelOptions {
  url: string;
  role: "push" | "echo";
  realm: string;
  suites: readonly SuiteName[];
  /** Static keys that the gateway may have; undefined: any, which protects against listeners only. */
  pins: readonly Bytes[] | undefined;
  postQuantum: PostQuantum;
  /** For one resumption; it is spent by the attempt. */
  ticket?: Ticket;
  webSocket: WebSocketConstructor;
  /** Milliseconds until the handshake must be complete. */
  timeout: number;
  rekey?: RekeyLimits;
  keys?: KeySource;
  now?: () => number;
}

/** What became known of the gateway by the handshake. */
export interface ChannelInfo {
  suite: SuiteName;
  /** The gateway's static key as a pin. */
  key: string;
  /** Whether it is one of the pins; false only if any key was allowed. */
  pinned: boolean;
  hybrid: boolean;
  resumed: boolean;
  aesInHardware: boolean;
}

/** How a channel ended. */
export interface End {
  /** The peer's; without it the end was a cut or our own. */
  goodbye?: Goodbye;
  /** Of the WebSocket; a hint at the most. */
  closeCode: number;
  /** What went wrong here. */
  error?: SealcastError;
}

/** Takes what comes, in order; the next message waits until the result has settled. */
export type Receive = (kind: number, plaintext: Bytes, message: Bytes) => void | Promise<void>;

const maxMessage = { push: 1_052_701, echo: (1 << 20) + 17 };
const closeTimeout = 5000;

/** Opens a channel; rejects with a SealcastError. */
export async function openChannel(options: ChannelOptions): Promise<Channel> {
  webcrypto();
  const socket = new Socket(options);
  const timer = setTimeout(() => socket.fail(new SealcastError("timeout", "the gateway did not answer in time", 4408)), options.timeout);
  try {
    return await shakeHands(socket, options);
  } catch (error) {
    const reason = error instanceof SealcastError ? error : violation(String(error));
    socket.fail(reason);
    throw reason;
  } finally {
    clearTimeout(timer);
  }
}

async function shakeHands(socket: Socket, options: ChannelOptions): Promise<Channel> {
  const { dh, kem } = options.keys ?? freshKeys;
  const newKeys = async (): Promise<HandshakeKeys> =>
    options.postQuantum === "off" ? { dh: await dh() } : { dh: await dh(), kem: await kem() };
  const [keys, selected] = await Promise.all([newKeys(), socket.opened]);
  const suite = suiteOf(selected);
  if (!suite || !socket.offered.includes(selected)) throw violation("the gateway selected no suite that was offered");
  const negotiated: Negotiated = { role: options.role, realm: options.realm, offered: socket.offered, selected };
  const resumed = options.ticket && (await resume(socket, negotiated, options.ticket, keys));
  // After a refused ticket the handshake begins anew, with keys of its own.
  const done = resumed ?? (await handshake(socket, negotiated, options.ticket ? await newKeys() : keys));
  const pinned = options.pins?.some((pin) => equal(pin, done.staticKey)) ?? false;
  if (options.pins && !pinned) {
    const text = `the gateway's key ${toBase64Url(done.staticKey)} is none of the pins: this may be another gateway, or somebody in between`;
    throw new SealcastError("pin", text, 4403);
  }
  const hybrid = done.kemSecret.length > 0;
  if (options.postQuantum === "required" && !hybrid) {
    throw new SealcastError("post-quantum", "the gateway does not take part in post-quantum key agreement", 4403);
  }
  const info = { suite, key: toBase64Url(done.staticKey), pinned, hybrid, resumed: resumed !== undefined, aesInHardware: done.aesInHardware };
  return Channel.establish(socket, options, info, done);
}

async function handshake(socket: Socket, negotiated: Negotiated, keys: HandshakeKeys): Promise<Handshaken> {
  const begun = await NxHandshake.begin(negotiated, keys);
  socket.send(begun.init);
  return begun.finish(await socket.next());
}

/** Tries a ticket; undefined if the gateway refuses it. */
async function resume(socket: Socket, negotiated: Negotiated, ticket: Ticket, keys: HandshakeKeys): Promise<Handshaken | undefined> {
  const begun = await ResumeHandshake.begin(negotiated, ticket, keys);
  socket.send(begun.init);
  const answer = await socket.next();
  if (answer.length === 1 && answer[0] === kinds.resumeRefused) return undefined;
  return begun.finish(answer);
}

/** The WebSocket: messages as they come, and one end. */
class Socket {
  readonly offered: string[];
  /** The selected token. */
  readonly opened: Promise<string>;
  private deliver?: (message: Bytes) => void;
  private onEnd?: (end: End) => void;
  /** Bytes on the wire, without WebSocket's own. */
  readonly bytes = { received: 0, sent: 0 };

  private readonly socket: WebSocketLike;
  private readonly inbox: Bytes[] = [];
  private wake: () => void = () => undefined;
  private error?: SealcastError;
  private final?: End;
  private timer?: ReturnType<typeof setTimeout>;

  constructor(options: ChannelOptions) {
    this.offered = options.suites.map(tokenOf);
    const limit = maxMessage[options.role];
    try {
      this.socket = new options.webSocket(options.url, this.offered, { perMessageDeflate: false, maxPayload: limit });
    } catch (error) {
      throw new SealcastError("options", `no WebSocket to ${options.url}: ${(error as Error).message}`);
    }
    this.socket.binaryType = "arraybuffer";
    this.opened = this.open(options.url);
    this.socket.onmessage = (event: { data: unknown }) => this.receive(event.data, limit);
  }

  private open(url: string): Promise<string> {
    const { socket } = this;
    return new Promise((resolve, reject) => {
      let detail = "";
      socket.onopen = () => {
        if (socket.extensions !== "") reject(violation("the gateway accepted an extension"));
        else resolve(socket.protocol);
      };
      socket.onerror = (event: { message?: string }) => {
        detail = event.message ?? "";
      };
      socket.onclose = (event: { code: number }) => {
        const text = `could not connect to ${url}${detail && `: ${detail}`} (is the gateway there, and does it have a suite of ${this.offered.join(", ")}?)`;
        reject(this.error ?? new SealcastError("unreachable", text, event.code));
        this.end({ closeCode: event.code, error: this.error });
      };
    });
  }

  private receive(data: unknown, limit: number): void {
    if (this.final || this.error) return;
    if (!(data instanceof ArrayBuffer)) return this.fail(new SealcastError("protocol", "a text message came", 1003));
    const message = new Uint8Array(data);
    if (message.length > limit) return this.fail(new SealcastError("protocol", "a message is too large", 1009));
    this.bytes.received += message.length;
    if (this.deliver) return this.deliver(message);
    this.inbox.push(message);
    this.wake();
  }

  /** The next message of the handshake. */
  async next(): Promise<Bytes> {
    while (this.inbox.length === 0) {
      if (this.error) throw this.error;
      if (this.final) throw new SealcastError("unreachable", "the gateway ended the connection during the handshake");
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
    return this.inbox.shift()!;
  }

  /** Hands everything on from here, what came meanwhile first. */
  start(deliver: (message: Bytes) => void, onEnd: (end: End) => void): void {
    for (const message of this.inbox.splice(0)) deliver(message);
    this.deliver = deliver;
    this.onEnd = onEnd;
    if (this.final) onEnd(this.final);
  }

  send(message: Bytes): void {
    if (this.final || this.socket.readyState !== 1) return; // the end is on its way
    this.bytes.sent += message.length;
    this.socket.send(message);
  }

  get buffered(): number {
    return this.socket.bufferedAmount;
  }

  /** Ends the connection with a close frame alone. The first error counts. */
  fail(error: SealcastError): void {
    if (this.final || this.error) return;
    this.error = error;
    this.wake();
    this.close(error.closeCode);
  }

  /** Sends a close frame and waits for the other side's, but not for long. */
  close(code: number): void {
    try {
      this.socket.close(code);
    } catch {
      this.socket.close(4400); // browsers let programs send 1000 and 3000 to 4999 only
    }
    this.after(() => this.end({ closeCode: 1006, error: this.error }));
  }

  /** Closes if the other side does not, after its Goodbye. */
  closeSoon(): void {
    this.after(() => this.close(1000));
  }

  private after(action: () => void): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(action, closeTimeout);
  }

  private end(end: End): void {
    if (this.final) return;
    this.final = end;
    clearTimeout(this.timer);
    this.wake();
    this.onEnd?.(end);
  }
}

/** An established channel. */
export class Channel {
  private onRecord: Receive = () => undefined;
  private onEnd: (end: End) => void = () => undefined;
  /** Settles when everything that came before has been taken. */
  private incoming: Promise<void> = Promise.resolve();
  private outgoing: Promise<void> = Promise.resolve();
  private goodbye?: Goodbye;
  private leaving = false;
  private ended?: End;
  /** When the last record opened, by the channel's clock. */
  lastRecord: number;

  private constructor(
    private readonly socket: Socket,
    readonly info: ChannelInfo,
    private readonly sealer: Sealer,
    private readonly opener: Opener,
    private readonly resumeMaster: Bytes,
    private readonly staticKey: Bytes,
    private readonly options: ChannelOptions,
  ) {
    this.lastRecord = this.now();
  }

  static async establish(socket: Socket, options: ChannelOptions, info: ChannelInfo, done: Handshaken): Promise<Channel> {
    const secrets = await firstSecrets(done);
    const sealer = new Sealer(secrets.clientToServer, info.suite, options.now ?? Date.now, options.rekey);
    const opener = new Opener(secrets.serverToClient, info.suite);
    return new Channel(socket, info, sealer, opener, secrets.resumeMaster, done.staticKey, options);
  }

  /**
   * Begins to hand things on: plaintexts of Records and Goodbyes, group records
   * as they came, and at last, once, the end.
   */
  start(onRecord: Receive, onEnd: (end: End) => void): void {
    this.onRecord = onRecord;
    this.onEnd = onEnd;
    this.socket.start(
      (message) => this.receive(message),
      (end) => this.end(end),
    );
  }

  /** Key changes so far. */
  get keyUpdates(): { sent: number; received: number } {
    return { sent: this.sealer.updates, received: this.opener.updates };
  }

  /** Bytes of sealed messages so far. */
  get bytes(): Readonly<{ received: number; sent: number }> {
    return this.socket.bytes;
  }

  /** Bytes that wait to be sent. */
  get buffered(): number {
    return this.socket.buffered;
  }

  /** Seals and sends a Record; calls keep their order. */
  send(plaintext: Bytes): void {
    if (!this.leaving) this.seal(kinds.record, plaintext);
  }

  /** The ticket for one later connection, from what Connected holds. */
  async ticket(ticket: Bytes, nonce: Bytes, lifetime: number): Promise<Ticket> {
    const psk = await ticketKey(this.resumeMaster, nonce);
    const { realm } = this.options;
    return { ticket: ticket.slice(), psk, staticKey: this.staticKey, hybrid: this.info.hybrid, realm, expires: this.now() + lifetime * 1000 };
  }

  /** Says goodbye and closes; onEnd follows. */
  leave(code = 1000, text = ""): void {
    if (this.leaving || this.ended) return;
    this.seal(kinds.goodbye, encode("Goodbye", { code, text }));
    this.leaving = true;
    void this.outgoing.then(() => this.socket.close(code));
  }

  /** Ends the channel without a Goodbye (protocol, 7.2); onEnd follows. */
  fail(error: SealcastError): void {
    this.leaving = true;
    this.socket.fail(error);
  }

  private now(): number {
    return (this.options.now ?? Date.now)();
  }

  private seal(kind: number, plaintext: Bytes): void {
    if (this.sealer.due) this.queue(this.sealer.update());
    this.queue(this.sealer.seal(kind, plaintext));
  }

  private queue(sealed: Promise<Bytes>): void {
    sealed.catch(() => undefined);
    this.outgoing = this.outgoing.then(async () => this.socket.send(await sealed)).catch(() => this.fail(violation("sealing failed")));
  }

  private receive(message: Bytes): void {
    if (this.goodbye) return this.fail(violation("something came behind a goodbye"));
    const kind = message[0];
    const own = kind === kinds.record || kind === kinds.keyUpdate || kind === kinds.goodbye;
    if (!own && kind !== kinds.groupRecord) return this.fail(violation("a message of an unknown kind came"));
    const plaintext = own ? this.opener.open(message) : Promise.resolve(message);
    plaintext.catch(() => undefined); // take reports it, in order
    this.incoming = this.incoming.then(() => this.take(kind, plaintext, message)).catch((error) => this.fail(asViolation(error)));
  }

  private async take(kind: number, opening: Promise<Bytes>, message: Bytes): Promise<void> {
    if (this.ended) return;
    const plaintext = await opening;
    if (this.ended) return;
    if (kind !== kinds.groupRecord) this.lastRecord = this.now();
    if (kind === kinds.keyUpdate) return;
    if (kind === kinds.goodbye) {
      const goodbye = decode("Goodbye", plaintext) as unknown as Goodbye;
      if (!mayStandInGoodbye(goodbye.code)) throw violation("a goodbye has a code that may not stand there");
      await this.onRecord(kind, plaintext, message);
      this.goodbye = goodbye;
      this.leaving = true; // nothing is sent any more but the answer to the close frame
      this.socket.closeSoon();
      return;
    }
    await this.onRecord(kind, plaintext, message);
  }

  private end(end: End): void {
    // What came before the end is taken before it is told.
    void this.incoming.finally(() => {
      if (this.ended) return;
      this.ended = { ...end, goodbye: end.error ? undefined : this.goodbye };
      this.onEnd(this.ended);
    });
  }
}

function asViolation(error: unknown): SealcastError {
  return error instanceof SealcastError ? error : violation(error instanceof Error ? error.message : String(error));
}

function mayStandInGoodbye(code: number): boolean {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}
