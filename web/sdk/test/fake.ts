// A gateway for tests, in memory: its side of the handshakes, records, tickets
// and groups, over WebSockets that a test cuts whenever it wants.
import { concat, toBase64Url, type Bytes } from "../src/bytes.js";
import type { WebSocketConstructor, WebSocketLike } from "../src/channel.js";
import type { ClientFrame, Connected, Goodbye, ServerFrame } from "../src/messages.js";
import { kinds, nnPskName, nxName, prologueOf, SymmetricState, type Negotiated } from "../src/noise.js";
import { bodyOf } from "../src/plaintext.js";
import { nobleDhKey, sha256, type DhKey } from "../src/primitives.js";
import { decode, decodeFrame, encode } from "../src/protobuf.js";
import { firstSecrets, Opener, RecordKey, Sealer, ticketKey } from "../src/records.js";
import { suiteOf, type SuiteName } from "../src/suites.js";

const empty = new Uint8Array(0);
export const defaultRealm = "tests";

export interface FakeOptions {
  realm?: string;
  /** What Connected says, beside what every one says. */
  connected?: Partial<Connected>;
  /** Give tickets. */
  tickets?: boolean;
  rekeyEvery?: number;
  /** Called with every new session after Connect. */
  onSession?: (session: FakeSession) => void;
  onFrame?: (session: FakeSession, frame: ClientFrame) => void;
  /** The token is taken; otherwise Goodbye 4401. */
  accepts?: (token: string) => boolean;
  /** Changes what is sent, by the kind of the message. */
  tamper?: (message: Bytes) => Bytes;
  protocol?: (offered: string[]) => string;
  extensions?: string;
}

export class FakeGateway {
  readonly sessions: FakeSession[] = [];
  /** Set to let no connection come about. */
  down = false;
  readonly tickets = new Map<string, { psk: Bytes; hybrid: boolean }>();
  attempts = 0;
  readonly WebSocket: WebSocketConstructor;

  private constructor(
    readonly key: DhKey,
    readonly options: FakeOptions,
  ) {
    const gateway = this;
    this.WebSocket = class extends FakeSocket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols, gateway);
      }
    };
  }

  static async make(options: FakeOptions = {}): Promise<FakeGateway> {
    return new FakeGateway(await nobleDhKey(), options);
  }

  get pin(): string {
    return toBase64Url(this.key.publicKey);
  }

  /** Sessions that are established and have not ended. */
  get open(): FakeSession[] {
    return this.sessions.filter((session) => session.open);
  }
}

/** The client's end of a connection. */
class FakeSocket implements WebSocketLike {
  binaryType = "blob";
  protocol = "";
  extensions = "";
  readyState = 0;
  readonly bufferedAmount = 0;
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: never) => void) | null = null;
  onerror: ((event: never) => void) | null = null;
  onclose: ((event: never) => void) | null = null;
  private readonly session: FakeSession;

  constructor(url: string, offered: string[], gateway: FakeGateway) {
    gateway.attempts++;
    const role = url.endsWith("/echo") ? "echo" : "push";
    this.extensions = gateway.options.extensions ?? "";
    this.session = new FakeSession(gateway, this, role, offered);
    setImmediate(() => {
      if (gateway.down) return this.closed(1006);
      this.readyState = 1;
      this.protocol = (gateway.options.protocol ?? ((list) => list[0]))(offered);
      gateway.sessions.push(this.session);
      this.session.selected = this.protocol;
      (this.onopen as (() => void) | null)?.();
    });
  }

  send(data: Bytes): void {
    if (this.readyState === 1) this.session.receive(data.slice());
  }

  close(code = 1000): void {
    if (code !== 1000 && code < 3000) throw new Error("InvalidAccessError"); // as browsers do
    if (this.readyState > 1) return;
    this.session.closeCode = code;
    this.readyState = 2;
    setImmediate(() => this.closed(code));
  }

  /** A message from the gateway. */
  message(data: Bytes | string): void {
    if (this.readyState !== 1) return;
    (this.onmessage as ((event: { data: unknown }) => void) | null)?.({ data: typeof data === "string" ? data : data.slice().buffer });
  }

  closed(code: number): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.session.open = false;
    (this.onclose as ((event: { code: number }) => void) | null)?.({ code });
  }
}

/** The gateway's end of a connection. */
export class FakeSession {
  open = false;
  selected = "";
  /** That of the client's close frame. */
  closeCode = 0;
  goodbye?: Goodbye;
  token = "";
  resumed = false;
  hybrid = false;
  readonly filters = new Set<string>();
  private sealer?: Sealer;
  private opener?: Opener;
  private resumeMaster = empty as Bytes;
  private work: Promise<void> = Promise.resolve();
  private group?: { id: number; key: RecordKey; counter: number; chain: Bytes };
  private unmarked = false;
  /** Messages that a cut takes away: they have left the gateway, and arrive later. */
  private readonly flying: Bytes[] = [];

  constructor(
    readonly gateway: FakeGateway,
    private readonly socket: FakeSocket,
    private readonly role: "push" | "echo",
    private readonly offered: string[],
  ) {}

  get suite(): SuiteName {
    return suiteOf(this.selected)!;
  }

  receive(message: Bytes): void {
    this.then(() => this.take(message));
  }

  /** Waits until everything that was asked for has been sent. */
  settled(): Promise<void> {
    return this.work;
  }

  /** Does something when everything before is done. */
  then(action: () => Promise<void> | void): void {
    this.work = this.work.then(action).catch((error) => {
      if (this.open) throw error;
    });
  }

  send(frame: ServerFrame): void {
    this.then(async () => {
      if (this.unmarked && !frame.groupMark) await this.mark();
      const body = encode("ServerFrame", frame);
      await this.seal(kinds.record, concat(new Uint8Array(3), body));
    });
  }

  /** Sends a batch by the group, if the session is in one. */
  sendBatch(batch: NonNullable<ServerFrame["batch"]>): void {
    this.then(() => {
      if (!this.group) return this.seal(kinds.record, concat(new Uint8Array(3), encode("ServerFrame", { batch })));
      return this.groupRecord(concat(new Uint8Array(3), encode("ServerFrame", { batch })));
    });
  }

  /** Puts the session into a group of its own. */
  joinGroup(id: number): void {
    this.then(async () => {
      if (this.unmarked) await this.mark();
      const secret = crypto.getRandomValues(new Uint8Array(32));
      const chain = new Uint8Array(32);
      const groupKey = { id, secret, suite: this.suite, nextCounter: 0n, chain };
      await this.seal(kinds.record, concat(new Uint8Array(3), encode("ServerFrame", { groupKey })));
      this.group = { id, key: await RecordKey.derive(secret, this.suite, "sealcast v1 group "), counter: 0, chain };
    });
  }

  sayGoodbye(goodbye: Partial<Goodbye>, closes = true): void {
    this.open = false;
    this.then(async () => {
      if (this.unmarked) await this.mark();
      await this.seal(kinds.goodbye, encode("Goodbye", goodbye));
      if (closes) setImmediate(() => this.socket.closed(goodbye.code!));
    });
  }

  /** A message as it is. */
  raw(message: Bytes | string): void {
    this.then(() => this.socket.message(message));
  }

  /** The connection ends without a word; what flies may still be lost. */
  cut(code = 1006): void {
    this.open = false;
    this.flying.length = 0;
    this.socket.closed(code);
  }

  private async take(message: Bytes): Promise<void> {
    if (!this.opener) return this.handshake(message);
    const plaintext = await this.opener.open(message);
    if (message[0] === kinds.keyUpdate) return;
    if (message[0] === kinds.goodbye) {
      this.goodbye = decode("Goodbye", plaintext) as unknown as Goodbye;
      await this.seal(kinds.goodbye, encode("Goodbye", { code: 1000 }));
      return;
    }
    if (this.role === "echo") return this.seal(kinds.record, plaintext);
    const frame = decodeFrame("ClientFrame", bodyOf(plaintext).body) as ClientFrame;
    if (frame.connect) return this.connect(frame.connect, plaintext.length);
    this.gateway.options.onFrame?.(this, frame);
  }

  private async connect({ token }: NonNullable<ClientFrame["connect"]>, size: number): Promise<void> {
    if (size < 1024) throw new Error("Connect is not padded");
    const { accepts, connected, tickets, onSession } = this.gateway.options;
    this.token = token;
    if (accepts && !accepts(token)) return this.sayGoodbye({ code: 4401, text: "no such token" });
    const ticket = tickets ? await this.newTicket() : {};
    this.send({
      connected: {
        session: `s${this.gateway.sessions.length}`, user: "", codec: 0, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0, version: "fake",
        ticket: empty, ticketNonce: empty, ticketLifetimeS: 0, expiresAtS: 0n, dictionary: empty, groups: false, clockUs: 0n,
        limits: { messageBytes: 65536, subscriptions: 1000, messagesPerSecond: 0 }, ...ticket, ...connected,
      },
    });
    onSession?.(this);
  }

  private async newTicket(): Promise<Partial<Connected>> {
    const ticket = crypto.getRandomValues(new Uint8Array(100));
    const ticketNonce = crypto.getRandomValues(new Uint8Array(16));
    this.gateway.tickets.set(toBase64Url(ticket), { psk: await ticketKey(this.resumeMaster, ticketNonce), hybrid: this.hybrid });
    return { ticket, ticketNonce, ticketLifetimeS: 600 };
  }

  private async handshake(message: Bytes): Promise<void> {
    const negotiated: Negotiated = { role: this.role, realm: this.gateway.options.realm ?? defaultRealm, offered: this.offered, selected: this.selected };
    if (message[0] === kinds.resumeInit) return this.resume(negotiated, message);
    const state = await SymmetricState.begin(nxName, prologueOf(negotiated));
    const ephemeral = await nobleDhKey();
    const remote = message.slice(1, 33);
    await state.mixHash(remote);
    await state.mixHash(message.slice(33));
    await state.mixHash(ephemeral.publicKey);
    await state.mixKey(await ephemeral.agree(remote));
    const sealedKey = await state.seal(this.gateway.key.publicKey);
    await state.mixKey(await this.gateway.key.agree(remote));
    await this.establish(state, message[33], message.slice(34), (hello) => concat(Uint8Array.of(kinds.handshakeReply), ephemeral.publicKey, sealedKey, hello));
  }

  private async resume(negotiated: Negotiated, message: Bytes): Promise<void> {
    const n = (message[1] << 8) | message[2];
    const ticket = message.slice(3, 3 + n);
    const known = this.gateway.tickets.get(toBase64Url(ticket));
    this.gateway.tickets.delete(toBase64Url(ticket));
    if (!known) return this.deliver(Uint8Array.of(kinds.resumeRefused));
    const state = await SymmetricState.begin(nnPskName, concat(prologueOf(negotiated), Uint8Array.of(0), await sha256(ticket)));
    const ephemeral = await nobleDhKey();
    const remote = message.slice(3 + n, 35 + n);
    await state.mixKeyAndHash(known.psk);
    await state.mixHash(remote);
    await state.mixKey(remote);
    const hello = await state.open(message.slice(35 + n));
    await state.mixHash(ephemeral.publicKey);
    await state.mixKey(ephemeral.publicKey);
    await state.mixKey(await ephemeral.agree(remote));
    this.resumed = true;
    await this.establish(state, hello[0], hello.slice(1), (sealed) => concat(Uint8Array.of(kinds.resumeReply), ephemeral.publicKey, sealed));
  }

  private async establish(state: SymmetricState, flags: number, kemKey: Bytes, reply: (hello: Bytes) => Bytes): Promise<void> {
    let hello: Bytes = Uint8Array.of(2);
    let kemSecret: Bytes = empty;
    this.hybrid = (flags & 1) === 1;
    if (this.hybrid) {
      const { ml_kem768 } = await import("@noble/post-quantum/ml-kem.js");
      const made = ml_kem768.encapsulate(kemKey);
      kemSecret = made.sharedSecret as Bytes;
      hello = concat(Uint8Array.of(3), made.cipherText);
    }
    const sealed = await state.seal(hello);
    const [kClient, kServer] = await state.split();
    const secrets = await firstSecrets({ h: state.hash, kClient, kServer, kemSecret, staticKey: empty, aesInHardware: true });
    this.resumeMaster = secrets.resumeMaster;
    const records = this.gateway.options.rekeyEvery ?? 2 ** 20;
    this.sealer = new Sealer(secrets.serverToClient, this.suite, () => 0, { records, bytes: 2 ** 40, milliseconds: 2 ** 40 });
    this.opener = new Opener(secrets.clientToServer, this.suite);
    this.deliver(reply(sealed));
    this.open = true;
  }

  private async seal(kind: number, plaintext: Bytes): Promise<void> {
    const sealer = this.sealer!;
    if (sealer.due) this.deliver(await sealer.update());
    this.deliver(await sealer.seal(kind, plaintext));
  }

  private async groupRecord(plaintext: Bytes): Promise<void> {
    const group = this.group!;
    const header = new Uint8Array(13);
    header[0] = kinds.groupRecord;
    const view = new DataView(header.buffer);
    view.setUint32(1, group.id);
    view.setBigUint64(5, BigInt(group.counter));
    const message = concat(header, await group.key.aead.seal(group.key.nonce(group.counter++), header, plaintext));
    group.chain = await sha256(concat(group.chain, message));
    this.unmarked = true;
    this.deliver(message);
  }

  private async mark(): Promise<void> {
    const { id, counter, chain } = this.group!;
    this.unmarked = false;
    const groupMark = { id, counter: BigInt(counter), chain };
    await this.seal(kinds.record, concat(new Uint8Array(3), encode("ServerFrame", { groupMark })));
  }

  /** On its way; arrives in a later turn, unless the connection is cut before. */
  private deliver(message: Bytes): void {
    const { tamper = (m: Bytes) => m } = this.gateway.options;
    const altered = tamper(message);
    this.flying.push(altered);
    setImmediate(() => {
      if (this.flying[0] === altered) {
        this.flying.shift();
        this.socket.message(altered);
      }
    });
  }
}

