// Byte strings: joining, comparing and the encodings that the protocol uses.

/** Bytes in a buffer of their own kind, which WebCrypto takes. */
export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const empty: Bytes = new Uint8Array(0);

export function utf8(text: string): Bytes {
  return encoder.encode(text) as Bytes;
}

/** Throws a TypeError on what is not UTF-8. */
export function fromUtf8(bytes: Uint8Array): string {
  return strict.decode(bytes);
}

/** The parts, joined into new memory. */
export function concat(...parts: Uint8Array[]): Bytes {
  let size = 0;
  for (const part of parts) size += part.length;
  const out = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Not in constant time: for public values such as keys of gateways. */
export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

export function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

/** base64url without padding, RFC 4648 section 5. */
export function toBase64Url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Throws on text that is not base64url without padding. */
export function fromBase64Url(text: string): Bytes {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) throw new Error("not base64url");
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}
