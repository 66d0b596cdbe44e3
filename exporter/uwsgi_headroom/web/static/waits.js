// The states in which requests spend their time, as parts of a whole: in the order of the stack, from the bottom; and the
// bar of the parts of a mean request, with a list that says the same in words.

import { el, mark, panel, say } from "./dom.js";
import * as format from "./format.js";
import { textOf } from "./keys.js";
import { swatch } from "./legend.js";
import { NATURAL } from "./table.js";
import { NAMED_COLOURS, WAITS } from "./words.js";

const LEAST_THREADS = 0.005; // less than this is written as 0
const LEAST_SHARE = 0.0005;
const SHORT = 5; // letters: such a label fits a narrower segment

/** The parts that are not 0 in the whole history, with `values`: their mean threads in each slice, null if unknown. */
export function bands(history) {
  const column = (key) => history.column(`waits.${key}`);
  const anything = column("states.cpu") ?? [];
  const values = ({ key, taken }) => {
    const [whole, columns] = [column(key), taken.map(column)];
    // A backend is unknown before it was named; its threads are then in `backend`.
    return anything.map((known, at) => (known === null ? null : less(whole?.[at] ?? 0, columns.map((each) => each[at]))));
  };
  return slots(history.names("waits.backends."))
    .map((part) => ({ ...part, values: values(part) }))
    .filter((part) => part.values.some((threads) => threads >= LEAST_THREADS));
}

/** The parts of a mean request that are not 0, with `seconds`; none if that is unknown. */
export function parts({ waits }) {
  if (!waits) return [];
  const seconds = new Map(waits.states.map((each) => [`states.${each.state}`, each.per_request]));
  for (const each of waits.backends) seconds.set(`backends.${each.name}`, each.per_request);
  const all = slots(waits.backends.map((each) => each.name))
    .map((part) => ({ ...part, seconds: less(seconds.get(part.key) ?? 0, part.taken.map((key) => seconds.get(key))) }));
  const whole = all.reduce((sum, part) => sum + part.seconds, 0);
  return all.filter((part) => part.seconds > LEAST_SHARE * whole);
}

/** The height of the stack up to and including each band, in each slice. */
export function heights(stack) {
  const sums = [];
  for (const { values } of stack) {
    const below = sums.at(-1);
    sums.push(values.map((threads, at) => (threads === null ? null : threads + (below?.[at] ?? 0))));
  }
  return sums;
}

/** Every part that there may be. Named backends come before what they leave of `backend`; taken: the keys of those. */
function slots(backends) {
  const named = [...backends].sort(NATURAL.compare).map((name, at) => ({
    key: `backends.${name}`,
    name,
    label: name,
    colour: `wait-named-${at % NAMED_COLOURS}`,
    taken: [],
  }));
  return Object.entries(WAITS).flatMap(([state, [name, label]]) => {
    const part = { key: `states.${state}`, name, label, colour: `wait-${state.replaceAll("_", "-")}`, hatched: state === "unknown", taken: [] };
    return state === "backend" ? [...named, { ...part, taken: named.map((each) => each.key) }] : [part];
  });
}

/** What is left of a whole without its parts; rounding makes it no less than 0. */
const less = (whole, taken) => Math.max(0, taken.reduce((left, part) => left - (part ?? 0), whole));

export function requestBar() {
  const bar = el("div", { class: "parts", "aria-hidden": "true" }); // the list says the same
  const list = el("ul", { class: "legend" });
  const outside = el("p", { class: "outside" });
  const stuck = el("p", { class: "hint stuck" });
  const node = panel("", "a mean request in service", bar, list, outside, stuck);
  let pieces = new Map();
  return {
    node,
    now(document) {
      const shown = parts(document);
      node.hidden = !shown.length;
      if (!shown.length) return;
      const whole = document.waits.states.reduce((sum, state) => sum + state.per_request, 0); // also of parts too small to show
      const title = `Where the ${format.whole(shown.map(({ seconds }) => seconds))} go`;
      mark(node, "aria-label", title);
      say(node.querySelector("h2"), title);
      if ([...pieces.keys()].join("\n") !== shown.map((part) => part.key).join("\n")) {
        pieces = new Map(shown.map((part) => [part.key, piece(part)]));
        bar.replaceChildren(...[...pieces.values()].map((each) => each.segment));
        list.replaceChildren(...[...pieces.values()].map((each) => each.item));
      }
      for (const [line, code] of [[outside, "outside"], [stuck, "stuck"]]) {
        say(line, textOf(document, code));
        line.hidden = !line.textContent;
      }
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
