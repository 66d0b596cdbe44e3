// The panel that predicts other settings of processes and threads, as a table whose cells can be chosen; and which of them is
// best. It is fetched when it is opened, and never by itself.

import { el, folding, mark, marked, say, unmarked } from "./dom.js";
import * as format from "./format.js";
import { LIMITS, STATUS } from "./words.js";

const LONGEST_MS = 60000;
const FRESH_MS = 60000; // the exporter predicts once a minute
const EXPLANATION = "what other numbers of processes and threads would do, predicted from what was observed";

export function whatIf() {
  const state = el("p", { class: "hint", role: "status" });
  const again = el("button", { type: "button", hidden: true, click: ask }, "Predict again");
  const shown = el("div", { class: "prediction" });
  const node = folding("What if", EXPLANATION, shown, el("p", { class: "controls" }, again, state));
  node.open = false;
  node.addEventListener("toggle", turn);
  let server = null;
  let request = null;
  let askedAt = -Infinity;

  function turn() {
    if (!node.open) leave();
    else if (performance.now() - askedAt > FRESH_MS) ask();
  }

  function leave() {
    request?.abort();
    request = null;
  }

  async function ask() {
    leave();
    const mine = (request = new AbortController());
    const timer = setTimeout(() => mine.abort(), LONGEST_MS);
    again.hidden = true;
    say(state, "Predicting …");
    try {
      const answer = await fetch(`${server.path}/what-if`, { signal: mine.signal });
      const known = await answer.json();
      if (request !== mine) return;
      if (answer.ok && !known.refusal) {
        askedAt = performance.now();
        show(known);
      } else refuse(known.refusal ?? `The exporter cannot predict: ${known.error ?? `status ${answer.status}`}`);
    } catch {
      if (request === mine) refuse(mine.signal.aborted ? "The exporter has not answered in time." : "The exporter does not answer.");
    } finally {
      clearTimeout(timer);
      if (request === mine) [request, again.hidden] = [null, false];
    }
  }

  function refuse(sentence) {
    shown.replaceChildren();
    say(state, unmarked(/[.?!]$/.test(sentence) ? sentence : `${sentence}.`));
  }

  function show(known) {
    const detail = el("section", { class: "detail", "aria-live": "polite" });
    const table = grid(known, (prediction) => detail.replaceChildren(...details(prediction, known)));
    shown.replaceChildren(
      el("p", { class: "hint" }, explain(known)),
      el("div", { class: "beside" }, el("div", {}, table.node, el("p", { class: "hint" }, outcome(table.best, known))), detail),
      ...known.cautions.map((caution) => el("p", { class: "hint" }, ...marked(caution))),
    );
    table.choose(table.best ?? known.predictions[0]);
    say(state, `Predicted ${format.clock(known.time)} from the last ${format.duration(known.seconds)}.`);
  }

  function open() {
    node.open = true;
    node.scrollIntoView({ block: "start" });
  }

  addEventListener("pagehide", leave);
  return { node, open, now: (document) => (server = document) };
}

const explain = ({ peak, peak_is_floor: isFloor }) =>
  isFloor
    ? `Each cell has the most requests per second: predicted, and compared with the prediction for the present setting. ` +
      `${format.rate(peak)} were completed at today's peak, and more was asked for, so times are not known. Click a cell for more.`
    : `Each cell has the most requests per second, and the mean time of a request at today's peak of ${format.rate(peak)}, ` +
      `with the wait in the queue: predicted, and compared with the prediction for the present setting. Click a cell for more.`;

const UNLESS = " This holds only if what the requests wait for serves more of them at once: that is not measured.";

function outcome(first, { setting, demands_measured: measured, peak_is_floor: isFloor }) {
  if (isFloor) return "Which setting is best is not known: today's peak was cut off by a full queue, or by busy threads.";
  if (!first) return "No setting that fits into memory serves today's peak.";
  if (first.is_observed) return `No setting is better than ${setting}, the present one, by more than the model's error.`;
  return `Of the settings that fit into memory and serve the highest load here, ${first.setting} is best: it has the shortest time. ` +
    `The present setting is ${setting}.${measured ? "" : UNLESS}`;
}

function details(prediction, known) {
  const { processes, threads, setting, limit, most_throughput: most, memory, fits, memory_sentence: sentence } = prediction;
  const { today, check } = known;
  const room = memory === null ? "Its memory is not known." : `All workers take ${format.bytes(memory)}${fits ? ", which fits" : ""}.`;
  const compared = prediction.is_observed ? "" : ` (${change(most, today.most_throughput)} compared with the present setting)`;
  return [
    el("h3", {}, `${setting}: ${processes} ${processes === 1 ? "process" : "processes"} with ${format.many(threads, "thread")} each, ${processes * threads} in all`),
    figures(prediction, today),
    el("p", {}, `At most ${format.rate(most)}${compared}. First limit: ${LIMITS[limit][0]}.`),
    el("p", {}, ...marked(sentence ?? room)),
    el("p", { class: "error" }, el("b", {}, "Error of the model: "), ...marked(check.sentence)),
  ];
}

const ROWS = [
  ["Mean time, with the queue", ({ total_time: time }) => format.duration(time)],
  ["Mean wait in the queue", ({ queue_wait: wait }) => format.duration(wait)],
  ["Threads in use", ({ threads }) => format.percent(threads)],
  ["Interpreter locks (GIL) held", ({ interpreters }) => format.percent(interpreters)],
  ["CPUs in use", ({ cpu }) => format.percent(cpu)],
];

function figures({ loads, is_observed: isNow }, today) {
  const compared = loads.flatMap((at, place) => (isNow ? [[at, ""]] : [[at, ""], [today.loads[place], "now"]]));
  const head = compared.map(([{ load, throughput }, who]) =>
    el("th", { scope: "col", "aria-label": who ? `present setting at ${load}x` : null }, who || `${load}x (${format.rate(throughput)})`));
  const known = ROWS.filter(([, text]) => compared.some(([at]) => text(at) !== format.NOT_KNOWN));
  const row = ([name, text]) => el("tr", {}, el("th", { scope: "row" }, name),
    ...compared.map(([at, who]) => el("td", { class: who || null }, at.sustained ? text(at) : text(at).replace(format.NOT_KNOWN, "overload"))));
  return el("table", { class: "figures", "aria-label": "Figures at today's peak and above" },
    el("thead", {}, el("tr", {}, el("td", {}), ...head)), el("tbody", {}, ...known.map(row)));
}

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
    el("tr", {}, el("th", { scope: "row" }, String(processes), " ", el("span", {}, processes === 1 ? "process" : "processes")),
      ...columns.map((threads) => cell(processes, threads))),
  );
  const table = el("table", { class: "settings", "aria-label": "Predictions by processes and threads per process" },
    el("thead", {}, head), el("tbody", {}, ...body));
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
