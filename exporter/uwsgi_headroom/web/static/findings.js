// The findings, worst first, each whole: its figures, its advice, and how long it has held.

import { el, mark, marked, say } from "./dom.js";
import { duration } from "./format.js";
import { clock } from "./moments.js";
import { STATUS } from "./words.js";

export class Findings {
  #items = [];
  #codes = null;

  constructor() {
    this.node = el("ol", { class: "findings" });
  }

  /** Show the findings. Only text that differs is written, so that a link keeps its focus when figures change. */
  show({ findings, time }) {
    const codes = findings.map((finding) => finding.code).join();
    if (codes !== this.#codes) {
      this.#codes = codes;
      this.#items = findings.map(() => new Item());
      this.node.replaceChildren(...this.#items.map((item) => item.node));
    }
    findings.forEach((finding, at) => this.#items[at].show(finding, time));
  }
}

class Item {
  #texts = new Map();

  constructor() {
    this.chip = el("span", { class: "chip" });
    this.title = el("b", {});
    this.since = el("small", {});
    this.why = el("p", { class: "why" });
    this.what = el("span", {});
    this.change = el("p", { class: "change" }, el("span", { "aria-hidden": "true" }, "→ "), this.what);
    this.link = el("a", {}, "Runbook");
    this.runbook = el("p", {}, this.link);
    const words = el("div", {}, el("p", { class: "finding" }, this.chip, " ", this.title, " ", this.since), this.why);
    this.node = el("li", {}, words, el("div", {}, this.change, this.runbook));
  }

  show(finding, time) {
    mark(this.node, "data-severity", finding.severity);
    say(this.chip, STATUS[finding.severity].join(" "));
    say(this.since, lasting(finding, time));
    this.#write(this.title, finding.title);
    this.#write(this.why, [...harms(finding), finding.evidence, finding.meaning].join(" "));
    this.#write(this.what, finding.change);
    this.change.hidden = !finding.change;
    this.runbook.hidden = !isOurs(finding.runbook);
    mark(this.link, "href", isOurs(finding.runbook) ? finding.runbook : null);
  }

  #write(node, text) {
    if (this.#texts.get(node) === text) return;
    this.#texts.set(node, text);
    node.replaceChildren(...marked(text));
  }
}

/** What users feel of a cause, as sentences. */
export const harms = ({ harms = [] }) => harms.map(({ evidence }) => evidence);

/** How long a finding has held. */
export const lasting = ({ since }, time) => (since ? `for ${duration(Math.max(1, time - since))}, since ${clock(since)}` : "");

/** Whether a URL leads to a page and not to a script. */
export const isOurs = (address) => typeof address === "string" && /^(\/|https?:\/\/)/.test(address);
