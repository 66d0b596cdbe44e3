// The requests in the system, by what they do. The first chart over time: those in service are stacked by what they wait for,
// those in the listen queue above them, and the threads are a line: what is above the line waits. And the bar of the parts
// of a mean request, with a list that says the same in words.

import { Lines, swatch } from "./charts.js";
import { el, mark, panel, say } from "./dom.js";
import * as format from "./format.js";
import { textOf, unknowns } from "./keys.js";
import { NATURAL } from "./table.js";
import { NAMED_COLOURS, WAITS } from "./words.js";

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
    .filter((part) => part.values.some((threads) => threads >= LEAST));
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

const THREADS = { column: "threads.available", name: "threads", colour: "ink", width: 2.5, steps: true, distant: true };
const CONFIGURED = { column: "threads.configured", name: "configured", colour: "ink", width: 1.5, dash: true, steps: true, distant: true };
const IN_SERVICE = { key: "in service", name: "in service", colour: "wait-unknown" }; // what they do is not known
const QUEUED = { key: "queued", name: "in the queue", colour: "hot", hatched: true };
const LEAST = 0.005; // requests: fewer are written as 0
const HEIGHT = 300;

/** ranges: the choice of the time that charts show; comparison: `lines(history)` of another time. */
export function load(timeline, ranges, comparison) {
  const chart = new Lines("Load", [], timeline, { format: format.meanThreads, unit: "requests", height: HEIGHT, legend: "quiet" });
  const reason = el("p", { class: "hint" });
  const node = panel("Load", "", chart.node, reason);
  node.title = "requests in the system, by what they do";
  node.firstChild.append(ranges);
  return {
    node,
    now(server) {
      const things = server.waits ? ["waits"] : ["waits", "processes"]; // threads of unknown processes cannot be seen
      say(reason, unknowns(server, ...things).join(" "));
      reason.hidden = !reason.textContent;
    },
    past(history) {
      const threads = history.column(THREADS.column) ?? [];
      const others = history.column(CONFIGURED.column)?.some((count, at) => count !== threads[at]);
      chart.show(history, [...areas(layers(history)), THREADS, ...(others ? [CONFIGURED] : []), ...comparison.lines(history)]);
    },
  };
}

/** What is stacked: each state, the requests in service of which no state is known, and those in the queues. */
function layers(history) {
  const states = history.column("waits.states.cpu") ?? [];
  const observed = history.column("concurrency.observed") ?? [];
  const rest = observed.map((requests, at) => (requests === null || (states[at] ?? null) === null ? requests : 0));
  const queued = inQueues(history);
  const above = [{ ...IN_SERVICE, values: rest }, { ...QUEUED, values: queued }].filter(({ values }) => values.some((requests) => requests >= LEAST));
  return [...bands(history), ...above];
}

/** The requests in all listen queues; null where none is known. */
function inQueues(history) {
  const queues = history.names("sockets.", ".mean_queue").map((name) => history.column(`sockets.${name}.mean_queue`));
  return history.time.map((_, at) => queues.reduce((sum, queue) => ((queue[at] ?? null) === null ? sum : (sum ?? 0) + queue[at]), null));
}

/** All requests in the system; null where those in service are not known. */
export function inSystem(history) {
  const queued = inQueues(history);
  return (history.column("concurrency.observed") ?? []).map((requests, at) => (requests === null ? null : requests + (queued[at] ?? 0)));
}

export const areas = (stack) =>
  stack.map((band) => ({ ...band, column: band.key, area: true, stacked: true, write: (requests) => (requests === null ? "" : format.threads(requests)) }));
