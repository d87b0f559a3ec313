// The handshakes as the client sees them: Noise_NX and Noise_NNpsk0 with
// 25519, ChaChaPoly and SHA256 (protocol, 3.1 to 3.5 and 3.9). Each function
// carries the token of Noise that it does in a comment.
import { concat, empty, utf8, type Bytes } from "./bytes.js";
import { violation } from "./errors.js";
import { expand, extract, sha256, type DhKey, type KemKey } from "./primitives.js";
import { nobleChaCha } from "./suites.js";

/** Noise's SymmetricState, with a cipher whose every key is used once. */
export class SymmetricState {
  private k: Bytes = empty;

  private constructor(
    private ck: Bytes,
    private h: Bytes,
  ) {}

  /** Begins with the protocol's name and mixes the prologue. */
  static async begin(name: string, prologue: Bytes): Promise<SymmetricState> {
    const ascii = utf8(name);
    const h = ascii.length > 32 ? await sha256(ascii) : concat(ascii, new Uint8Array(32 - ascii.length));
    const state = new SymmetricState(h, h);
    await state.mixHash(prologue);
    return state;
  }

  get hash(): Bytes {
    return this.h;
  }

  async mixHash(data: Bytes): Promise<void> {
    this.h = await sha256(concat(this.h, data));
  }

  async mixKey(input: Bytes): Promise<void> {
    [this.ck, this.k] = await this.derive(input, 2);
  }

  async mixKeyAndHash(input: Bytes): Promise<void> {
    const [ck, t, k] = await this.derive(input, 3);
    this.ck = ck;
    this.k = k;
    await this.mixHash(t);
  }

  async seal(plaintext: Bytes): Promise<Bytes> {
    const sealed = await nobleChaCha(this.k).seal(zeroNonce, this.h, plaintext);
    await this.mixHash(sealed);
    return sealed;
  }

  async open(sealed: Bytes): Promise<Bytes> {
    let plaintext: Bytes;
    try {
      plaintext = await nobleChaCha(this.k).open(zeroNonce, this.h, sealed);
    } catch {
      throw violation("the handshake does not open");
    }
    await this.mixHash(sealed);
    return plaintext;
  }

  /** The two keys of Split: of the initiator, of the responder. */
  async split(): Promise<[Bytes, Bytes]> {
    const [first, second] = await this.derive(empty, 2);
    return [first, second];
  }

  private async derive(input: Bytes, n: 2 | 3): Promise<Bytes[]> {
    const out = await expand(await extract(this.ck, input), empty, 32 * n);
    return Array.from({ length: n }, (_, i) => out.slice(32 * i, 32 * i + 32));
  }
}

const zeroNonce: Bytes = new Uint8Array(12);

export const kinds = {
  handshakeInit: 0x01,
  handshakeReply: 0x02,
  resumeInit: 0x03,
  resumeReply: 0x04,
  resumeRefused: 0x05,
  record: 0x10,
  groupRecord: 0x11,
  keyUpdate: 0x12,
  goodbye: 0x13,
} as const;

export const nxName = "Noise_NX_25519_ChaChaPoly_SHA256";
export const nnPskName = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

export const hybridFlag = 0x01;
const aesFlag = 0x02;
export const kemKeySize = 1184;
export const kemCiphertextSize = 1088;

/** What the prologue binds (protocol, 3.2). */
export interface Negotiated {
  role: "push" | "echo";
  realm: string;
  offered: readonly string[];
  selected: string;
}

export function prologueOf(n: Negotiated): Bytes {
  return utf8(["sealcast.v1", n.role, n.realm, n.offered.join(","), n.selected].join("\0"));
}

/** What a handshake yields: the input of the key schedule, and facts about the gateway. */
export interface Handshaken {
  h: Bytes;
  kClient: Bytes;
  kServer: Bytes;
  /** ML-KEM's shared secret; empty without it. */
  kemSecret: Bytes;
  /** The gateway's static key; of a resumption, that of the ticket. */
  staticKey: Bytes;
  /** The gateway says that it has AES in hardware. */
  aesInHardware: boolean;
}

/** A client's keys of one handshake; without kem it is a classical one. */
export interface HandshakeKeys {
  dh: DhKey;
  kem?: KemKey;
}

function clientHello(keys: HandshakeKeys): Bytes {
  return keys.kem ? concat(Uint8Array.of(hybridFlag), keys.kem.publicKey) : Uint8Array.of(0);
}

/** Refuses a reply whose length is not one of the two that are possible. */
function checkReply(reply: Bytes, kind: number, shortest: number, keys: HandshakeKeys): void {
  const hybrid = reply.length === shortest + kemCiphertextSize && keys.kem !== undefined;
  if (reply[0] !== kind || (reply.length !== shortest && !hybrid)) {
    throw violation("the handshake's answer has a wrong kind or length");
  }
}

async function finish(state: SymmetricState, hello: Bytes, keys: HandshakeKeys, staticKey: Bytes): Promise<Handshaken> {
  const hybrid = hello.length > 1;
  if (hybrid !== ((hello[0] & hybridFlag) !== 0)) throw violation("the hello's flag and length differ");
  const kemSecret = hybrid ? await keys.kem!.decapsulate(hello.slice(1)) : empty;
  const [kClient, kServer] = await state.split();
  return { h: state.hash, kClient, kServer, kemSecret, staticKey, aesInHardware: (hello[0] & aesFlag) !== 0 };
}

/** The handshake with the gateway's static key. */
export class NxHandshake {
  private constructor(
    private readonly state: SymmetricState,
    private readonly keys: HandshakeKeys,
    /** HandshakeInit, to be sent. */
    readonly init: Bytes,
  ) {}

  static async begin(negotiated: Negotiated, keys: HandshakeKeys): Promise<NxHandshake> {
    const state = await SymmetricState.begin(nxName, prologueOf(negotiated));
    const hello = clientHello(keys);
    await state.mixHash(keys.dh.publicKey); // -> e
    await state.mixHash(hello); // payload
    return new NxHandshake(state, keys, concat(Uint8Array.of(kinds.handshakeInit), keys.dh.publicKey, hello));
  }

  /** Takes HandshakeReply. The caller compares the static key with its pins. */
  async finish(reply: Bytes): Promise<Handshaken> {
    checkReply(reply, kinds.handshakeReply, 98, this.keys);
    const { state, keys } = this;
    const remote = reply.slice(1, 33);
    await state.mixHash(remote); // <- e
    await state.mixKey(await keys.dh.agree(remote)); // ee
    const staticKey = await state.open(reply.slice(33, 81)); // s
    await state.mixKey(await keys.dh.agree(staticKey)); // es
    return finish(state, await state.open(reply.slice(81)), keys, staticKey);
  }
}

/** What a client keeps for one resumption. It holds a secret. */
export interface Ticket {
  ticket: Bytes;
  psk: Bytes;
  staticKey: Bytes;
  hybrid: boolean;
  realm: string;
  /** When the gateway refuses it, in milliseconds since the Unix epoch. */
  expires: number;
}

/** The handshake with a ticket. */
export class ResumeHandshake {
  private constructor(
    private readonly state: SymmetricState,
    private readonly keys: HandshakeKeys,
    private readonly ticket: Ticket,
    /** ResumeInit, to be sent. */
    readonly init: Bytes,
  ) {}

  static async begin(negotiated: Negotiated, ticket: Ticket, keys: HandshakeKeys): Promise<ResumeHandshake> {
    const prologue = concat(prologueOf(negotiated), Uint8Array.of(0), await sha256(ticket.ticket));
    const state = await SymmetricState.begin(nnPskName, prologue);
    await state.mixKeyAndHash(ticket.psk); // -> psk
    await state.mixHash(keys.dh.publicKey); // e
    await state.mixKey(keys.dh.publicKey);
    const hello = await state.seal(clientHello(keys)); // payload
    const n = ticket.ticket.length;
    const head = Uint8Array.of(kinds.resumeInit, n >> 8, n & 0xff);
    return new ResumeHandshake(state, keys, ticket, concat(head, ticket.ticket, keys.dh.publicKey, hello));
  }

  /** Takes ResumeReply. */
  async finish(reply: Bytes): Promise<Handshaken> {
    checkReply(reply, kinds.resumeReply, 50, this.keys);
    const { state, keys } = this;
    const remote = reply.slice(1, 33);
    await state.mixHash(remote); // <- e
    await state.mixKey(remote);
    await state.mixKey(await keys.dh.agree(remote)); // ee
    const done = await finish(state, await state.open(reply.slice(33)), keys, this.ticket.staticKey);
    if (this.ticket.hybrid && done.kemSecret.length === 0) throw violation("a hybrid session was resumed without ML-KEM");
    return done;
  }
}
