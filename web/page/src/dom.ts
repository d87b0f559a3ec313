// Small helpers for the document.

export function element<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found as T;
}

/** Shows a text in an element, or hides it when there is none. */
export function tell(id: string, text: string): void {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
  target.hidden = text === "";
}

/** A list of terms whose values change. */
export class Facts {
  private readonly values = new Map<string, HTMLElement>();

  constructor(private readonly list: HTMLElement) {}

  set(term: string, value: string): void {
    let target = this.values.get(term);
    if (!target) {
      const dt = document.createElement("dt");
      dt.textContent = term;
      target = document.createElement("dd");
      target.dataset.fact = term;
      this.list.append(dt, target);
      this.values.set(term, target);
    }
    if (target.textContent !== value) target.textContent = value;
  }
}

const theme = matchMedia("(prefers-color-scheme: dark)");
const colors = new Map<string, string>();
theme.addEventListener("change", () => colors.clear()); // before those of onTheme

/** A colour of the style sheet as it is in the present theme, for canvases. */
export function cssColor(name: string): string {
  let color = colors.get(name);
  if (color === undefined) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    color = getComputedStyle(probe).color;
    probe.remove();
    colors.set(name, color);
  }
  return color;
}

/** Calls a function when the theme has changed, to draw anew what has its colours. */
export function onTheme(draw: () => void): void {
  theme.addEventListener("change", draw);
}

export function count(n: number): string {
  return n.toLocaleString("en", { maximumFractionDigits: n < 100 ? 1 : 0 });
}

export function milliseconds(value: number): string {
  return Number.isFinite(value) ? `${value.toFixed(value < 10 ? 2 : 0)} ms` : "–";
}

/** The value below which a part of the samples lies; the samples are ascending. */
export function quantile(ascending: ArrayLike<number>, part: number): number {
  return ascending.length === 0 ? NaN : ascending[Math.min(ascending.length - 1, Math.floor(part * ascending.length))];
}
