// Canvases, as wide as their container and as sharp as their screen, in the colours of the style sheet.

import { el, mark } from "./dom.js";

const dark = matchMedia("screen and (prefers-color-scheme: dark)");

const known = new Map(); // cached, because reading a computed style forces a layout
dark.addEventListener("change", () => known.clear());

/** A colour by the name of its variable, without the dashes. */
export function colour(name) {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return known.get(name);
}

/** Lines across the ground in a colour, as a fill for canvases. */
export function hatching(name) {
  const tile = new OffscreenCanvas(6, 6);
  const context = tile.getContext("2d");
  context.strokeStyle = colour(name);
  context.lineWidth = 1.5;
  for (const shift of [-6, 0, 6]) {
    context.moveTo(shift - 1, 7);
    context.lineTo(shift + 7, -1);
  }
  context.stroke();
  return context.createPattern(tile, "repeat");
}

/** Call `changed` when the colours change. */
export const onColours = (changed) => dark.addEventListener("change", changed);

/** Red, green and blue of a colour written as #rrggbb. */
export const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

export const FONT = "12px system-ui, sans-serif";

export class Surface {
  #paint;
  #width = 0;
  #height;

  /** paint(context, width, height), in CSS pixels. name: for screen readers; `describe` adds the content. */
  constructor(name, height, paint) {
    this.#paint = paint;
    this.#height = height;
    this.name = name;
    this.canvas = el("canvas", { role: "img", "aria-label": name });
    this.node = el("div", { class: "surface" }, this.canvas);
    new ResizeObserver(([entry]) => {
      this.#width = Math.floor(entry.contentRect.width);
      this.draw();
    }).observe(this.node);
    onColours(() => this.draw());
  }

  /** Describe the content in words, for screen readers. */
  describe(text) {
    mark(this.canvas, "aria-label", `${this.name}: ${text}`);
  }

  resize(height) {
    this.#height = height;
  }

  draw() {
    if (!this.#width) return;
    const scale = devicePixelRatio || 1;
    const [width, height] = [Math.round(this.#width * scale), Math.round(this.#height * scale)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.canvas.style.width = `${this.#width}px`;
      this.canvas.style.height = `${this.#height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.#width, this.#height);
    context.font = FONT;
    this.#paint(context, this.#width, this.#height);
  }
}
