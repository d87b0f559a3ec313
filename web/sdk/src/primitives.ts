// Hashes and key agreement. WebCrypto does what it can; X25519 falls back to
// @noble/curves, and ML-KEM-768 comes from @noble/post-quantum, both loaded only
// when they are needed.
import { isZero, type Bytes } from "./bytes.js";
import { SealcastError, violation } from "./errors.js";

/** WebCrypto, or the reason in words why this page cannot have it. */
export function webcrypto(): SubtleCrypto {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) {
    throw new SealcastError(
      "insecure-context",
      "this page was not loaded over https or from localhost, so the browser gives it no WebCrypto: use https",
    );
  }
  return subtle;
}

export async function sha256(data: Bytes): Promise<Bytes> {
  return new Uint8Array(await webcrypto().digest("SHA-256", data));
}

async function hmac(key: Bytes, data: Bytes): Promise<Bytes> {
  const subtle = webcrypto();
  const imported = await subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", imported, data));
}

/** HKDF-Extract, RFC 5869 section 2.2. The salt must not be empty. */
export function extract(salt: Bytes, ikm: Bytes): Promise<Bytes> {
  return hmac(salt, ikm);
}

/** HKDF-Expand, RFC 5869 section 2.3. */
export async function expand(prk: Bytes, info: Bytes, length: number): Promise<Bytes> {
  const out = new Uint8Array(length);
  let block: Bytes = new Uint8Array(0);
  for (let n = 1, at = 0; at < length; n++) {
    const input = new Uint8Array(block.length + info.length + 1);
    input.set(block);
    input.set(info, block.length);
    input[input.length - 1] = n;
    block = await hmac(prk, input);
    out.set(block.subarray(0, length - at), at);
    at += block.length;
  }
  return out;
}

/** One side's X25519 key of one handshake. */
export interface DhKey {
  readonly publicKey: Bytes;
  /** The shared secret, 32 bytes; a point of low order is a violation (protocol, 3.5). */
  agree(remote: Bytes): Promise<Bytes>;
}

/** The client's ML-KEM-768 key of one handshake. */
export interface KemKey {
  readonly publicKey: Bytes;
  decapsulate(ciphertext: Bytes): Promise<Bytes>;
}

/** Makes the keys of a handshake; tests put fixed ones here. */
export interface KeySource {
  dh(): Promise<DhKey>;
  kem(): Promise<KemKey>;
}

/** Fresh keys from the platform's random source. */
export const freshKeys: KeySource = { dh: newDhKey, kem: newKemKey };

async function newDhKey(): Promise<DhKey> {
  try {
    const pair = await webcrypto().generateKey("X25519", false, ["deriveBits"]);
    return await nativeDhKey(pair as CryptoKeyPair);
  } catch (error) {
    if (error instanceof SealcastError) throw error;
    return nobleDhKey(); // a browser whose WebCrypto has no X25519
  }
}

export async function nativeDhKey(pair: CryptoKeyPair): Promise<DhKey> {
  const subtle = webcrypto();
  const publicKey = new Uint8Array(await subtle.exportKey("raw", pair.publicKey));
  return {
    publicKey,
    async agree(remote) {
      try {
        const point = await subtle.importKey("raw", remote, "X25519", false, []);
        const shared = await subtle.deriveBits({ name: "X25519", public: point }, pair.privateKey, 256);
        return notZero(new Uint8Array(shared));
      } catch {
        throw violation("X25519 failed"); // WebCrypto refuses points of low order by itself
      }
    },
  };
}

export async function nobleDhKey(privateKey?: Bytes): Promise<DhKey> {
  const { x25519 } = await import("./x25519.js");
  const secret = privateKey ?? x25519.utils.randomSecretKey();
  return {
    publicKey: x25519.getPublicKey(secret) as Bytes,
    async agree(remote) {
      try {
        return notZero(x25519.getSharedSecret(secret, remote) as Bytes);
      } catch {
        throw violation("X25519 failed");
      }
    },
  };
}

function notZero(shared: Bytes): Bytes {
  if (isZero(shared)) throw violation("X25519 gave zero");
  return shared;
}

/** A key from the 64 bytes d || z of FIPS 203, random ones if none are given. */
export async function newKemKey(seed?: Bytes): Promise<KemKey> {
  const { ml_kem768 } = await import("@noble/post-quantum/ml-kem.js");
  const pair = ml_kem768.keygen(seed);
  return {
    publicKey: pair.publicKey as Bytes,
    async decapsulate(ciphertext) {
      try {
        return ml_kem768.decapsulate(ciphertext, pair.secretKey) as Bytes;
      } catch {
        throw violation("ML-KEM failed");
      }
    },
  };
}
