// The legend of a chart over time: a swatch, a name and a value for each line, and the time of the values. An entry is a
// button that takes its line out of the chart, and brings it back.

import { isOn } from "./controls.js";
import { el, mark, say } from "./dom.js";

export class Legend {
  #entries = [];
  #toggled;

  /** form: "even" for columns, so that an entry keeps its place when values become longer; "quiet" without a time of its
   * own while there is no pointer; toggled: called with the place of a
   * line that was taken out or brought back. */
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
      const button = el("button", { type: "button", title: "show or hide", "aria-pressed": String(!off(line)), click: () => this.#toggle(at) }, swatch(line), el("bdi", {}, line.name), " ", value);
      return { button, value };
    });
    this.node.replaceChildren(this.when, ...this.#entries.map(({ button }) => el("li", {}, button)), this.bound);
  }

  #toggle(at) {
    const { button } = this.#entries[at];
    mark(button, "aria-pressed", String(!isOn(button)));
    this.#toggled(at);
  }

  /** Name the horizontal line of the chart; null if there is none. */
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

/** A sample of a line or of an area, in its colour. */
export function swatch({ colour, dash = false, dotted = false, area = false, hatched = false }) {
  const node = el("i", { class: ["swatch", dash && "dashed", dotted && "dotted", area && "area", hatched && "hatched"].filter(Boolean).join(" ") });
  node.style.setProperty("--swatch", `var(--${colour})`);
  return node;
}
