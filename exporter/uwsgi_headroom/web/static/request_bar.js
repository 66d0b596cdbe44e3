// Where the time of a mean request goes: a bar of its parts, and a list that says the same in words.

import { el, panel, retitle, say } from "./dom.js";
import * as format from "./format.js";
import { swatch } from "./legend.js";
import { destinations, parts } from "./waits.js";

const EXPLANATION = "a mean request in service";
const LEAST_STUCK = 0.05; // mean threads: fewer are not named
const LEAST_LASTING = 1;
const SHORT = 5; // letters: such a label fits a narrower segment

export function requestBar() {
  const bar = el("div", { class: "parts", "aria-hidden": "true" }); // the list says the same
  const list = el("ul", { class: "legend" });
  const outside = el("p", { class: "outside" });
  const stuck = el("p", { class: "hint stuck" });
  const node = panel("", EXPLANATION, bar, list, outside, stuck);
  let pieces = new Map();
  return {
    node,
    now(document) {
      const shown = parts(document);
      node.hidden = !shown.length;
      if (!shown.length) return;
      const whole = document.waits.states.reduce((sum, state) => sum + state.per_request, 0); // also of parts too small to show
      retitle(node, `Where the ${format.duration(whole)} go`, EXPLANATION);
      if ([...pieces.keys()].join("\n") !== shown.map((part) => part.key).join("\n")) {
        pieces = new Map(shown.map((part) => [part.key, piece(part)]));
        bar.replaceChildren(...[...pieces.values()].map((each) => each.segment));
        list.replaceChildren(...[...pieces.values()].map((each) => each.item));
      }
      const named = destinations(document).join("; ");
      outside.hidden = !named;
      say(outside, named);
      const { stuck: stands = 0, lasting = 0 } = document.waits;
      const [threads, kind] = stands >= LEAST_STUCK ? [stands, "are stuck"] : [lasting, "last"];
      stuck.hidden = stands < LEAST_STUCK && lasting < LEAST_LASTING;
      say(stuck, stuck.hidden ? "" : `${format.mean(threads)} threads hold requests that ${kind}, not counted here`);
      for (const part of shown) pieces.get(part.key).show(part.seconds, part.seconds / whole);
    },
  };
}

/** A segment of the bar, and its item in the list. */
function piece(part) {
  const [drawn, amount, share] = [el("span", {}), el("b", {}), el("span", {})];
  const kinds = ["part", part.label.length <= SHORT && "short", part.hatched && "hatched"];
  const segment = el("div", { class: kinds.filter(Boolean).join(" ") }, el("span", { class: "who" }, part.label), drawn);
  segment.style.setProperty("--swatch", `var(--${part.colour})`);
  segment.style.setProperty("--on-swatch", `var(--on-${part.colour})`);
  const item = el("li", {}, swatch({ ...part, area: true }), `${part.name} `, amount, " ", share);
  const show = (seconds, fraction) => {
    const text = format.duration(seconds);
    segment.style.setProperty("--part", fraction.toFixed(4));
    say(drawn, text);
    say(amount, text);
    say(share, `(${format.percent(fraction)})`);
  };
  return { segment, item, show };
}
