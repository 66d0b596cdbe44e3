// What is worth knowing, the worst first, each with what to change.

import { el } from "./dom.js";
import { STATUS } from "./words.js";

export class Findings {
  #shown = null;

  constructor() {
    this.node = el("ol", { class: "findings" });
  }

  show(findings) {
    const all = JSON.stringify(findings);
    if (all === this.#shown) return;
    this.#shown = all;
    this.node.replaceChildren(...(findings.length ? findings.map(one) : [el("li", { class: "none" }, NOTHING)]));
  }
}

const NOTHING = "Nothing to change: no finding at today's load.";

function one(it) {
  const [sign, word] = STATUS[it.severity];
  return el(
    "li",
    { "data-severity": it.severity },
    el("p", { class: "finding" }, el("span", { class: "chip" }, `${sign} ${word}`), " ", el("b", {}, it.title)),
    el("p", { class: "why" }, `${it.evidence} ${it.meaning}`),
    it.change ? el("p", { class: "change" }, el("b", { "aria-label": "What to change:" }, "→ "), it.change) : null,
    ours(it.runbook) ? el("p", {}, el("a", { href: it.runbook }, "Runbook")) : null,
  );
}

/** Whether an address leads to a page, and to no script. */
const ours = (address) => typeof address === "string" && /^(\/|https?:\/\/)/.test(address);
