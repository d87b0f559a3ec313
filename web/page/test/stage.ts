// What the tests of the page share, whichever browser they use: settings of the
// gateway, where the browser is, quotes, and a feed of them.
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Redis } from "../../sdk/test/gateway.js";
import { root } from "../../sdk/test/tools.js";

/** A gateway that merges nothing and keeps a history. */
export function settings(redis: Redis): Record<string, string> {
  return {
    "redis.mode": "standalone", "redis.addrs": redis.address,
    topics: JSON.stringify([{ match: "**", policy: "every", snapshot: true, history: 1000 }]),
  };
}

export function programOf(debianPackage: string, ...names: string[]): string {
  const found = names.flatMap((name) => [`/usr/bin/${name}`, `/usr/sbin/${name}`]).find((path) => existsSync(path));
  if (!found) throw new Error(`none of ${names.join(", ")} in /usr/bin or /usr/sbin: install the package ${debianPackage}`);
  return found;
}

export function chromiumPath(): string {
  return programOf("chromium", "chromium", "chromium-browser", "google-chrome");
}

/** Where a screenshot goes, for a person to look at; git ignores it. */
export function shot(name: string): string {
  const directory = fileURLToPath(new URL("dist/page/", root));
  mkdirSync(directory, { recursive: true });
  return join(directory, `${name}.png`);
}

export function quote(bid: number): string {
  return JSON.stringify({ symbol: "BTC-USD", bid: bid.toFixed(2), ask: (bid + 0.01).toFixed(2), last: bid.toFixed(2) });
}

let topics = 0;

/** A topic that no other test of this process has. */
export function newTopic(): string {
  return `md:page:T${++topics}:ticker`;
}

/** A topic, and something that publishes to it again and again. */
export function feed(redis: Redis): { topic: string; stop: () => void; bid: () => number } {
  const topic = newTopic();
  let bid = 100;
  const timer = setInterval(() => redis.publish(topic, quote(++bid)), 20);
  return { topic, bid: () => bid, stop: () => clearInterval(timer) };
}
