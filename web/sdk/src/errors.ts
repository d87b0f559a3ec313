// What can go wrong, as one class with a code to branch on.

/**
 * Why something failed.
 *
 * - `options`: an option is wrong; `insecure-context`: this page has no WebCrypto
 * - `unreachable`: no WebSocket connection came about
 * - `pin`: the gateway's key matches no pin
 * - `protocol`: the peer broke the protocol, or somebody on the way altered something
 * - `post-quantum`: ML-KEM is required and the gateway does not take part
 * - `timeout`: an answer did not come in time
 * - `closed`: the connection or the client has ended
 * - `refused`: the gateway refused a request; `closeCode` says why
 */
export type ErrorCode =
  | "options"
  | "insecure-context"
  | "unreachable"
  | "pin"
  | "protocol"
  | "post-quantum"
  | "timeout"
  | "closed"
  | "refused";

export class SealcastError extends Error {
  override readonly name = "SealcastError";

  constructor(
    readonly code: ErrorCode,
    message: string,
    /** A number of the protocol's table of close codes, where there is one. */
    readonly closeCode = 0,
  ) {
    super(message);
  }
}

/** The failure that says nothing to the peer but 4400. */
export function violation(what: string): SealcastError {
  return new SealcastError("protocol", what, 4400);
}
