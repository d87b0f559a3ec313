// X25519 for platforms whose WebCrypto lacks it. Only the Montgomery curve of
// @noble/curves is taken: its module of ed25519 is four times as large.
import { pow } from "@noble/curves/abstract/modular.js";
import { montgomery } from "@noble/curves/abstract/montgomery.js";

const P = 2n ** 255n - 19n;

export const x25519 = montgomery({
  P,
  type: "x25519",
  powPminus2: (x) => pow(x, P - 2n, P),
  adjustScalarBytes(bytes) {
    // RFC 7748, section 5
    bytes[0] &= 248;
    bytes[31] = (bytes[31] & 127) | 64;
    return bytes;
  },
});
