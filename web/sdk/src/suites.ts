// Suites: the protection of records (protocol, 1.2), and their ciphers.
import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import type { Bytes } from "./bytes.js";
import { webcrypto } from "./primitives.js";

/** The name of a suite that this client has. */
export type SuiteName = "aes-128-gcm" | "aes-256-gcm" | "chacha20-poly1305" | "plain";

/** Bytes of a key, by suite. */
export const keyLengths: Record<SuiteName, number> = {
  "aes-128-gcm": 16,
  "aes-256-gcm": 32,
  "chacha20-poly1305": 32,
  plain: 0,
};

/**
 * What is offered unless the user says otherwise. AES comes first: it is
 * WebCrypto's own everywhere, while ChaCha20-Poly1305 mostly runs in JavaScript.
 */
export const defaultSuites: readonly SuiteName[] = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"];

const tokenPrefix = "sealcast.v1.";

export function tokenOf(suite: SuiteName): string {
  return tokenPrefix + suite;
}

/** The suite of a token that was offered. */
export function suiteOf(token: string): SuiteName | undefined {
  const name = token.slice(tokenPrefix.length);
  return token.startsWith(tokenPrefix) && Object.hasOwn(keyLengths, name) ? (name as SuiteName) : undefined;
}

/** A cipher with its key. Both reject or throw on failure; calls may overlap. */
export interface Aead {
  /** Bytes that sealing adds. */
  readonly overhead: number;
  seal(nonce: Bytes, additional: Bytes, plaintext: Bytes): Promise<Bytes> | Bytes;
  open(nonce: Bytes, additional: Bytes, sealed: Bytes): Promise<Bytes> | Bytes;
}

export async function newAead(suite: SuiteName, key: Bytes): Promise<Aead> {
  switch (suite) {
    case "plain":
      return identity;
    case "chacha20-poly1305":
      return (await nativeChaCha(key)) ?? nobleChaCha(key);
    default: {
      const imported = await webcrypto().importKey("raw", key, "AES-GCM", false, ["encrypt", "decrypt"]);
      return native("AES-GCM", imported);
    }
  }
}

const identity: Aead = {
  overhead: 0,
  seal: (_nonce, _additional, plaintext) => plaintext,
  open: (_nonce, _additional, sealed) => sealed,
};

function native(name: string, key: CryptoKey): Aead {
  const subtle = webcrypto();
  const parameters = (iv: Bytes, additionalData: Bytes) => ({ name, iv, additionalData, tagLength: 128 });
  return {
    overhead: 16,
    async seal(nonce, additional, plaintext) {
      return new Uint8Array(await subtle.encrypt(parameters(nonce, additional), key, plaintext));
    },
    async open(nonce, additional, sealed) {
      return new Uint8Array(await subtle.decrypt(parameters(nonce, additional), key, sealed));
    },
  };
}

let chaChaIsNative = true; // until WebCrypto has said that it does not know it

/** ChaCha20-Poly1305 of WebCrypto, which only the newest platforms have. */
async function nativeChaCha(key: Bytes): Promise<Aead | undefined> {
  if (!chaChaIsNative) return undefined;
  const name = "ChaCha20-Poly1305";
  try {
    const format = "raw-secret" as "raw"; // newer than the types
    return native(name, await webcrypto().importKey(format, key, name, false, ["encrypt", "decrypt"]));
  } catch {
    chaChaIsNative = false;
    return undefined;
  }
}

/** ChaCha20-Poly1305 in JavaScript; the handshake uses it on every platform. */
export function nobleChaCha(key: Bytes): Aead {
  return {
    overhead: 16,
    seal: (nonce, additional, plaintext) => chacha20poly1305(key, nonce, additional).encrypt(plaintext) as Bytes,
    open: (nonce, additional, sealed) => chacha20poly1305(key, nonce, additional).decrypt(sealed) as Bytes,
  };
}
