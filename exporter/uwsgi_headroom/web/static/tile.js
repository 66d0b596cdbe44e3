// A figure with its name, and a note below it.

import { el, mark, say } from "./dom.js";
import { STATUS } from "./words.js";

const SHORT = 9; // letters: longer figures are smaller, so that they fit in one line

export class Tile {
  /** key: finds the figure on the page; title: an explanation, or null. */
  constructor(name, key, title = null) {
    this.name = el("dt", {}, name);
    this.figure = el("b", { "data-figure": key });
    this.note = el("small", {});
    this.node = el("div", { title }, this.name, el("dd", {}, this.figure, this.note));
  }

  /** Give the figure another name. */
  rename(name) {
    say(this.name, name);
  }

  show(figure, note) {
    say(this.figure, figure);
    mark(this.figure, "data-long", figure.length > SHORT);
    say(this.note, note);
  }

  /** tone: `warning`, `critical` or null. A sign says the same as its colour. */
  warn(tone) {
    mark(this.node, "data-tone", tone);
    mark(this.figure, "data-sign", tone ? `${STATUS[tone][0]} ` : null);
  }
}
