// Measuring with the gateway's echo endpoint: the time of round trips with a
// suite. It speaks the same protocol as a client of ticks, in the role echo.
import { fromBase64Url } from "./bytes.js";
import { openChannel, type ChannelInfo, type WebSocketConstructor } from "./channel.js";
import { SealcastError } from "./errors.js";
import type { SuiteName } from "./suites.js";

export interface EchoOptions {
  suite: SuiteName;
  pins: readonly string[] | "any";
  realm?: string;
  /** Bytes of each message. */
  size: number;
  /** Messages that are under way at a time. */
  window: number;
  /** How long to go on, in milliseconds. */
  duration: number;
  WebSocket?: WebSocketConstructor;
}

export interface EchoResult {
  info: ChannelInfo;
  messages: number;
  /** Milliseconds that the measurement took. */
  elapsed: number;
  /** Milliseconds of each round trip, ascending. */
  times: number[];
}

/** Sends messages to `/echo` and compares what comes back with what was sent. */
export async function measureEcho(url: string, options: EchoOptions): Promise<EchoResult> {
  const { pins, suite, size, window, duration } = options;
  const channel = await openChannel({
    url,
    role: "echo",
    realm: options.realm ?? "default",
    suites: [suite],
    pins: pins === "any" ? undefined : pins.map(fromBase64Url),
    postQuantum: "off",
    webSocket: options.WebSocket ?? (globalThis.WebSocket as unknown as WebSocketConstructor),
    timeout: 10_000,
  });
  const times: number[] = [];
  const sent: number[] = [];
  const message = new Uint8Array(size).fill(0x5a);
  const begun = performance.now();
  const send = () => {
    sent.push(performance.now());
    channel.send(message);
  };
  return new Promise((resolve, reject) => {
    let elapsed = 0;
    let failure: SealcastError | undefined;
    let done = false;
    channel.start(
      (kind, plaintext) => {
        if (kind !== 0x10) return;
        const now = performance.now();
        if (plaintext.length !== size || sent.length === 0) failure ??= new SealcastError("protocol", "an echo differs from what was sent");
        times.push(now - sent.shift()!);
        elapsed = now - begun;
        if (elapsed < duration && !failure) send();
        else if (sent.length === 0 || failure) {
          done = true;
          channel.leave();
        }
      },
      ({ error, goodbye, closeCode }) => {
        const wrong = failure ?? error;
        if (wrong) reject(wrong);
        else if (!done) reject(new SealcastError("closed", `the echo ended early (${goodbye?.code ?? closeCode})`));
        else resolve({ info: channel.info, messages: times.length, elapsed, times: times.sort((a, b) => a - b) });
      },
    );
    for (let i = 0; i < window; i++) send();
  });
}
