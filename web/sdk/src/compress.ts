// Undoing compression (protocol, 5.4): a decoder of Snappy blocks, and checks of
// Zstandard frames around the decoder fzstd, which is loaded when it is needed.
// Both bound what a body becomes before they take memory for it.
import type { Bytes } from "./bytes.js";
import { SealcastError, violation } from "./errors.js";

export const codecs = { none: 0, snappy: 1, zstd: 2 } as const;

/** Most that a body may become, in bytes. */
export const maxBody = 16 << 20;

/** Undoes one codec; a violation on what is corrupt or above maxBody. */
export type Decompressor = (body: Bytes) => Bytes;

/** The decompressor of a codec that Connected named. */
export async function decompressorOf(codec: number): Promise<Decompressor> {
  if (codec === codecs.snappy) return snappy;
  if (codec === codecs.zstd) return zstd();
  throw violation("the gateway chose a codec that was not offered");
}

const corrupt = () => violation("a compressed body is corrupt");

/** A Snappy block: the length as a varint, then literals and copies. */
export function snappy(body: Bytes): Bytes {
  let at = 0;
  let size = 0;
  for (let shift = 0; ; shift += 7) {
    if (at >= body.length || shift > 28) throw corrupt();
    const byte = body[at++];
    size += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) break;
  }
  // Three bytes make 64 at the most, so a greater claim is false.
  if (size > maxBody || size > (body.length - at) * 22) throw corrupt();
  const out = new Uint8Array(size);
  let done = 0;
  const number = (bytes: number): number => {
    let value = 0;
    for (let i = 0; i < bytes; i++) value += (body[at++] ?? NaN) * 2 ** (8 * i);
    return value;
  };
  while (at < body.length) {
    const tag = body[at++];
    const kind = tag & 3;
    if (kind === 0) {
      const n = tag >> 2;
      const length = (n < 60 ? n : number(n - 59)) + 1;
      if (!(length <= body.length - at && length <= size - done)) throw corrupt();
      out.set(body.subarray(at, at + length), done);
      at += length;
      done += length;
      continue;
    }
    const length = kind === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    const offset = kind === 1 ? ((tag >> 5) << 8) + number(1) : number(kind === 2 ? 2 : 4);
    if (!(offset > 0 && offset <= done && length <= size - done)) throw corrupt();
    for (let i = 0; i < length; i++, done++) out[done] = out[done - offset]; // may overlap
  }
  if (done !== size) throw corrupt();
  return out;
}

/** What the header of a Zstandard frame announces (RFC 8878, 3.1.1). */
interface FrameHeader {
  size: number;
  window: number;
  blocks: number; // where the blocks begin
  checksum: boolean;
}

function zstdHeader(body: Bytes): FrameHeader {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  if (body.length < 9 || view.getUint32(0) !== 0x28b52ffd) throw corrupt();
  const flags = body[4];
  const single = (flags & 0x20) !== 0;
  if ((flags & 3) !== 0) throw violation("a body needs a dictionary that the session does not have");
  if ((flags & 8) !== 0) throw corrupt();
  let at = 5;
  let window = 0;
  if (!single) {
    const exponent = body[at] >> 3;
    window = 2 ** (10 + exponent) * (1 + (body[at] & 7) / 8);
    at++;
  }
  const width = [single ? 1 : 0, 2, 4, 8][flags >> 6];
  if (width === 0) throw violation("a body does not announce its size");
  if (body.length < at + width) throw corrupt();
  let size = width === 2 ? 256 : 0;
  for (let i = 0; i < width; i++) size += body[at + i] * 2 ** (8 * i);
  return { size, window: single ? size : window, blocks: at + width, checksum: (flags & 4) !== 0 };
}

/** Checks that the frame's blocks end where the body does and can make its size. */
function checkBlocks(body: Bytes, header: FrameHeader): void {
  let at = header.blocks;
  let blocks = 0;
  for (let last = false; !last; blocks++) {
    if (at + 3 > body.length) throw corrupt();
    const block = body[at] | (body[at + 1] << 8) | (body[at + 2] << 16);
    last = (block & 1) !== 0;
    at += 3 + ((block & 6) === 2 ? 1 : block >> 3); // an RLE block is one byte
  }
  if (at + (header.checksum ? 4 : 0) !== body.length) throw corrupt();
  if (header.size > blocks << 17) throw corrupt();
}

async function zstd(): Promise<Decompressor> {
  const { Decompress } = await import("fzstd").catch(() => {
    throw new SealcastError("options", "the Zstandard decoder could not be loaded");
  });
  return (body) => {
    const header = zstdHeader(body);
    if (header.size > maxBody || header.window > maxBody) throw violation("a body is too large");
    checkBlocks(body, header);
    const out = new Uint8Array(header.size);
    let done = 0;
    const stream = new Decompress((chunk) => {
      if (chunk.length > out.length - done) throw corrupt();
      out.set(chunk, done);
      done += chunk.length;
    });
    try {
      stream.push(body, true);
    } catch {
      throw corrupt();
    }
    if (done !== header.size) throw corrupt();
    return out;
  };
}
