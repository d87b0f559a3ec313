// Charts by uPlot, which needs no inline styles. Colours are functions, which it
// calls whenever it draws: charts follow the theme.
import uPlot from "uplot";
import { cssColor, onTheme } from "./dom.js";

const height = 130;
const ink = () => cssColor("--quiet");
const grid = () => cssColor("--line");
const accent = () => cssColor("--accent");

const charts = new Map<HTMLElement, uPlot>();
onTheme(() => {
  for (const chart of charts.values()) chart.redraw(false);
});

/** What differs between charts. */
type Shape = Pick<uPlot.Options, "scales" | "axes" | "series">;

/** Draws a chart into an element, in the place of the one that was there. */
function draw(target: HTMLElement, title: string, options: Shape, data: uPlot.AlignedData): uPlot {
  charts.get(target)?.destroy();
  const size = { width: Math.max(200, target.clientWidth), height };
  const chart = new uPlot({ ...size, title, legend: { show: false }, cursor: { show: false }, ...options }, data, target);
  charts.set(target, chart);
  return chart;
}

/** A line of the last values, one a second. */
export class Line {
  private readonly plot: uPlot;
  private readonly times: number[] = [];
  private readonly values: (number | null)[] = [];

  constructor(target: HTMLElement, title: string) {
    const axis = { stroke: ink, grid: { stroke: grid }, ticks: { stroke: grid } };
    const options: Shape = {
      scales: { y: { range: (_u, _low, high) => [0, Math.max(high || 0, 1e-9) * 1.1] } },
      axes: [axis, { ...axis, size: 60 }],
      series: [{}, { stroke: accent, width: 2, spanGaps: false }],
    };
    this.plot = draw(target, title, options, [[], []]);
    new ResizeObserver(() => this.plot.setSize({ width: Math.max(200, target.clientWidth), height })).observe(target);
  }

  add(seconds: number, value: number): void {
    this.times.push(seconds);
    this.values.push(Number.isFinite(value) ? value : null);
    if (this.times.length > 120) {
      this.times.shift();
      this.values.shift();
    }
    this.plot.setData([this.times, this.values]);
  }
}

/** Bars with names below them; a second call replaces the first. */
export function bars(target: HTMLElement, title: string, names: string[], values: number[]): void {
  const places = names.map((_, i) => i);
  const options: Shape = {
    scales: { x: { time: false, range: [-0.6, names.length - 0.4] }, y: { range: (_u, _low, high) => [0, high * 1.1] } },
    axes: [
      { stroke: ink, grid: { show: false }, splits: () => places, values: () => names },
      { stroke: ink, grid: { stroke: grid }, size: 60 },
    ],
    series: [{}, { fill: accent, paths: uPlot.paths.bars!({ size: [0.6, 80] }), points: { show: false } }],
  };
  draw(target, title, options, [places, values]);
}
