// The top of the page, to be read from two metres: the headroom, what gives out first, the verdict.

import { el, mark, say } from "./dom.js";
import * as format from "./format.js";
import { LIMITS, STATUS } from "./words.js";

export class Headline {
  #announced = "";

  constructor() {
    this.factor = el("p", { class: "factor", "data-figure": "headroom" });
    this.chip = el("span", { class: "chip" });
    this.first = el("span", { class: "first" });
    this.verdict = el("p", { class: "verdict", "data-figure": "verdict" });
    this.age = el("p", { class: "age" });
    this.live = el("p", { class: "unseen", role: "status", "aria-live": "polite" });
    const words = el("div", {}, el("p", { class: "state" }, this.chip, " ", this.first), this.verdict, this.age);
    this.node = el("section", { class: "headline", "aria-label": "Verdict" }, this.factor, words, this.live);
  }

  /** trouble: a sentence, if what is shown is not the present. */
  show(document, trouble) {
    const { headroom, status, verdict, window } = document;
    const [sign, word] = STATUS[status];
    mark(this.node, "data-status", status);
    mark(this.node, "data-kind", document.kind);
    say(this.factor, amount(headroom));
    mark(this.factor, "aria-label", headroom?.factor || headroom?.far?.length ? `Headroom ${amount(headroom)}` : "Headroom not known");
    say(this.chip, `${sign} ${word}`);
    say(this.first, outcome(document));
    say(this.verdict, verdict);
    say(this.age, trouble ?? (window && short(window) ? shortness(window) : ""));
    mark(this.age, "class", trouble ? "age trouble" : "age");
    this.#announce(`${word}. ${trouble ?? outcome(document)}`, verdict);
  }

  // Told to a screen reader when it is another one, and not whenever a figure in it moves.
  #announce(what, verdict) {
    const kind = what.replace(/[\d.]+/g, "");
    if (kind === this.#announced) return;
    this.#announced = kind;
    say(this.live, `${what} ${verdict}`);
  }
}

/** By how much load can grow. What is known and far away is not a question. */
const amount = (headroom) => (!headroom?.factor && headroom?.far?.length ? ">100×" : format.factor(headroom?.factor));

/** What gives out first, as half a sentence. */
export function outcome(document) {
  if (document.kind === "emperor" || document.kind === "router") return `uWSGI ${document.kind}`;
  const { first, far, is_upper_bound: most } = document.headroom ?? {};
  if (!first && far?.length) return "nearly idle";
  if (first && most) return `headroom at most, then ${LIMITS[first][1]}`;
  return first ? `headroom, then ${LIMITS[first][1]}` : "headroom not known";
}

/** Whether there has been much less of the window than was asked for. */
export const short = (window) => window.seconds < 0.9 * window.asked;

/** A sentence that says so. */
export const shortness = (window) =>
  `Figures over ${format.duration(window.seconds)} only, not yet ${format.duration(window.asked)}: still rough.`;
