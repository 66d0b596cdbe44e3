// A canvas as wide as its container and as sharp as its screen, repainted when either changes.

import { el, mark } from "./dom.js";
import { onColours } from "./palette.js";

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
