// What the tests share: vectors, hexadecimal, keys from fixed numbers, and a
// random source that a seed determines.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { concat, type Bytes } from "../src/bytes.js";
import type { DhKey } from "../src/primitives.js";
import { nativeDhKey } from "../src/primitives.js";

/** The root of the repository; tests are started from web/. */
export const root = new URL("../../../", import.meta.url);

export function vector<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`testdata/vectors/${name}`, root), "utf8")) as T;
}

export function hex(text: string): Bytes {
  return new Uint8Array(Buffer.from(text.replaceAll(/\s/g, ""), "hex"));
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

/** WebCrypto's X25519 with a fixed private key, by way of PKCS #8 (RFC 8410). */
export async function nativeKeyFrom(secret: Bytes, publicKey: Bytes): Promise<DhKey> {
  const subtle = crypto.subtle;
  const pkcs8 = concat(hex("302e020100300506032b656e04220420"), secret);
  return nativeDhKey({
    privateKey: await subtle.importKey("pkcs8", pkcs8, "X25519", false, ["deriveBits"]),
    publicKey: await subtle.importKey("raw", publicKey, "X25519", true, []),
  });
}

/** Numbers from 0 to below 1, by a generator of 32 bits (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Waits for something that takes a moment; not for more than 20 s. */
export async function until(reached: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!reached()) {
    assert.ok(performance.now() < deadline, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
