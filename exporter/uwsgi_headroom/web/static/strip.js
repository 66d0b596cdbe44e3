// Draws a row per worker and a cell per slice of time; the darker a cell, the higher its value.

import { channels, colour, drawEvents, FONT, onColours } from "./canvas.js";
import { aim, steer, stepped } from "./charts.js";
import { el, mark, say } from "./dom.js";
import { edge, slice } from "./format.js";

const LEFT = 34;
const BOTTOM = 18;
const FULL = 0.985; // share of the whole that counts as full: drawn in another colour
const SHADES = 64;

/** Colours as pixels: a ramp from none to all, and the colour of a full cell. */
function shades() {
  const [low, high, full] = ["cell-low", "cell-high", "hot"].map((name) => channels(colour(name)));
  const pixel = (rgb) => new Uint32Array(new Uint8ClampedArray([...rgb, 255]).buffer)[0];
  const between = (part) => low.map((value, channel) => value + (high[channel] - value) * part);
  return { full: pixel(full), ramp: Array.from({ length: SHADES }, (_, at) => pixel(between(at / (SHADES - 1)))) };
}

export class Strip {
  #history = null;
  #rows = [];
  #width = 0;
  #cell = [null, 0]; // the slice and the row that the keyboard points at

  /** timeline: holds the events to mark. format: writes a value, for the caption about the cell under the pointer. */
  constructor(name, format, timeline) {
    this.name = name;
    this.format = format;
    this.timeline = timeline;
    this.canvas = el("canvas", { role: "img", "aria-label": name });
    const surface = el("div", { class: "surface" }, this.canvas);
    this.caption = el("p", { class: "caption" }, "\u00a0");
    this.pointer = el("i", { class: "pointer", hidden: true });
    this.node = el("div", { class: "strip" }, surface, this.pointer, this.caption);
    this.canvas.addEventListener("pointermove", (event) => this.#tell(event));
    const leave = () => {
      say(this.caption, "\u00a0");
      aim(null);
    };
    this.canvas.addEventListener("pointerleave", leave);
    steer(this.canvas, (across, down) => this.#step(across, down), leave);
    timeline.watchers.push((time) => this.#point(time));
    onColours(() => this.#draw());
    new ResizeObserver(([entry]) => {
      this.#width = Math.floor(entry.contentRect.width);
      this.#draw();
    }).observe(surface);
  }

  /** rows: {label, column, whole}: the name of a column of the history, and the value at which a cell is full. */
  show(history, rows) {
    this.#history = history;
    this.#rows = rows;
    const now = rows.map((row) => `${row.label} ${this.format(history.column(row.column)?.at(-1) ?? null)}`);
    mark(this.canvas, "aria-label", `${this.name}: newest value by worker: ${now.join(", ")}`);
    this.#draw();
  }

  #tall() {
    return Math.max(4, Math.min(20, Math.floor(320 / Math.max(1, this.#rows.length))));
  }

  #slots() {
    if (!this.#history?.step) return 0;
    const [from, until] = this.#history.span;
    return Math.round((until - from) / this.#history.step);
  }

  // The position of a slice in the range: a gap is as wide as it was long.
  #slot(time) {
    return this.#slots() - 1 - Math.round((this.#history.span[1] - time) / this.#history.step);
  }

  // Slices end at nearly regular times: a slice begins where the slice before it ended, unless there is a gap.
  #begin(at) {
    const times = this.#history.time;
    const before = times[at - 1];
    const slot = this.#slot(times[at]);
    return times[at] - before < 2 * this.#history.step ? Math.min(slot, this.#slot(before) + 1) : slot;
  }

  // As wide as its container, and as sharp as its screen.
  #draw() {
    const slots = this.#slots();
    if (!slots || !this.#rows.length || !this.#width) return;
    const tall = this.#tall();
    const [width, height, scale] = [this.#width, this.#rows.length * tall + BOTTOM, devicePixelRatio || 1];
    Object.assign(this.canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = FONT;
    const cells = new ImageData(slots, this.#rows.length);
    const pixels = new Uint32Array(cells.data.buffer);
    const { ramp, full } = shades();
    const times = this.#history.time;
    const ends = times.map((time) => this.#slot(time));
    const begins = times.map((_, at) => Math.max(0, this.#begin(at)));
    this.#rows.forEach(({ column, whole }, row) => {
      const values = this.#history.column(column) ?? [];
      for (let at = 0; at < values.length; at += 1) {
        if (values[at] === null || !(whole > 0)) continue;
        const part = Math.min(1, values[at] / whole);
        const shade = part >= FULL ? full : ramp[Math.round(Math.sqrt(part) * (SHADES - 1))];
        for (let slot = begins[at]; slot <= ends[at]; slot += 1) pixels[row * slots + slot] = shade;
      }
    });
    const small = new OffscreenCanvas(slots, this.#rows.length);
    small.getContext("2d").putImageData(cells, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, LEFT, 0, width - LEFT, tall * this.#rows.length);

    context.fillStyle = colour("panel"); // a thin line between workers, if there is room
    if (tall > 6) this.#rows.forEach((_, row) => context.fillRect(LEFT, (row + 1) * tall - 1, width - LEFT, 1));
    context.fillStyle = colour("dim");
    context.textAlign = "right";
    const every = Math.ceil(14 / tall);
    this.#rows.forEach(({ label }, row) => {
      if (row % every === 0) context.fillText(label, LEFT - 6, (row + 0.5) * tall + 4);
    });
    const [from, until] = this.#history.span;
    context.fillText(edge(until, until - from), width, height - 4);
    context.textAlign = "left";
    context.fillText(edge(from, until - from), LEFT, height - 4);
    const place = (time) => LEFT + ((time - from) / (until - from)) * (width - LEFT);
    drawEvents(context, this.timeline.events, [from, until], place, 0, tall * this.#rows.length);
  }

  #point(time) {
    this.pointer.hidden = time === null || !this.#history?.step;
    if (this.pointer.hidden) return;
    const [from, until] = this.#history.span;
    const part = Math.max(0, Math.min(1, (time - from) / (until - from)));
    this.pointer.style.setProperty("left", `${LEFT + part * (this.canvas.clientWidth - LEFT)}px`);
  }

  #tell(event) {
    const { width } = this.canvas.getBoundingClientRect();
    const [from, until] = this.#history.span;
    aim(Math.max(from, from + ((event.offsetX - LEFT) / (width - LEFT)) * (until - from)));
    const slot = Math.floor(((event.offsetX - LEFT) / (width - LEFT)) * this.#slots());
    const row = this.#rows[Math.floor(event.offsetY / this.#tall())];
    const at = row ? this.#history.time.findIndex((time, each) => this.#begin(each) <= slot && slot <= this.#slot(time)) : -1;
    say(this.caption, at < 0 ? "\u00a0" : this.#inWords(at, row));
  }

  #step(across, down) {
    const last = (this.#history?.time.length ?? 0) - 1;
    if (last < 0 || !this.#rows.length) return null;
    const [at, row] = this.#cell;
    this.#cell = [stepped(at, across, last), Math.max(0, Math.min(this.#rows.length - 1, row + down))];
    const text = this.#inWords(this.#cell[0], this.#rows[this.#cell[1]]);
    say(this.caption, text);
    return { at: this.#cell[0], last, text };
  }

  #inWords(at, row) {
    const value = this.#history.column(row.column)?.[at] ?? null;
    return `worker ${row.label}, ${slice(this.#history.time[at], this.#history.step)}: ${this.format(value)}`;
  }
}
