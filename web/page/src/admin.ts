// The gateway's admin interface, as this page asks it: the same origin that it
// came from, with a token where one is wanted.
import { element } from "./dom.js";

export interface Info {
  version: string;
  realm: string;
  public_key: string;
  suites: string[];
  post_quantum: string;
}

/** Asks the user for a token, and resolves when one was given. */
function askForToken(): Promise<void> {
  const form = element<HTMLFormElement>("admin-login");
  const input = element<HTMLInputElement>("admin-token");
  const known = sessionStorage.getItem("admin-token");
  element("admin-note").textContent = known === null ? "The gateway wants the token of admin.token." : "The gateway does not take that token.";
  form.hidden = false;
  input.value = "";
  input.focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      if (form.hidden) return;
      sessionStorage.setItem("admin-token", input.value);
      form.hidden = true;
      resolve();
    };
  });
}

let asking: Promise<void> | undefined;

/** Fetches a path; waits for a token when the gateway wants one. */
export async function ask(path: string): Promise<Response> {
  for (;;) {
    const token = sessionStorage.getItem("admin-token");
    const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store" });
    if (answer.status !== 401) {
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
      return answer;
    }
    asking ??= askForToken().finally(() => (asking = undefined));
    await asking;
  }
}

/** A number of the metrics, by name and labels as they are written. */
export type Metrics = Map<string, number>;

export async function metrics(): Promise<Metrics> {
  const text = await (await ask("metrics")).text();
  const all: Metrics = new Map();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const at = line.lastIndexOf(" ");
    all.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return all;
}

/** The upper bound of the bucket that holds a part of what a histogram counted since `before`, in seconds. */
export function histogramQuantile(now: Metrics, before: Metrics, name: string, part: number): number {
  const buckets: [bound: number, n: number][] = [];
  for (const [key, value] of now) {
    const bound = key.startsWith(`${name}_bucket`) && /le="([^"]+)"/.exec(key)?.[1];
    if (bound) buckets.push([bound === "+Inf" ? Infinity : Number(bound), value - (before.get(key) ?? 0)]);
  }
  buckets.sort((a, b) => a[0] - b[0]);
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total === 0) return NaN;
  return buckets.find(([, n]) => n >= part * total)![0];
}
