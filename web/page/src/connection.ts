// What is known of the connection, and the last record as the network sees it.
import { entriesOf, type Client, type ConnectionInfo, type Inspection, type SubscriptionEvent } from "@sealcast/client";
import { count, element, Facts, milliseconds, quantile } from "./dom.js";

const mostSamples = 2000;
const previewBytes = 256;
const previewTicks = 8;

const decoder = new TextDecoder();

export class ConnectionPanel {
  private readonly facts = new Facts(element("connection"));
  private readonly ages: number[] = [];
  private readonly trips: number[] = [];
  private record?: Inspection;
  private records = 0;
  private packed = 0;
  private unpacked = 0;
  private batchTicks = 0;
  private batchDelay = 0;
  private everConnected = false; // nothing is known before
  private before = { at: performance.now(), ticks: 0 };

  constructor(private readonly client: () => Client | undefined) {
    setInterval(() => this.draw(), 500);
    setInterval(() => void this.ping(), 2000);
  }

  /** A connection is established. */
  connected(info: ConnectionInfo, ownPin: boolean): void {
    const { facts } = this;
    facts.set("Suite", info.suite);
    facts.set("Gateway's key", info.key);
    facts.set("Pin", info.pinned ? (ownPin ? "matches the one given" : "matches the gateway's own") : "none given");
    facts.set("Hybrid", info.hybrid ? "yes, with ML-KEM-768" : "no");
    facts.set("Resumed", info.resumed ? "yes" : "no");
    facts.set("Compression", info.codec);
    facts.set("Session", info.session);
    facts.set("Gateway's version", info.gatewayVersion);
    this.everConnected = true;
    this.records = this.packed = this.unpacked = this.batchTicks = this.batchDelay = 0;
  }

  take(event: SubscriptionEvent): void {
    if (event.type !== "tick") return;
    this.ages.push(Date.now() - event.time / 1000);
    if (this.ages.length > mostSamples) this.ages.splice(0, mostSamples / 2);
  }

  inspect(record: Inspection): void {
    const { batch } = record;
    const ticks = batch ? entriesOf(batch).filter((entry) => !entry.reset) : [];
    if (ticks.length === 0) return;
    this.record = record;
    this.records++;
    this.packed += record.packed;
    this.unpacked += record.unpacked;
    this.batchTicks += ticks.length;
    const times = ticks.map((tick) => Number(tick.received));
    this.batchDelay += (Math.max(...times) - Math.min(...times)) / 1000;
  }

  private async ping(): Promise<void> {
    const client = this.client();
    if (client?.status.state !== "connected") return;
    const trip = await client.ping().catch(() => NaN);
    if (Number.isFinite(trip)) this.trips.push(trip);
    if (this.trips.length > 100) this.trips.shift();
  }

  private draw(): void {
    const client = this.client();
    if (!client || !this.everConnected) return;
    const { facts } = this;
    const stats = client.stats();
    const now = performance.now();
    const rate = (Math.max(0, stats.ticks - this.before.ticks) * 1000) / (now - this.before.at);
    this.before = { at: now, ticks: stats.ticks };
    const percentiles = (samples: number[]) => {
      const ascending = samples.slice().sort((a, b) => a - b);
      return [0.5, 0.9, 0.99].map((part) => milliseconds(quantile(ascending, part))).join(", ");
    };
    facts.set("Ticks", `${count(stats.ticks)}, ${count(rate)}/s`);
    facts.set("Age of ticks (p50, p90, p99)", percentiles(this.ages));
    facts.set("Round trip (p50, p90, p99)", percentiles(this.trips));
    facts.set("Batches", this.records === 0 ? "none" : `${count(this.batchTicks / this.records)} ticks over ${milliseconds(this.batchDelay / this.records)} on average`);
    facts.set("Compression ratio", this.packed === 0 ? "–" : `${(this.unpacked / this.packed).toFixed(2)} : 1`);
    facts.set("Key changes", `${stats.keyUpdates.received} received, ${stats.keyUpdates.sent} sent`);
    facts.set("Sealed for a group", `${count(stats.groupRecords)} records`);
    facts.set("Merged", `${count(stats.merged)} ticks`);
    facts.set("Gaps", `${count(stats.gaps)}, ${count(stats.lost)} ticks lost; ${count(stats.resets)} resets`);
    facts.set("Connections", `${stats.connections}, ${stats.resumptions} resumed`);
    this.drawRecord();
  }

  private drawRecord(): void {
    const { record } = this;
    if (!record) return;
    this.record = undefined;
    const { sealed, batch, topics } = record;
    const shown = Array.from(sealed.subarray(0, previewBytes), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    element("sealed").textContent = `${sealed.length} bytes\n${shown}${sealed.length > previewBytes ? " …" : ""}`;
    const lines = entriesOf(batch!).map(({ seq, payload, reset }, i) =>
      reset ? `${topics![i]} begins anew` : `${topics![i]} ${seq} ${decoder.decode(payload)}`);
    const more = lines.length - previewTicks;
    element("opened").textContent = [...lines.slice(0, previewTicks), ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
  }
}
