// The states in which requests spend their time, as parts of a whole: in the order of the stack, from the bottom.

import * as format from "./format.js";
import { NATURAL } from "./table.js";
import { NAMED_COLOURS, WAITS } from "./words.js";

const LEAST_THREADS = 0.005; // less than this is written as 0
const LEAST_SHARE = 0.0005;
const MOST_DESTINATIONS = 3; // more of one state are one sum

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

/** What a mean request waits for outside of the server, state by state, as `top` writes it; none if that is unknown. */
export const destinations = ({ waits }) =>
  ["backend", "dns"].map((state) => outside(state, (waits?.destinations ?? []).filter((each) => each.state === state))).filter(Boolean);

function outside(state, found) {
  const sum = (some) => some.reduce((total, each) => total + each.per_request, 0);
  const shown = found.filter((each) => each.per_request > LEAST_SHARE * sum(found));
  if (!shown.some(called)) return "";
  const named = shown.slice(0, MOST_DESTINATIONS).map((each) => `${called(each) || "not known"} ${format.duration(each.per_request)}`);
  const rest = shown.slice(MOST_DESTINATIONS);
  if (rest.length) named.push(`others ${format.duration(sum(rest))}`);
  return `${WAITS[state][1]} ${format.duration(sum(found))}: ${(shown.length === 1 && called(shown[0])) || named.join(", ")}`;
}

/** The name and the address of a destination; of a name server, the address. */
function called({ state, name, address }) {
  if (state === "dns") return address || name;
  return name && address ? `${name} at ${address}` : name || address;
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

/** A sentence that says why it is unknown what requests wait for, and what to grant; empty if it is known. */
export function missing({ waits, unknown }) {
  const why = (what) => unknown.filter((entry) => entry.what === what).map((entry) => entry.why);
  const reasons = why("waits");
  if (!waits && !reasons.length) reasons.push(...why("processes")); // threads of unknown processes cannot be seen
  if (!reasons.length) return "";
  return `${waits ? "Some of the time is unknown" : "Not known what requests wait for"}: ${reasons.join("; ")}.`;
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
