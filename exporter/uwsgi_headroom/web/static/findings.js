// What is worth knowing, the worst first, each with what to change.

import { el } from "./dom.js";
import { STATUS } from "./words.js";

export class Findings {
  #shown = null;

  constructor() {
    this.node = el("ol", { class: "findings" });
  }

  show({ findings, window }) {
    const all = JSON.stringify([findings, window === null]);
    if (all === this.#shown) return;
    this.#shown = all;
    const none = window ? el("li", { class: "none" }, NOTHING) : el("li", { class: "none early" }, TOO_EARLY);
    this.node.replaceChildren(...(findings.length ? findings.map(one) : [none]));
  }
}

const NOTHING = "Nothing to change: no finding at today's load.";
const TOO_EARLY = "Not known: there are no figures to judge by.";

function one(finding) {
  const [sign, word] = STATUS[finding.severity];
  return el(
    "li",
    { "data-severity": finding.severity },
    el(
      "div",
      {},
      el("p", { class: "finding" }, el("span", { class: "chip" }, `${sign} ${word}`), " ", el("b", {}, ...marked(finding.title))),
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

/** What stands between backticks is what one types. */
const marked = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

/** Whether an address leads to a page, and to no script. */
const ours = (address) => typeof address === "string" && /^(\/|https?:\/\/)/.test(address);
