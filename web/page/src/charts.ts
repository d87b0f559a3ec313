// Charts by uPlot, which needs no inline styles.
import uPlot from "uplot";
import { cssColor } from "./dom.js";

const height = 130;

function base(target: HTMLElement, title: string): Pick<uPlot.Options, "width" | "height" | "title"> & { ink: string; grid: string } {
  return { width: Math.max(200, target.clientWidth), height, title, ink: cssColor("--quiet"), grid: cssColor("--line") };
}

/** A line of the last values, one a second. */
export class Line {
  private readonly plot: uPlot;
  private readonly times: number[] = [];
  private readonly values: (number | null)[] = [];

  constructor(target: HTMLElement, title: string) {
    const { ink, grid, ...size } = base(target, title);
    const axis = { stroke: ink, grid: { stroke: grid }, ticks: { stroke: grid } };
    this.plot = new uPlot(
      {
        ...size,
        legend: { show: false },
        cursor: { show: false },
        scales: { y: { range: (_u, _low, high) => [0, Math.max(high || 0, 1e-9) * 1.1] } },
        axes: [axis, { ...axis, size: 60 }],
        series: [{}, { stroke: cssColor("--accent"), width: 2, spanGaps: false }],
      },
      [[], []],
      target,
    );
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
  target.replaceChildren();
  const { ink, grid, ...size } = base(target, title);
  const places = names.map((_, i) => i);
  new uPlot(
    {
      ...size,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: [-0.6, names.length - 0.4] }, y: { range: (_u, _low, high) => [0, high * 1.1] } },
      axes: [
        { stroke: ink, grid: { show: false }, splits: () => places, values: () => names },
        { stroke: ink, grid: { stroke: grid }, size: 60 },
      ],
      series: [{}, { fill: cssColor("--accent"), paths: uPlot.paths.bars!({ size: [0.6, 80] }), points: { show: false } }],
    },
    [places, values],
    target,
  );
}
