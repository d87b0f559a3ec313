// Records that were sealed once for a group of sessions (protocol, 4.5). Calls
// are made in the order of the messages, each after the one before has settled.
import { concat, equal, type Bytes } from "./bytes.js";
import { violation } from "./errors.js";
import type { ServerFrame } from "./messages.js";
import { RecordKey } from "./records.js";
import { sha256 } from "./primitives.js";
import type { SuiteName } from "./suites.js";

const headerSize = 13;
const maxCounter = 2n ** 23n;

interface Member {
  id: number;
  key: RecordKey;
  counter: number;
  /** Not awaited record by record: only a mark needs it. */
  chain: Promise<Bytes>;
}

/** The group that a session is in, if any. */
export class Groups {
  private member?: Member;
  private unmarked = false;
  /** Records opened. */
  records = 0;

  constructor(private readonly suite: SuiteName) {}

  /** Whether the session is in a group. */
  get joined(): boolean {
    return this.member !== undefined;
  }

  /** The plaintext of a GroupRecord. */
  async open(message: Bytes): Promise<Bytes> {
    const { member } = this;
    if (!member) throw violation("a group record, but no group");
    const view = new DataView(message.buffer, message.byteOffset, message.length);
    const expected = member.counter++;
    if (message.length < headerSize || view.getUint32(1) !== member.id || view.getBigUint64(5) !== BigInt(expected) || expected >= maxCounter) {
      throw violation("a group record is not the next one");
    }
    this.unmarked = true;
    this.records++;
    member.chain = member.chain.then((chain) => sha256(concat(chain, message)));
    try {
      return await member.key.aead.open(member.key.nonce(expected), message.slice(0, headerSize), message.slice(headerSize));
    } catch {
      throw violation("a group record does not open");
    }
  }

  /**
   * Takes a frame of the session's own records, or undefined for a Goodbye;
   * true if it was about the group. After group records a mark must come first.
   */
  async take(frame?: ServerFrame): Promise<boolean> {
    if (frame?.groupMark) {
      await this.mark(frame.groupMark);
      return true;
    }
    if (this.unmarked) throw violation("no mark behind the records of a group");
    if (frame?.groupKey) await this.join(frame.groupKey);
    else if (frame?.groupLeave) this.leave(frame.groupLeave.id);
    else return false;
    return true;
  }

  private async join(m: NonNullable<ServerFrame["groupKey"]>): Promise<void> {
    if (m.secret.length !== 32 || m.chain.length !== 32 || m.suite !== this.suite || m.nextCounter >= maxCounter) {
      throw violation("a group's key is not as it should be");
    }
    const key = await RecordKey.derive(m.secret, this.suite, "sealcast v1 group ");
    this.member = { id: m.id, key, counter: Number(m.nextCounter), chain: Promise.resolve(m.chain.slice()) };
    m.secret.fill(0);
  }

  private async mark(m: NonNullable<ServerFrame["groupMark"]>): Promise<void> {
    const { member } = this;
    if (!member || m.id !== member.id || m.counter !== BigInt(member.counter) || !equal(m.chain, await member.chain)) {
      throw violation("the mark of a group does not fit");
    }
    this.unmarked = false;
  }

  private leave(id: number): void {
    if (this.member?.id !== id) throw violation("the session leaves a group that it is not in");
    this.member = undefined;
  }
}
