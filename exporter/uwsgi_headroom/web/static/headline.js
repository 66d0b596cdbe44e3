// The top of the page, legible from two metres: status, headroom and verdict of the server.

import { el, mark, say, unmarked } from "./dom.js";
import * as format from "./format.js";
import { LIMITS, STATES, STATUS } from "./words.js";

export class Headline {
  #announced = "";

  constructor() {
    this.factor = el("span", { class: "factor", "data-figure": "headroom" });
    this.unit = el("span", { class: "unit" });
    this.figure = el("p", { class: "figure" }, this.factor, " ", this.unit);
    this.chip = el("span", { class: "chip" });
    this.first = el("span", { class: "outcome" });
    this.usable = el("span", { class: "usable", "data-figure": "usable_headroom" });
    this.verdict = el("p", { class: "verdict", "data-figure": "verdict" });
    this.age = el("p", { class: "age" });
    this.live = el("p", { class: "unseen", role: "status", "aria-live": "polite" });
    const words = el("div", {}, el("p", { class: "state" }, this.chip, " ", this.first, this.usable), this.verdict, this.age);
    this.node = el("section", { class: "headline", "aria-label": "Verdict" }, this.figure, words, this.live);
  }

  /** trouble: a sentence that says why the figures are not current, or null. */
  show(document, trouble) {
    const { headroom, status, verdict, window, state } = document;
    const down = state === "down";
    const [sign, word] = down ? STATES.down.split(" ") : STATUS[status];
    mark(this.node, "data-status", down ? "down" : status);
    mark(this.node, "data-kind", document.kind);
    // A problem comes first; the headroom then stands beside it.
    mark(this.node, "data-aside", status !== "ok" && !down);
    this.figure.hidden = down || document.kind === "emperor" || document.kind === "router";
    say(this.factor, amount(headroom));
    say(this.unit, name(headroom));
    say(this.chip, `${sign} ${word.toUpperCase()}`);
    say(this.first, outcome(document));
    say(this.usable, waiting(document));
    say(this.verdict, unmarked(verdict));
    say(this.age, trouble ?? (window && short(window) ? shortness(window) : ""));
    mark(this.age, "class", trouble ? "age trouble" : "age");
    this.#announce(`${word}. ${trouble ?? outcome(document)}`, verdict);
  }

  // A screen reader announces a new verdict, but not a changed figure in the same verdict.
  #announce(what, verdict) {
    const kind = what.replace(/[\d.:]+/g, "");
    if (kind === this.#announced) return;
    this.#announced = kind;
    say(this.live, `${what} ${verdict}`);
  }
}

/** The factor by which load can grow: `>100x` if the known limits are all far away. */
export const amount = (headroom) => (!headroom?.factor && headroom?.far?.length ? ">100x" : format.factor(headroom?.factor));

const name = (headroom) => {
  if (!headroom?.factor && !headroom?.far?.length) return "headroom not known";
  return headroom.is_upper_bound ? "headroom at most" : "headroom";
};

/** Which limit is reached first; empty for a server that is down. */
export function outcome(document) {
  if (document.state === "down") return "";
  if (document.kind === "emperor" || document.kind === "router") return `uWSGI ${document.kind}`;
  const { first, far } = document.headroom ?? {};
  if (!first && far?.length) return "nearly idle";
  return first ? `first limit: ${LIMITS[first]}` : "";
}

/** By how much load can grow until requests wait; empty where that is not known. */
export function waiting(document) {
  const usable = document.state === "down" ? null : document.headroom?.usable;
  if (!usable) return "";
  return usable > 1 ? `, usable headroom ${format.factor(usable)}: then requests begin to wait` : ", requests begin to wait";
}

/** Whether the window covers much less time than requested. */
export const short = (window) => window.seconds < 0.9 * window.asked;

/** A sentence that says how short a window is. */
export const shortness = (window) => `Based on ${format.duration(window.seconds)} so far (${format.duration(window.asked)} requested).`;
