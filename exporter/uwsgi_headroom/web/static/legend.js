// The legend of a chart over time: a swatch, a name and a value for each line, and the time of the values.

import { el, say } from "./dom.js";

export class Legend {
  #values = [];

  /** even: in columns, so that an entry keeps its place when values become longer. */
  constructor(even = false) {
    this.when = el("li", { class: "when" });
    this.bound = el("li", { class: "limit" });
    this.node = el("ul", { class: even ? "legend even" : "legend" });
  }

  /** lines: {name, colour, dash, area, hatched}. */
  list(lines) {
    this.#values = lines.map(() => el("b", {}));
    this.node.replaceChildren(
      this.when,
      ...lines.map((line, at) => el("li", {}, swatch(line), el("bdi", {}, line.name), " ", this.#values[at])),
      this.bound,
    );
  }

  /** Name the horizontal line of the chart; null if there is none. */
  limit(name) {
    this.bound.hidden = name === null;
    say(this.bound, name ?? "");
  }

  /** moment: the time of the values, as text; values: a text for each line. */
  tell(moment, values) {
    say(this.when, moment);
    values.forEach((value, place) => say(this.#values[place], value));
  }
}

/** A sample of a line or of an area, in its colour. */
export function swatch({ colour, dash = false, area = false, hatched = false }) {
  const node = el("i", { class: ["swatch", dash && "dashed", area && "area", hatched && "hatched"].filter(Boolean).join(" ") });
  node.style.setProperty("--swatch", `var(--${colour})`);
  return node;
}
