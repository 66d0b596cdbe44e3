// What is worth knowing, the worst first, each with what to change.

import { el, marked, say } from "./dom.js";
import { clock, duration } from "./format.js";
import { STATUS } from "./words.js";

export class Findings {
  #shown = null;
  #since = [];

  constructor() {
    this.node = el("ol", { class: "findings" });
  }

  show({ findings, window, time }) {
    const all = JSON.stringify([findings, window === null]);
    if (all !== this.#shown) {
      this.#shown = all;
      this.#since = findings.map(() => el("small", {}));
      const none = window ? el("li", { class: "none" }, NOTHING) : el("li", { class: "none early" }, TOO_EARLY);
      this.node.replaceChildren(...(findings.length ? findings.map((finding, at) => one(finding, this.#since[at])) : [none]));
    }
    findings.forEach((finding, at) => say(this.#since[at], lasting(finding, time)));
  }
}

/** How long a finding has held. */
export const lasting = ({ since }, time) => (since ? `for ${duration(Math.max(1, time - since))}, since ${clock(since)}` : "");

const NOTHING = "Nothing to change: no finding at today's load.";
const TOO_EARLY = "Not known: there are no figures to judge by.";

function one(finding, since) {
  const [sign, word] = STATUS[finding.severity];
  return el(
    "li",
    { "data-severity": finding.severity },
    el(
      "div",
      {},
      el("p", { class: "finding" }, el("span", { class: "chip" }, `${sign} ${word}`), " ", el("b", {}, ...marked(finding.title)), " ", since),
      el("p", { class: "why" }, ...marked(`${finding.evidence} ${finding.meaning}`)),
    ),
    el(
      "div",
      {},
      finding.change ? el("p", { class: "change" }, el("span", { "aria-hidden": "true" }, "→ "), ...marked(finding.change)) : null,
      ours(finding.runbook) ? el("p", {}, el("a", { href: finding.runbook }, "Runbook")) : null,
    ),
  );
}

/** Whether an address leads to a page, and to no script. */
const ours = (address) => typeof address === "string" && /^(\/|https?:\/\/)/.test(address);
