// The gateway's own figures, once a second from its metrics.
import { histogramQuantile, metrics, type Metrics } from "./admin.js";
import { Line } from "./charts.js";
import { count, element, Facts, milliseconds } from "./dom.js";

export class Figures {
  private readonly facts = new Facts(element("figures"));
  private readonly sessions = new Line(element("figures-sessions"), "Sessions");
  private readonly ticks = new Line(element("figures-ticks"), "Deliveries a second");
  private readonly lag = new Line(element("figures-lag"), "Loop lag, 99th percentile, ms");
  private before?: { at: number; metrics: Metrics };

  /** tellRedis is called with whether ticks come from Redis. */
  constructor(private readonly tellRedis: (ready: boolean) => void) {
    void this.poll();
  }

  private async poll(): Promise<void> {
    for (;;) {
      try {
        this.show(performance.now(), await metrics());
      } catch {
        this.before = undefined;
        this.facts.set("State", "no answer");
      }
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }

  private show(at: number, now: Metrics): void {
    const { facts, before } = this;
    const seconds = Date.now() / 1000;
    const connections = now.get("sealcast_connections") ?? NaN;
    const ready = now.get("sealcast_source_ready") === 1;
    this.tellRedis(ready);
    facts.set("State", "answers");
    facts.set("Redis", ready ? "connected" : "away");
    facts.set("Sessions", count(connections));
    this.sessions.add(seconds, connections);
    if (before) {
      const delivered = (now.get("sealcast_ticks_delivered_total") ?? 0) - (before.metrics.get("sealcast_ticks_delivered_total") ?? 0);
      const rate = Math.max(0, (delivered * 1000) / (at - before.at));
      const lag = histogramQuantile(now, before.metrics, "sealcast_loop_lag_seconds", 0.99) * 1000;
      facts.set("Deliveries", `${count(rate)}/s`);
      facts.set("Loop lag p99", milliseconds(lag));
      this.ticks.add(seconds, rate);
      this.lag.add(seconds, lag);
    }
    this.before = { at, metrics: now };
  }
}
