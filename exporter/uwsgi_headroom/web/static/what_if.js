// The panel that predicts other settings of processes and threads. It is fetched when it is opened, and never by itself.

import { el, folding, marked, say, unmarked } from "./dom.js";
import * as format from "./format.js";
import { clock } from "./moments.js";
import { change, grid } from "./what_if_grid.js";
import { LIMITS } from "./words.js";

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
    say(state, `Predicted ${clock(known.time)} from the last ${format.duration(known.seconds)}.`);
  }

  /** Show the panel, which then asks for predictions. */
  function open() {
    node.open = true;
    node.scrollIntoView({ block: "start" });
  }

  addEventListener("pagehide", leave);
  return { node, open, now: (document) => (server = document) };
}

const explain = ({ peak, peak_is_floor: isFloor }) =>
  isFloor
    ? `Each cell has the most requests per second: predicted, and compared with the prediction for the present setting. ${format.rate(peak)} were completed at today's peak, and more was asked for, so times are not known. Click a cell for more.`
    : `Each cell has the most requests per second, and the mean time of a request at today's peak of ${format.rate(peak)}, with the wait in the queue: predicted, and compared with the prediction for the present setting. Click a cell for more.`;

const UNLESS = " This holds only if what the requests wait for serves more of them at once: that is not measured.";

/** Which setting is best, as a sentence. */
function outcome(first, { setting, demands_measured: measured, peak_is_floor: isFloor }) {
  if (isFloor) return "Which setting is best is not known: today's peak was cut off by a full queue, or by busy threads.";
  if (!first) return "No setting that fits into memory serves today's peak.";
  if (first.is_observed) return `No setting is better than ${setting}, the present one, by more than the model's error.`;
  return `Of the settings that fit into memory and serve the highest load here, ${first.setting} is best: it has the shortest time. The present setting is ${setting}.${measured ? "" : UNLESS}`;
}

/** What is known of one setting. */
function details(prediction, known) {
  const { processes, threads, setting, limit, most_throughput: most, memory, fits, memory_sentence: sentence } = prediction;
  const { today, check } = known;
  const room = memory === null ? "Its memory is not known." : `All workers take ${format.bytes(memory)}${fits ? ", which fits" : ""}.`;
  const compared = prediction.is_observed ? "" : ` (${change(most, today.most_throughput)} compared with the present setting)`;
  return [
    el("h3", {}, `${setting}: ${processes} ${processes === 1 ? "process" : "processes"} with ${format.many(threads, "thread")} each, ${processes * threads} in all`),
    figures(prediction, today),
    el("p", {}, `At most ${format.rate(most)}${compared}. First limit: ${LIMITS[limit]}.`),
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

/** The figures of a setting at each load, beside those of the present setting. */
function figures({ loads, is_observed: isNow }, today) {
  const compared = loads.flatMap((at, place) => (isNow ? [[at, ""]] : [[at, ""], [today.loads[place], "now"]]));
  const head = compared.map(([{ load, throughput }, who]) => el("th", { scope: "col", "aria-label": who ? `present setting at ${load}x` : null }, who || `${load}x (${format.rate(throughput)})`));
  const known = ROWS.filter(([, text]) => compared.some(([at]) => text(at) !== format.NOT_KNOWN));
  const row = ([name, text]) => el("tr", {}, el("th", { scope: "row" }, name), ...compared.map(([at, who]) => el("td", { class: who || null }, at.sustained ? text(at) : text(at).replace(format.NOT_KNOWN, "overload"))));
  return el("table", { class: "figures", "aria-label": "Figures at today's peak and above" }, el("thead", {}, el("tr", {}, el("td", {}), ...head)), el("tbody", {}, ...known.map(row)));
}
