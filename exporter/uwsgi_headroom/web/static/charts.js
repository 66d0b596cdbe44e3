// Lines over time, drawn by uPlot; the legend is ours: the newest values, or those under the pointer.

import { el, say } from "./dom.js";
import { colour, onColours } from "./palette.js";

const { uPlot } = globalThis;
const HEIGHT = 190;
const DECADES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const TOGETHER = uPlot.sync("time");

export class Lines {
  #lines;
  #options;
  #plot = null;
  #history = null;
  #width = 0;

  /**
   * lines: {column, name, colour, dash, width, steps}. format: of values; least: what the scale reaches at least; log:
   * whether it is logarithmic.
   */
  constructor(name, lines, options) {
    this.#options = options;
    this.name = name;
    this.place = el("div", { class: "lines", role: "img", "aria-label": name });
    this.legend = el("ul", { class: "legend" });
    this.node = el("div", { class: "chart" }, this.legend, this.place);
    this.#set(lines);
    new ResizeObserver(([entry]) => this.#resize(Math.floor(entry.contentRect.width))).observe(this.place);
    onColours(() => this.#rebuild());
  }

  /** Show the history; with other lines than before if they are given. */
  show(history, lines = null) {
    this.#history = history;
    if (lines && lines.map((line) => line.column).join() !== this.#lines.map((line) => line.column).join()) {
      this.#set(lines);
      this.#rebuild();
    } else if (this.#plot) this.#plot.setData(this.#data());
    else this.#rebuild();
    this.#tell(null);
  }

  #set(lines) {
    this.#lines = lines;
    this.values = lines.map(() => el("b", {}));
    this.legend.replaceChildren(
      ...lines.map((line, at) => {
        const swatch = el("i", { class: `swatch ${line.dash ? "dashed" : ""}` });
        swatch.style.setProperty("--swatch", `var(--${line.colour})`);
        return el("li", {}, swatch, `${line.name} `, this.values[at]);
      }),
    );
  }

  #data() {
    const times = this.#history.time;
    const nothing = new Array(times.length).fill(null);
    return [times, ...this.#lines.map((line) => this.#history.column(line.column) ?? nothing)];
  }

  #resize(width) {
    this.#width = width;
    if (this.#plot) this.#plot.setSize({ width, height: HEIGHT });
    else this.#rebuild();
  }

  #rebuild() {
    this.#plot?.destroy();
    this.#plot = null;
    if (!this.#width || !this.#history) return;
    this.#plot = new uPlot(this.#settings(), this.#data(), this.place);
  }

  #settings() {
    const { format, log, least = 0 } = this.#options;
    const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    const font = "12px system-ui, sans-serif";
    const limits = (plot, low, high) => [0, (Math.max(least, high ?? 0) || 1) * 1.08];
    const decades = (plot, low, high) => [Math.min(0.5, low ?? 1), Math.max(10, Math.min(1000, high ?? 10)) * 1.1];
    return {
      width: this.#width,
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: TOGETHER.key }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { range: () => this.#span() },
        y: log ? { distr: 3, range: decades } : { range: limits },
      },
      axes: [
        { ...axis, font, size: 26, gap: 8, space: 60, values: (plot, times) => times.map((time) => hour(time, this.#history.range.seconds)) },
        {
          ...axis,
          font,
          size: 54,
          space: 28,
          ...(log ? { splits: (plot, side, low, high) => DECADES.filter((decade) => decade >= low && decade <= high) } : {}),
          values: (plot, values) => values.map((value) => (value === null ? "" : format(value))),
        },
      ],
      series: [{}, ...this.#lines.map((line) => this.#stroke(line))],
      hooks: { setCursor: [(plot) => this.#tell(plot.cursor.left >= 0 ? plot.cursor.idx : null)] },
    };
  }

  #stroke(line) {
    return {
      stroke: colour(line.colour),
      width: line.width ?? 2,
      dash: line.dash ? [6, 4] : undefined,
      points: { show: false },
      paths: line.steps ? uPlot.paths.stepped({ align: -1 }) : undefined,
    };
  }

  #span() {
    const until = this.#history.time.at(-1) ?? Date.now() / 1000;
    return [until - this.#history.range.seconds, until];
  }

  #tell(at) {
    const values = this.#lines.map((line) => {
      const column = this.#history?.column(line.column);
      return this.#options.format(at === null ? (column?.at(-1) ?? null) : (column?.[at] ?? null));
    });
    values.forEach((value, place) => say(this.values[place], value));
    if (at !== null) return;
    const latest = this.#lines.map((line, place) => `${line.name} ${values[place]}`).join(", ");
    const label = `${this.name} over the last ${this.#history?.range.name ?? ""}: now ${latest}`;
    if (this.place.getAttribute("aria-label") !== label) this.place.setAttribute("aria-label", label);
  }
}

function hour(time, seconds) {
  const text = new Date(time * 1000).toLocaleTimeString("en-GB");
  return seconds > 600 ? text.slice(0, 5) : text;
}
