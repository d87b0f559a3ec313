// The watch list: the latest values of topics, drawn at most ten times a second
// whatever comes, and only rows that have changed.
import type { SubscriptionEvent } from "@sealcast/client";
import { cssColor, element, onTheme, tell } from "./dom.js";

const mostRows = 200; // shown at a time; search finds the others
const sparkPoints = 60;
const drawEvery = 100;

interface Row {
  topic: string;
  bid: string;
  ask: string;
  last: string;
  price: number;
  direction: "" | "up" | "down";
  ticks: number;
  seq: number;
  stale: boolean;
  spark: number[];
  payload: Uint8Array;
  dirty: boolean;
  cells?: HTMLTableCellElement[];
  row?: HTMLTableRowElement;
  canvas?: HTMLCanvasElement;
}

const decoder = new TextDecoder();

export class WatchList {
  private readonly rows = new Map<string, Row>();
  private readonly body = element<HTMLTableElement>("watch").tBodies[0];
  private changed = true; // which rows are shown

  constructor() {
    element("search").addEventListener("input", () => (this.changed = true));
    setInterval(() => requestAnimationFrame(() => this.draw()), drawEvery);
    onTheme(() => {
      for (const row of this.rows.values()) if (row.canvas) drawSpark(row.canvas, row.spark);
    });
  }

  /** Forgets everything: other topics are followed now. */
  clear(): void {
    this.rows.clear();
    this.changed = true;
  }

  /** The connection is gone: what is shown may be out of date. */
  expire(): void {
    for (const row of this.rows.values()) this.mark(row, true);
  }

  take(event: SubscriptionEvent): void {
    if (!("topic" in event)) return;
    const row = this.rowOf(event.topic);
    if (event.type === "reset") this.mark(row, true);
    if (event.type === "snapshot" && row.ticks === 0) this.value(row, event.payload, event.seq, event.stale);
    if (event.type === "tick") {
      row.ticks++;
      this.value(row, event.payload, event.seq, false);
    }
  }

  private rowOf(topic: string): Row {
    let row = this.rows.get(topic);
    if (!row) {
      row = { topic, bid: "", ask: "", last: "", price: NaN, direction: "", ticks: 0, seq: 0, stale: false, spark: [], payload: new Uint8Array(0), dirty: true };
      this.rows.set(topic, row);
      this.changed = true;
    }
    return row;
  }

  private mark(row: Row, stale: boolean): void {
    row.stale = stale;
    row.dirty = true;
  }

  private value(row: Row, payload: Uint8Array, seq: number, stale: boolean): void {
    row.payload = payload; // read when it is drawn: most are overtaken before
    row.seq = seq;
    this.mark(row, stale);
  }

  private draw(): void {
    if (this.changed) this.arrange();
    for (const row of this.rows.values()) if (row.dirty && row.row) this.drawRow(row);
  }

  private arrange(): void {
    this.changed = false;
    const wanted = element<HTMLInputElement>("search").value.trim().toLowerCase();
    const found = [...this.rows.values()].filter(({ topic }) => topic.toLowerCase().includes(wanted)).sort((a, b) => (a.topic < b.topic ? -1 : 1));
    const shown = found.slice(0, mostRows);
    for (const row of this.rows.values()) if (row.row && !shown.includes(row)) row.row = row.cells = row.canvas = undefined;
    this.body.replaceChildren(...shown.map((row) => this.place(row)));
    tell("more", found.length > shown.length ? `${found.length - shown.length} more: search finds them` : found.length === 0 ? "No topic yet." : "");
  }

  private place(row: Row): HTMLTableRowElement {
    if (row.row) return row.row;
    row.row = document.createElement("tr");
    row.row.dataset.topic = row.topic;
    row.cells = Array.from({ length: 6 }, () => row.row!.insertCell());
    row.cells[0].textContent = row.topic;
    row.canvas = document.createElement("canvas");
    row.canvas.className = "spark";
    row.canvas.width = 160;
    row.canvas.height = 40;
    row.cells[4].append(row.canvas);
    row.dirty = true;
    return row.row;
  }

  private drawRow(row: Row): void {
    row.dirty = false;
    read(row);
    const [, bid, ask, last, , ticks] = row.cells!;
    bid.textContent = row.bid;
    ask.textContent = row.ask;
    last.textContent = row.direction === "" ? row.last : `${row.last} ${row.direction === "up" ? "▲" : "▼"}`;
    last.className = row.direction;
    ticks.textContent = String(row.ticks);
    row.row!.className = row.stale ? "stale" : "";
    row.row!.dataset.seq = String(row.seq);
    drawSpark(row.canvas!, row.spark);
  }
}

/** Takes prices from a payload: JSON with bid, ask, last or price, or a bare number. */
function read(row: Row): void {
  const text = decoder.decode(row.payload);
  let values: Record<string, unknown> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    values = typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : { last: parsed };
  } catch {
    values = { last: text.slice(0, 40) };
  }
  const show = (value: unknown) => (typeof value === "string" || typeof value === "number" ? String(value) : "");
  row.bid = show(values.bid);
  row.ask = show(values.ask);
  row.last = show(values.last ?? values.price);
  const price = Number(row.last || row.bid);
  if (Number.isNaN(price) || row.last + row.bid === "") return;
  if (price !== row.price && !Number.isNaN(row.price)) row.direction = price > row.price ? "up" : "down";
  row.price = price;
  row.spark.push(price);
  if (row.spark.length > sparkPoints) row.spark.shift();
}

function drawSpark(canvas: HTMLCanvasElement, points: number[]): void {
  const context = canvas.getContext("2d")!;
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  if (points.length < 2) return;
  const low = Math.min(...points);
  const range = Math.max(...points) - low || 1;
  context.strokeStyle = cssColor("--accent");
  context.lineWidth = 2;
  context.beginPath();
  points.forEach((point, i) => context.lineTo((i / (sparkPoints - 1)) * width, height - 3 - ((point - low) / range) * (height - 6)));
  context.stroke();
}
