// The plaintext of a record in the push role: codec, length of the padding,
// body, padding (protocol, 5.2).
import { concat, isZero, type Bytes } from "./bytes.js";
import type { Decompressor } from "./compress.js";
import { violation } from "./errors.js";
import type { ClientFrame, ServerFrame } from "./messages.js";
import { decodeFrame, encode } from "./protobuf.js";

/** The plaintext of a client's frame, padded up to `padTo` bytes. */
export function clientPlaintext(frame: ClientFrame, padTo = 0): Bytes {
  const body = encode("ClientFrame", frame);
  const padding = Math.max(0, padTo - 3 - body.length);
  return concat(Uint8Array.of(0, padding >> 8, padding & 0xff), body, new Uint8Array(padding));
}

/** The codec of a session. */
export interface Codec {
  number: number;
  undo: Decompressor;
}

/** The body without header and padding, and its codec. */
export function bodyOf(plaintext: Bytes, codec?: Codec): { body: Bytes; undo?: Decompressor } {
  if (plaintext.length < 3) throw violation("a plaintext is too short");
  const padding = (plaintext[1] << 8) | plaintext[2];
  const end = plaintext.length - padding;
  if (end < 3 || !isZero(plaintext.subarray(end))) throw violation("a plaintext is padded wrongly");
  const body = plaintext.subarray(3, end);
  if (plaintext[0] === 0) return { body };
  if (plaintext[0] !== codec?.number) throw violation("a plaintext has another codec than the session");
  return { body, undo: codec.undo };
}

/** A gateway's frame, and the length of its body without compression; what is compressed must be a Batch. */
export function serverFrame(plaintext: Bytes, codec?: Codec): { frame: ServerFrame; unpacked: number } {
  const { body, undo } = bodyOf(plaintext, codec);
  const frame = decodeFrame("ServerFrame", body) as ServerFrame;
  if (!undo) return { frame, unpacked: body.length };
  if (!frame.batch) throw violation("something else than a batch was compressed");
  const packed = frame.batch.payloads.length;
  frame.batch.payloads = undo(frame.batch.payloads);
  return { frame, unpacked: body.length - packed + frame.batch.payloads.length };
}
