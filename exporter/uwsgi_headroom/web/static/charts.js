// Charts over time, of lines and stacked areas, drawn by uPlot. Our own legend shows the newest values, or the values under the
// pointer, which moves also without a mouse: by keyboard, as a slider whose text has the values, or by touch.

import { colour, drawEvents, drawLimit, FONT as font, hatching, onColours } from "./canvas.js";
import { afterFrame, el, isOn, mark, marks, say } from "./dom.js";
import { isMissing, slice, tick } from "./format.js";

const HEIGHT = 190;
const DECADES = [-4, -3, -2, -1, 0, 1, 2, 3].map((power) => 10 ** power);
const WIDE = 300; // ratio of a logarithmic scale from which on only powers of ten are written
const TOGETHER = "time"; // the charts with one pointer
const NOWHERE = { left: -10, top: -10 };
const LEAST_DRAG = 6; // pixels: a shorter drag is a click
const NEAR = 8; // pixels: the legend names an event this close to the pointer
const MARGIN = 0.1; // share of a limit, as room above it: a full queue is one longer than its limit
const IN_REACH = 0.2; // share of a limit: if the lines come this close, the scale includes the limit
const DISTANT = 0.1; // share of a distant line: if the others come this close, the scale includes the line

let turns = null; // of charts, one after each frame, once what draws them has come

/** Load uPlot, a file of its own: figures come first. */
const load = () => new Promise((come) => document.head.append(el("script", { src: document.body.dataset.charts, load: come })));

export class Lines {
  #lines;
  #drawn; // the lines, in the order in which they are drawn
  #options;
  #plot = null;
  #history = null;
  #limit = null;
  #off = new Set(); // the columns of lines that the reader took out
  #width = 0;
  #height;

  /**
   * lines: {column, name, colour, dash, dotted, width, steps}, each with `values` instead of a column of the history if
   * it has them, and `write` for a value and its index. An area has `area`, and may be `hatched`; those of a stack have
   * `stacked`, and are in their order from the bottom. The scale includes a `distant` line only if the others come near.
   * timeline: shared with the other charts. format: writes a value; unit: the name of the axis; least: the scale ends at
   * this value or above; log: {from, to, lowest, highest} of a logarithmic scale, which always shows `from` to `to`, and
   * never goes beyond the others; legend: its form.
   */
  constructor(name, lines, timeline, options) {
    this.#options = options;
    this.#height = options.height ?? HEIGHT;
    this.timeline = timeline;
    this.name = name;
    this.legend = new Legend(options.legend, (at) => this.#toggle(this.#lines[at].column));
    this.place = el("div", { class: "lines", role: "img", "aria-label": name });
    this.node = el("div", { class: "chart" }, this.legend.node, this.place);
    this.#order(lines);
    this.legend.list(this.#lines);
    new ResizeObserver(([entry]) => this.#resize(Math.floor(entry.contentRect.width))).observe(this.place);
    onColours(() => this.#rebuild());
    turns = (turns ?? (globalThis.uPlot ? Promise.resolve() : load())).then(() => new Promise((next) => {
      if (!this.#plot) this.#rebuild();
      afterFrame(next);
    }));
    steer(this.place, (across) => this.#step(across), () => this.#plot?.setCursor(NOWHERE, true, true));
  }

  /** Show the history, with new lines if given. limit: {value, name}, drawn as a horizontal line. */
  show(history, lines = this.#lines, limit = null) {
    this.#history = history;
    this.#limit = limit;
    this.legend.limit(limit?.name ?? null);
    const isSame = String(lines.map((line) => line.column)) === String(this.#lines.map((line) => line.column));
    this.#order(lines);
    if (!isSame) this.legend.list(lines, ({ column }) => this.#off.has(column));
    if (isSame && this.#plot) this.#plot.setData(this.#data());
    else this.#rebuild();
    this.#tell(this.#pointed());
  }

  // Takes a line out of the chart, or brings it back. What is stacked on it moves.
  #toggle(column) {
    if (!this.#off.delete(column)) this.#off.add(column);
    if (!this.#plot) return;
    this.#drawn.forEach((line, at) => line.column === column && this.#plot.setSeries(at + 1, { show: !this.#off.has(column) }));
    this.#plot.setData(this.#data());
  }

  // Every area covers what is below it, so the highest is drawn first; the lines are drawn over the areas.
  #order(lines) {
    this.#lines = lines;
    this.#drawn = [...lines.filter((line) => line.area).reverse(), ...lines.filter((line) => !line.area)];
  }

  #values(line) {
    return line.values ?? this.#history?.column(line.column) ?? null;
  }

  #data() {
    const times = this.#history.time;
    const nothing = new Array(times.length).fill(null);
    const stack = this.#lines.filter((line) => line.stacked && !this.#off.has(line.column));
    const tops = heights(stack.map((line) => ({ values: this.#values(line) ?? nothing })));
    return [times, ...this.#drawn.map((line) => tops[stack.indexOf(line)] ?? this.#values(line) ?? nothing)];
  }

  #resize(width) {
    this.#width = width;
    if (this.#plot) this.#plot.setSize({ width, height: this.#height });
    else this.#rebuild();
  }

  #rebuild() {
    this.#plot?.destroy();
    this.#plot = null;
    if (!this.#width || !this.#history || !globalThis.uPlot) return;
    this.#plot = new uPlot(this.#settings(), this.#data(), this.place);
    this.#plot.over.addEventListener("mousedown", () => (this.timeline.dragged = this.#plot));
    listen(this.#plot, this.timeline);
  }

  #settings() {
    const { format, log, unit, least = 0 } = this.#options;
    const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    const limits = (plot, low, high) => [0, (Math.max(least, high ?? 0, this.#inReach(high), this.#distant(high)) || 1) * 1.08];
    const decades = (plot, low, high) => [
      Math.max(log.lowest, Math.min(log.from, low ?? log.from)),
      Math.min(log.highest, Math.max(log.to, high ?? log.to, this.#limit?.value ?? 0)) * 1.1,
    ];
    return {
      width: this.#width,
      height: this.#height,
      padding: [8, 24, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: TOGETHER },
        drag: { x: true, y: false, setScale: false, dist: LEAST_DRAG },
        bind: { dblclick: () => () => this.timeline.back() },
        points: { size: (plot, at) => (this.#drawn[at - 1].area ? 0 : 6) },
      },
      scales: {
        x: { range: () => this.#history.span },
        y: log ? { distr: 3, range: decades } : { range: limits },
      },
      axes: [
        { ...axis, font, size: 26, gap: 8, space: 60, values: (plot, times, axis, room, increment) => times.map((time) => tick(time, increment)) },
        {
          ...axis,
          font,
          size: 54,
          ...(unit ? { label: unit, labelFont: font, labelSize: 16 } : {}),
          space: 28,
          ...(log ? { splits: (plot, side, low, high) => splits(low, high), filter: (plot, values) => values } : {}),
          values: (plot, values) => values.map((value) => (value === null ? "" : format(value))),
        },
      ],
      series: [{}, ...this.#drawn.map((line) => this.#stroke(line))],
      hooks: {
        setCursor: [
          () => {
            const at = this.#pointed();
            this.#tell(at);
            this.timeline.point(at === null ? null : this.#history.time[at]);
          },
        ],
        setSelect: [(plot) => this.#zoom(plot)],
        draw: [(plot) => this.#mark(plot)],
      },
    };
  }

  #stroke(line) {
    const show = !this.#off.has(line.column);
    if (line.area) return { show, fill: line.hatched ? hatching(line.colour) : colour(line.colour), width: 0, points: { show: false } };
    return {
      show,
      auto: !line.distant,
      stroke: colour(line.colour),
      width: line.width ?? 2,
      dash: line.dash ? [6, 4] : line.dotted ? [2, 3] : undefined,
      points: { show: false, size: 4, filter: (plot, at) => alone(plot.data[at]) },
      paths: line.steps ? uPlot.paths.stepped({ align: -1 }) : undefined,
    };
  }

  /** The value up to which the scale makes room for the limit: 0 unless the lines come near the limit. */
  #inReach(high) {
    return this.#limit && (high ?? 0) >= IN_REACH * this.#limit.value ? (1 + MARGIN) * this.#limit.value : 0;
  }

  /** The value up to which the scale makes room for distant lines: 0 unless the others come near. */
  #distant(high) {
    const values = this.#lines.filter((line) => line.distant).flatMap((line) => this.#values(line) ?? []);
    const most = values.reduce((most, value) => Math.max(most, value ?? 0), 0);
    return high === null || high >= DISTANT * most ? most : 0;
  }

  #mark(plot) {
    const { left, top, width, height } = plot.bbox;
    const x = (time) => plot.valToPos(time, "x", true);
    plot.ctx.save();
    plot.ctx.beginPath();
    plot.ctx.rect(left, top, width, height);
    plot.ctx.clip();
    drawEvents(plot.ctx, this.timeline.events, this.#history.span, x, top, height, devicePixelRatio || 1);
    plot.ctx.restore();
    if (this.#limit) drawLimit(plot, this.#limit.value);
  }

  // A drag on one chart selects in all charts; the chart on which the drag began zooms them all.
  #zoom(plot) {
    const { left, width } = plot.select;
    if (!width) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (this.timeline.dragged !== plot || width < LEAST_DRAG) return;
    this.timeline.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  #tell(at) {
    const place = at ?? this.#newest();
    const write = (line, value) => (line.write ? line.write(value, place) : value === null ? "" : this.#options.format(value));
    const values = this.#lines.map((line) => write(line, this.#values(line)?.[place] ?? null));
    const moment = this.#moment(place, at !== null);
    this.legend.tell(at === null && this.#options.legend === "quiet" ? "" : moment, values);
    if (at !== null) return;
    const latest = this.#lines.map((line, each) => `${line.name} ${values[each] || "not known"}`).join(", ");
    mark(this.place, "aria-label", `${this.name}, ${moment}: ${latest}`);
  }

  /** Move the pointer of all charts by so many points, and say what the legend then says. */
  #step(across) {
    if (!this.#plot || !across) return null;
    const last = this.#history.time.length - 1;
    const at = stepped(this.#pointed(), across, last);
    this.#plot.setCursor({ left: this.#plot.valToPos(this.#history.time[at], "x"), top: 1 }, true, true);
    const said = [...this.legend.node.children].filter((each) => !each.hidden).map((each) => each.textContent);
    return { at, last, text: said.join(", ") };
  }

  /** The index of the newest figures: the last slices have none while a server is down. */
  #newest() {
    const columns = this.#lines.map((line) => this.#values(line) ?? []);
    const last = (this.#history?.time.length ?? 0) - 1;
    for (let at = last; at >= 0; at -= 1) if (columns.some((values) => !isMissing(values[at]))) return at;
    return last;
  }

  /** The index in the history under the pointer; null if the pointer is not on a chart. */
  #pointed() {
    return this.#plot?.cursor.left >= 0 ? this.#plot.cursor.idx : null;
  }

  /** The time of the figures in the legend; of those under the pointer, also the event at that time. */
  #moment(at, isPointed) {
    const time = this.#history?.time[at];
    if (time === undefined) return "";
    const moment = slice(time, this.#history.step);
    if (!isPointed) return `latest, ${moment}`;
    const [from, until] = this.#history.span;
    const reach = (NEAR * (until - from)) / this.#width;
    const event = this.timeline.near(time - Math.max(this.#history.step, reach), time + reach);
    return event ? `${moment}: ${event}` : moment;
  }
}

/** Move the pointer of all charts to an instant; null takes it away. */
export function aim(time) {
  for (const plot of globalThis.uPlot?.sync(TOGETHER).plots ?? []) plot.setCursor(time === null ? NOWHERE : { left: plot.valToPos(time, "x"), top: 1 });
}

/** The values to write beside a logarithmic scale: 1, 2 and 5 times powers of ten that are within it. */
function splits(low, high) {
  const steps = high / low > WIDE ? [1] : [1, 2, 5];
  return DECADES.flatMap((decade) => steps.map((step) => step * decade)).filter((value) => value >= low && value <= high);
}

/** The places of values without neighbours, which no line connects; null if there are none. */
function alone(values) {
  const isAlone = (at) => !isMissing(values[at]) && isMissing(values[at - 1]) && isMissing(values[at + 1]);
  const places = [...values.keys()].filter(isAlone);
  return places.length ? places : null;
}

/** The height of the stack up to and including each band, in each slice. */
export function heights(stack) {
  const sums = [];
  for (const { values } of stack) {
    const below = sums.at(-1);
    sums.push(values.map((threads, at) => (threads === null ? null : threads + (below?.[at] ?? 0))));
  }
  return sums;
}

const STEPS = {
  ...{ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] },
  ...{ PageUp: [-10, 0], PageDown: [10, 0], Home: [-Infinity, 0], End: [Infinity, 0] },
};

/** move(across, down): moves the pointer, and returns {at, last, text} of where it is, or null; leave: takes it away. */
export function steer(node, move, leave) {
  const point = ({ at, last, text }) => marks(node, { "aria-valuenow": at, "aria-valuemax": last, "aria-valuetext": text });
  marks(node, { role: "slider", tabindex: 0, "aria-valuemin": 0 });
  point({ at: 0, last: 0, text: "arrow keys show values" });
  node.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const moved = step && !event.ctrlKey && !event.altKey && !event.metaKey ? move(...step) : null;
    if (!moved) return;
    event.preventDefault();
    point(moved);
  });
  node.addEventListener("blur", leave);
}

/** A place after a step from another, or from beyond the last; null: none yet. */
export const stepped = (place, step, last) => Math.max(0, Math.min(last, (place ?? (step < 0 ? last + 1 : last)) + step));

/** Handle touch on a plot. A vertical swipe still scrolls the page (`touch-action` in the style sheet). */
function listen(plot, timeline) {
  const fingers = new Map();
  const place = (event) => event.clientX - plot.over.getBoundingClientRect().left;
  const only = (act) => (event) => event.pointerType === "touch" && act(event);
  const follow = (event) => {
    fingers.set(event.pointerId, place(event));
    if (fingers.size === 1) plot.setCursor({ left: place(event), top: 1 }, true, true);
  };
  plot.over.addEventListener("pointerdown", only(follow));
  plot.over.addEventListener("pointermove", only((event) => fingers.has(event.pointerId) && follow(event)));
  plot.over.addEventListener("pointercancel", only((event) => fingers.delete(event.pointerId)));
  plot.over.addEventListener("pointerup", only(() => {
    const two = fingers.size === 2 ? [...fingers.values()].map((left) => plot.posToVal(left, "x")) : null;
    fingers.clear();
    if (two) timeline.zoom(...two);
  }));
}

export class Legend {
  #entries = [];
  #toggled;

  /** form: "even" for columns, so that an entry keeps its place when values become longer; "quiet" without a time of its
   * own while there is no pointer; toggled: called with the place of a line that was taken out or brought back. */
  constructor(form = "", toggled = () => {}) {
    this.#toggled = toggled;
    this.when = el("li", { class: "when" });
    this.bound = el("li", { class: "limit", hidden: true });
    this.node = el("ul", { class: `legend ${form}` });
  }

  /** lines: {name, colour, dash, area, hatched}; off: whether a line is out. */
  list(lines, off = () => false) {
    this.#entries = lines.map((line, at) => {
      const value = el("b", {});
      const button = el("button", { type: "button", title: "show or hide", "aria-pressed": String(!off(line)), click: () => this.#toggle(at) },
        swatch(line), el("bdi", {}, line.name), " ", value);
      return { button, value };
    });
    this.node.replaceChildren(this.when, ...this.#entries.map(({ button }) => el("li", {}, button)), this.bound);
  }

  #toggle(at) {
    const { button } = this.#entries[at];
    mark(button, "aria-pressed", String(!isOn(button)));
    this.#toggled(at);
  }

  limit(name) {
    this.bound.hidden = name === null;
    say(this.bound, name ?? "");
  }

  /** moment: the time of the values, as text; values: a text for each line, empty if there is none. */
  tell(moment, values) {
    say(this.when, moment);
    values.forEach((value, place) => say(this.#entries[place].value, value));
  }
}

export function swatch({ colour, dash = false, dotted = false, area = false, hatched = false }) {
  const node = el("i", { class: ["swatch", dash && "dashed", dotted && "dotted", area && "area", hatched && "hatched"].filter(Boolean).join(" ") });
  node.style.setProperty("--swatch", `var(--${colour})`);
  return node;
}
