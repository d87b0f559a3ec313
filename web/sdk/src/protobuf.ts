// Protobuf by the table of messages. Absent fields decode to their zero value,
// unknown ones are passed over, and what is not valid protobuf is a violation.
import { concat, empty, fromUtf8, utf8, type Bytes } from "./bytes.js";
import { violation } from "./errors.js";
import { table, type Scalar } from "./messages.js";

const wireTypes: Record<Scalar, number> = {
  uint32: 0, uint64: 0, sint64: 0, bool: 0, enum: 0, fixed64: 1, double: 1, string: 2, bytes: 2,
};

interface Compiled {
  name: string;
  type: string;
  repeated: boolean;
  wireType: number;
}

/** The table by message and field number, compiled at first use. */
const compiled = new Map<string, { byNumber: Map<number, Compiled>; zero: () => Record<string, unknown> }>();

function fieldsOf(message: string) {
  let known = compiled.get(message);
  if (known) return known;
  const byNumber = new Map<number, Compiled>();
  const zeros: [string, unknown][] = [];
  const lists: string[] = [];
  for (const [number, name, declared] of table[message]) {
    const repeated = declared.endsWith("[]");
    const type = repeated ? declared.slice(0, -2) : declared;
    byNumber.set(number, { name, type, repeated, wireType: wireTypes[type as Scalar] ?? 2 });
    if (repeated) lists.push(name);
    else if (!(type in table)) zeros.push([name, zeroOf(type as Scalar)]);
  }
  const template = Object.fromEntries(zeros);
  const zero = () => {
    const made: Record<string, unknown> = { ...template };
    for (const name of lists) made[name] = [];
    return made;
  };
  known = { byNumber, zero };
  compiled.set(message, known);
  return known;
}

function zeroOf(type: Scalar): unknown {
  switch (type) {
    case "string":
      return "";
    case "bytes":
      return empty;
    case "bool":
      return false;
    case "uint64":
    case "sint64":
    case "fixed64":
      return 0n;
    default:
      return 0;
  }
}

const malformed = () => violation("a message is not valid protobuf");

/** Reads protobuf's primitives from bytes[at, end). */
class Reader {
  private readonly view: DataView;

  constructor(
    private readonly bytes: Bytes,
    public at = 0,
    readonly end = bytes.length,
  ) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** The two halves of a varint of up to 64 bits. */
  private low = 0;
  private high = 0;

  private varint(): void {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= this.end) throw malformed();
      const byte = this.bytes[this.at++];
      const bits = byte & 0x7f;
      if (shift === 63 && byte > 1) throw malformed();
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) {
        this.low = low >>> 0;
        this.high = high >>> 0;
        return;
      }
    }
    throw malformed();
  }

  /** Protobuf keeps the low 32 bits of a longer varint. */
  uint32(): number {
    this.varint();
    return this.low;
  }

  uint64(): bigint {
    this.varint();
    return this.high < 0x200000 ? BigInt(this.high * 0x100000000 + this.low) : (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  bool(): boolean {
    this.varint();
    return this.low !== 0 || this.high !== 0;
  }

  /** A tag; its field number is at most 2^29 - 1. */
  tag(): { number: number; wireType: number } {
    this.varint();
    const number = this.low >>> 3;
    if (this.high !== 0 || number === 0) throw malformed();
    return { number, wireType: this.low & 7 };
  }

  /** Skips n bytes and returns where they begin. */
  take(n: number): number {
    const start = this.at;
    if (n > this.end - start) throw malformed();
    this.at = start + n;
    return start;
  }

  fixed64(): bigint {
    return this.view.getBigUint64(this.take(8), true);
  }

  double(): number {
    return this.view.getFloat64(this.take(8), true);
  }

  /** A part of the input, not copied. */
  delimited(): Bytes {
    const start = this.take(this.uint32());
    return this.bytes.subarray(start, this.at);
  }

  skip(wireType: number, number: number, depth = 0): void {
    if (wireType === 0) this.varint();
    else if (wireType === 1) this.take(8);
    else if (wireType === 2) this.delimited();
    else if (wireType === 5) this.take(4);
    else if (wireType === 3 && depth < 100) {
      for (let tag = this.tag(); ; tag = this.tag()) {
        if (tag.wireType === 4) {
          if (tag.number !== number) throw malformed();
          return;
        }
        this.skip(tag.wireType, tag.number, depth + 1);
      }
    } else throw malformed();
  }

  scalar(type: Scalar): unknown {
    switch (type) {
      case "uint32":
      case "enum":
        return this.uint32();
      case "uint64":
        return this.uint64();
      case "sint64": {
        const zigzag = this.uint64();
        return zigzag & 1n ? -(zigzag >> 1n) - 1n : zigzag >> 1n;
      }
      case "bool":
        return this.bool();
      case "fixed64":
        return this.fixed64();
      case "double":
        return this.double();
      case "bytes":
        return this.delimited();
      case "string":
        return text(this.delimited());
    }
  }
}

function text(bytes: Bytes): string {
  try {
    return fromUtf8(bytes);
  } catch {
    throw violation("a string is not UTF-8");
  }
}

/** Decodes one message. Its bytes fields are parts of the input. */
export function decode(message: string, bytes: Bytes): Record<string, unknown> {
  const out = fieldsOf(message).zero();
  merge(message, bytes, out);
  return out;
}

function merge(message: string, bytes: Bytes, out: Record<string, unknown>): void {
  const { byNumber } = fieldsOf(message);
  const reader = new Reader(bytes);
  while (reader.at < reader.end) {
    const { number, wireType } = reader.tag();
    const field = byNumber.get(number);
    if (!field) reader.skip(wireType, number);
    else if (wireType === field.wireType) readField(reader, field, out);
    else if (wireType === 2 && field.repeated && field.wireType === 0) {
      const packed = new Reader(reader.delimited());
      while (packed.at < packed.end) (out[field.name] as unknown[]).push(packed.scalar(field.type as Scalar));
    } else reader.skip(wireType, number);
  }
}

function readField(reader: Reader, field: Compiled, out: Record<string, unknown>): void {
  const { name, type, repeated } = field;
  if (!(type in table)) {
    const value = reader.scalar(type as Scalar);
    if (repeated) (out[name] as unknown[]).push(value);
    else out[name] = value;
    return;
  }
  const bytes = reader.delimited();
  if (repeated) (out[name] as unknown[]).push(decode(type, bytes));
  else merge(type, bytes, (out[name] ??= fieldsOf(type).zero()) as Record<string, unknown>);
}

function varintBytes(value: bigint | number): number[] {
  const out: number[] = [];
  let rest = BigInt(value);
  for (; rest > 0x7fn; rest >>= 7n) out.push(Number(rest & 0x7fn) | 0x80);
  out.push(Number(rest));
  return out;
}

function encodeScalar(type: Scalar, value: unknown): Bytes {
  switch (type) {
    case "string":
      return delimit(utf8(value as string));
    case "bytes":
      return delimit(value as Bytes);
    case "bool":
      return Uint8Array.of(value ? 1 : 0);
    case "sint64": {
      const signed = value as bigint;
      return Uint8Array.from(varintBytes(signed < 0n ? -2n * signed - 1n : 2n * signed));
    }
    case "fixed64":
    case "double": {
      const out = new Uint8Array(8);
      const view = new DataView(out.buffer);
      if (type === "double") view.setFloat64(0, value as number, true);
      else view.setBigUint64(0, value as bigint, true);
      return out;
    }
    default:
      return Uint8Array.from(varintBytes(value as bigint | number));
  }
}

function delimit(bytes: Bytes): Bytes {
  return concat(Uint8Array.from(varintBytes(bytes.length)), bytes);
}

function isZeroValue(value: unknown): boolean {
  return !value || (value instanceof Uint8Array && value.length === 0);
}

/** Encodes one message; fields that are absent or zero are left out. */
export function encode(message: string, value: object): Bytes {
  const parts: Bytes[] = [];
  for (const [number, name, declared] of table[message]) {
    const field = fieldsOf(message).byNumber.get(number)!;
    const given = (value as Record<string, unknown>)[name];
    if (given === undefined || (!field.repeated && !(field.type in table) && isZeroValue(given))) continue;
    const tag = (wireType: number) => Uint8Array.from(varintBytes((number << 3) | wireType));
    if (declared === "uint32[]") {
      const list = given as number[];
      if (list.length > 0) parts.push(tag(2), delimit(Uint8Array.from(list.flatMap(varintBytes))));
      continue;
    }
    for (const one of field.repeated ? (given as unknown[]) : [given]) {
      const nested = field.type in table;
      parts.push(tag(field.wireType), nested ? delimit(encode(field.type, one as object)) : encodeScalar(field.type as Scalar, one));
    }
  }
  return concat(...parts);
}

/** A frame's body: exactly one field, of a known number (protocol, 5.2). */
export function decodeFrame(kind: "ClientFrame" | "ServerFrame", body: Bytes): Record<string, unknown> {
  const reader = new Reader(body);
  const { number, wireType } = reader.tag();
  const field = fieldsOf(kind).byNumber.get(number);
  if (!field || wireType !== 2) throw violation("a record holds an unknown message");
  const message = reader.delimited();
  if (reader.at !== reader.end) throw violation("a record holds more than one message");
  return { [field.name]: decode(field.type, message) };
}
