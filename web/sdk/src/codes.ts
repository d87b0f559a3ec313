// The table of close codes (protocol, 7.4) and the delays before a client comes
// back (7.5).

/** Whether and when to come back after a Goodbye with a code. */
export interface Rule {
  /** `token`: only with another token than before. */
  reconnect: boolean | "token";
  /** Milliseconds. */
  delay: number;
}

const rules: Record<number, Rule> = {
  1000: { reconnect: false, delay: 0 },
  1003: { reconnect: false, delay: 0 },
  1007: { reconnect: false, delay: 0 },
  1009: { reconnect: false, delay: 0 },
  1012: { reconnect: true, delay: 0 },
  1013: { reconnect: true, delay: 10_000 },
  4401: { reconnect: "token", delay: 500 },
  4403: { reconnect: false, delay: 0 },
  4409: { reconnect: false, delay: 0 },
  4429: { reconnect: true, delay: 10_000 },
};

const others: Rule = { reconnect: true, delay: 500 };

export function ruleOf(code: number): Rule {
  return rules[code] ?? others;
}

/** What a close code without a Goodbye says: come back, perhaps later. Anybody can forge it. */
export function hintOf(code: number): Rule {
  return { reconnect: true, delay: ruleOf(code).delay || others.delay };
}

/**
 * Milliseconds until the next attempt: the least delay, with a random time of up
 * to as much again and at least up to a second; doubled by each failure in a
 * row, up to 30 s.
 */
export function backoff(least: number, failures: number, random: () => number): number {
  const base = failures === 0 ? least : Math.max(least, Math.min(30_000, 500 * 2 ** failures));
  return base + random() * Math.max(base, 1000);
}

/** Causes of resets and gaps, by their number. */
export const causes = ["unspecified", "source-lost", "source-overflow", "oversized", "resubscribed", "too-slow", "expired"] as const;

/**
 * Why something is missing: as the gateway says, or
 *
 * - `disconnected`: it happened while this client was not connected
 * - `skipped`: the numbers of ticks have a hole that nobody explained
 * - `buffer`: the program did not take its events in time
 */
export type Cause = (typeof causes)[number] | "disconnected" | "skipped" | "buffer";

export function causeOf(number: number): Cause {
  return causes[number] ?? "unspecified";
}
