// The key schedule, and the two directions of a session that seal and open its
// records (protocol, section 4). The calls of a direction count at once and in
// the order in which they are made; their results may come in any order, so
// whoever calls must await them in order.
import { concat, utf8, type Bytes } from "./bytes.js";
import { violation } from "./errors.js";
import { kinds, type Handshaken } from "./noise.js";
import { expand, extract } from "./primitives.js";
import { keyLengths, newAead, type Aead, type SuiteName } from "./suites.js";

/** When a sender changes its key, at the latest (protocol, 4.4). */
export interface RekeyLimits {
  records: number;
  bytes: number;
  milliseconds: number;
}

export const defaultRekey: RekeyLimits = { records: 2 ** 20, bytes: 64 * 2 ** 30, milliseconds: 600_000 };

const maxReceived = 2 ** 23;

export interface Secrets {
  clientToServer: Bytes;
  serverToClient: Bytes;
  /** From which the keys of tickets are made (3.9). */
  resumeMaster: Bytes;
}

export async function firstSecrets(done: Handshaken): Promise<Secrets> {
  const serverToClient = await extract(done.h, concat(done.kServer, done.kemSecret));
  const secrets = {
    clientToServer: await extract(done.h, concat(done.kClient, done.kemSecret)),
    serverToClient,
    resumeMaster: await expand(serverToClient, utf8("sealcast v1 resume"), 32),
  };
  for (const spent of [done.kClient, done.kServer, done.kemSecret]) spent.fill(0);
  return secrets;
}

/** The key of a ticket, from the nonce that came with it. */
export function ticketKey(resumeMaster: Bytes, nonce: Bytes): Promise<Bytes> {
  return expand(resumeMaster, concat(utf8("sealcast v1 psk"), nonce), 32);
}

/** A key and an iv made of a secret by the labels of the schedule, and the nonces they give. */
export class RecordKey {
  private constructor(
    readonly aead: Aead,
    private readonly iv: Bytes,
  ) {}

  static async derive(secret: Bytes, suite: SuiteName, labels = "sealcast v1 "): Promise<RecordKey> {
    const key = await expand(secret, utf8(`${labels}key ${suite}`), keyLengths[suite]);
    const iv = await expand(secret, utf8(`${labels}iv ${suite}`), 12);
    const aead = await newAead(suite, key);
    return new RecordKey(aead, iv);
  }

  /** The iv with the counter, below 2^53, in its last eight bytes. */
  nonce(counter: number): Bytes {
    const nonce = this.iv.slice();
    for (let i = 11, rest = counter; rest > 0; i--, rest = Math.floor(rest / 256)) nonce[i] ^= rest & 0xff;
    return nonce;
  }
}

/** What both directions share: a secret that moves on, and the key made of it. */
class Direction {
  private state: Promise<{ secret: Bytes; key: RecordKey }>;
  protected counter = 0;

  constructor(
    secret: Bytes,
    private readonly suite: SuiteName,
  ) {
    this.state = this.derive(secret);
    this.state.catch(() => undefined); // whoever uses the key sees the failure
  }

  protected key(): Promise<RecordKey> {
    return this.state.then((state) => state.key);
  }

  /** Goes to the next secret; later calls of key get its key. */
  protected next(): void {
    this.counter = 0;
    this.state = this.state.then(async ({ secret }) => {
      const following = await expand(secret, utf8("sealcast v1 next"), 32);
      secret.fill(0);
      return this.derive(following);
    });
    this.state.catch(() => undefined);
  }

  private async derive(secret: Bytes) {
    return { secret, key: await RecordKey.derive(secret, this.suite) };
  }
}

/** The sending direction. */
export class Sealer extends Direction {
  private bytes = 0;
  private firstAt = 0;
  /** Key changes so far. */
  updates = 0;

  constructor(
    secret: Bytes,
    suite: SuiteName,
    private readonly now: () => number,
    private readonly limits: RekeyLimits = defaultRekey,
  ) {
    super(secret, suite);
  }

  /** Whether update is due before the next record. */
  get due(): boolean {
    if (this.counter === 0) return false; // never the first record under a key
    const { records, bytes, milliseconds } = this.limits;
    return this.counter >= records || this.bytes >= bytes || this.now() - this.firstAt >= milliseconds;
  }

  /** The KeyUpdate; records that are sealed later have the next key. */
  update(): Promise<Bytes> {
    const message = this.seal(kinds.keyUpdate, new Uint8Array(0));
    this.next();
    this.bytes = 0;
    this.updates++;
    return message;
  }

  /** The whole message. The plaintext must not change until it is there. */
  async seal(kind: number, plaintext: Bytes): Promise<Bytes> {
    if (this.counter === 0) this.firstAt = this.now();
    const counter = this.counter++; // advanced before anything can fail
    this.bytes += plaintext.length;
    const key = await this.key();
    const head = Uint8Array.of(kind);
    return concat(head, await key.aead.seal(key.nonce(counter), head, plaintext));
  }
}

/** The receiving direction. */
export class Opener extends Direction {
  private dead = false;
  /** Key changes so far. */
  updates = 0;

  /**
   * The plaintext of a Record, KeyUpdate or Goodbye. After a failure of one
   * message nothing opens any more; all failures look alike (protocol, 4.3).
   */
  async open(message: Bytes): Promise<Bytes> {
    const counter = this.counter++;
    const key = this.key();
    const update = message[0] === kinds.keyUpdate;
    if ((update && counter === 0) || counter >= maxReceived) this.dead = true;
    if (update && !this.dead) {
      this.updates++;
      this.next();
    }
    try {
      const current = await key;
      if (this.dead) throw undefined;
      const plaintext = await current.aead.open(current.nonce(counter), message.slice(0, 1), message.slice(1));
      if (update && plaintext.length > 0) throw undefined;
      return plaintext;
    } catch {
      this.dead = true;
      throw violation("a record does not open");
    }
  }
}
