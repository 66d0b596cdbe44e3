// A table of predictions, processes by threads, whose cells can be chosen; and which of them is best.

import { el, mark } from "./dom.js";
import * as format from "./format.js";
import { STATUS } from "./words.js";

const ALIKE = 0.02; // of the shortest time: these settings differ by chance
const LEAST_CHANGE = 0.005;
const LEAST_ERROR = 0.05; // no model is closer to what will be

/** The largest error of the model of the present setting, as a part; null if no error is known. */
export function largestError({ response_time_error: mean, throughput_error: most }) {
  const known = [mean, most].filter((error) => error !== null).map(Math.abs);
  return known.length ? Math.max(...known) : null;
}

/**
 * The best setting: of those that fit into memory and serve the highest load that any of these serves, the one with the
 * shortest time, and of those alike the smallest. The present one, unless another is better by more than the error.
 * None if more was offered than was served: times under that load are not known.
 */
export function best({ predictions, check, peak_is_floor: isFloor }) {
  if (isFloor) return null;
  const able = predictions.filter(({ fits }) => fits !== false);
  const loads = able[0]?.loads.length ?? 0;
  for (let at = loads - 1; at >= 0; at -= 1) {
    const serving = able.filter(({ loads }) => loads[at].sustained);
    if (!serving.length) continue;
    const time = ({ loads }) => loads[at].total_time;
    const least = Math.min(...serving.map(time));
    const present = serving.find((prediction) => prediction.is_observed);
    if (present && time(present) <= least * (1 + Math.max(LEAST_ERROR, largestError(check) ?? 0))) return present;
    const alike = serving.filter((prediction) => time(prediction) <= least * (1 + ALIKE));
    return alike.reduce((one, other) => (other.processes * other.threads < one.processes * one.threads ? other : one));
  }
  return null;
}

/** A figure compared with another: `+12 %`. */
export function change(value, now) {
  const part = value / now - 1;
  return `${Math.abs(part) < LEAST_CHANGE ? "±" : part > 0 ? "+" : "−"}${Math.round(100 * Math.abs(part))}\u00a0%`;
}

/** What stands out about a setting: [class, sign, words]. */
export function marks(prediction, isBest) {
  const [atPeak, all] = [prediction.loads[0].sustained, prediction.loads.every(({ sustained }) => sustained)];
  return [
    prediction.is_observed && ["now", "●", "now"],
    isBest && ["best", "★", "best"],
    prediction.fits === false && ["full", STATUS.critical[0], "memory"],
    !atPeak && ["over", STATUS.critical[0], "below peak"],
    atPeak && !all && ["near", STATUS.warning[0], "below 1.5x"],
  ].filter(Boolean);
}

/** A table of the predictions of a document. chosen: called with the prediction of a cell that is clicked. */
export function grid(known, chosen) {
  const rows = numbers(known, "processes");
  const columns = numbers(known, "threads");
  const first = best(known);
  const buttons = new Map();
  const cell = (processes, threads) => {
    const prediction = known.predictions.find((each) => each.processes === processes && each.threads === threads);
    if (!prediction) return el("td", {}, format.NOT_KNOWN);
    const button = one(prediction, known.today, marks(prediction, prediction === first), () => choose(prediction));
    buttons.set(prediction, button);
    return el("td", {}, button);
  };
  const head = el("tr", {}, el("td", {}), ...columns.map((threads) => el("th", { scope: "col" }, format.many(threads, "thread"))));
  const body = rows.map((processes) =>
    el("tr", {}, el("th", { scope: "row" }, String(processes), " ", el("span", {}, processes === 1 ? "process" : "processes")), ...columns.map((threads) => cell(processes, threads))),
  );
  const table = el("table", { class: "settings", "aria-label": "Predictions by processes and threads per process" }, el("thead", {}, head), el("tbody", {}, ...body));
  function choose(prediction) {
    for (const [each, button] of buttons) mark(button, "aria-pressed", each === prediction);
    chosen(prediction);
  }
  return { node: table, choose, best: first };
}

const numbers = ({ predictions }, key) => [...new Set(predictions.map((prediction) => prediction[key]))].sort((one, other) => one - other);

function one(prediction, today, signs, click) {
  const { most_throughput: most, loads: [peak], setting, is_observed: isNow } = prediction;
  const compared = (value, now) => (isNow || value === null || now === null ? "" : change(value, now));
  const known = format.duration(peak.total_time).replace(format.NOT_KNOWN, "time not known");
  const throughput = [format.rate(most), compared(most, today.most_throughput)];
  const time = [peak.sustained ? known : "overloaded", compared(peak.total_time, today.loads[0].total_time)];
  const [first, second] = [throughput, time].map((parts) => parts.filter(Boolean).join(", "));
  const words = [`${setting}: at most ${first}`, `${second} at today's peak`, ...signs.map(([, , text]) => text)].join("; ");
  return el(
    "button",
    { type: "button", "aria-pressed": "false", "aria-label": words, class: signs.map(([name]) => name).join(" ") || null, click },
    el("span", {}, el("b", {}, throughput[0]), " ", el("small", {}, throughput[1])),
    el("span", {}, time[0], " ", el("small", {}, time[1])),
    signs.length ? el("span", { class: "signs" }, signs.map(([, sign, text]) => `${sign}\u00a0${text}`).join(" ")) : null,
  );
}
