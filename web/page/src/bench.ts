// A small echo benchmark: what each suite costs in this very browser.
import { measureEcho, SealcastError, type SuiteName } from "@sealcast/client";
import { bars } from "./charts.js";
import { count, element, milliseconds, quantile } from "./dom.js";

const options = { size: 256, window: 16, duration: 1000 };

export interface EchoTarget {
  url: string;
  pins: readonly string[];
  realm: string;
  suites: SuiteName[];
}

export function offerBench(target: () => EchoTarget | undefined): void {
  const button = element<HTMLButtonElement>("bench");
  button.addEventListener("click", () => {
    const where = target();
    if (!where) return;
    button.disabled = true;
    void run(where).finally(() => (button.disabled = false));
  });
}

async function run({ url, pins, realm, suites }: EchoTarget): Promise<void> {
  const table = element<HTMLTableElement>("bench-table");
  const rows = table.tBodies[0];
  rows.replaceChildren();
  table.hidden = false;
  const rates: number[] = [];
  for (const suite of suites) {
    const row = rows.insertRow();
    const show = (...texts: string[]) => row.replaceChildren(...[suite, ...texts].map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    show("…", "", "");
    try {
      const { messages, elapsed, times } = await measureEcho(url, { ...options, suite, pins, realm });
      rates.push((messages * 1000) / elapsed);
      show(count(rates.at(-1)!), milliseconds(quantile(times, 0.5)), milliseconds(quantile(times, 0.99)));
    } catch (error) {
      rates.push(0);
      show(error instanceof SealcastError ? error.code : String(error), "", "");
    }
  }
  bars(element("bench-chart"), "Messages a second", suites.map((suite) => suite.replace("-poly1305", "").replace("-gcm", "")), rates);
}
