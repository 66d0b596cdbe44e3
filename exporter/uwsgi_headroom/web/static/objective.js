// The service level objective: whether it is met, how fast its error budget burns, and at what load it is missed.

import { el, mark, panel, retitle, say, Tile } from "./dom.js";
import * as format from "./format.js";
import { HOW } from "./percentiles.js";
import { STATUS } from "./words.js";

const WINDOWS = [[300, "5 min"], [3600, "hour"]];
const LEAST_COVERED = 0.9; // share of a window: below, its note says how long it is
/** A share whose number and sign stay in one line. */
const share = (part, digits) => format.finePercent(part, digits).replace(" ", "\u00a0");
const [FAST, SLOW] = [14.4, 6]; // burn rates, as in `analysis/objective.py`
const NEEDED = 100; // requests in a window
const NOT_JUDGED = `${STATUS.unknown[0]} NOT JUDGED`;
const LEVELS = {
  fast: ["critical", `The error budget burns fast: at least ${FAST} times as fast as the objective permits, in both windows.`],
  slow: ["warning", `The error budget burns: at least ${SLOW} times as fast as the objective permits, in both windows.`],
};

/** The objective in words: `99 % of requests within 1 s`. */
export const goal = ({ threshold, objective }) => `${share(objective, 5)} of requests within ${format.chosen(threshold)}`;

/** The state of a document's objective: its severity, a sign with a word, and a sentence. Where something is wrong, an
 * objective that is missed now is a part of it: a budget that burns fast is critical, also in windows that are not full. */
export function judge({ objective, status }) {
  const { level, unjudged } = objective;
  if (unjudged) return ["unknown", NOT_JUDGED, sentence(unjudged.replace(/^not judged: /, ""))];
  const burns = windows(objective);
  const few = burns.filter(([, burn]) => burn.rate === null);
  if (few.length || burns.length < WINDOWS.length) {
    const why = few.map(([name, burn]) => `${format.count(burn.requests)} in the last ${name}`).join(", ");
    return ["unknown", NOT_JUDGED, `Too few requests${why && `: ${why}`}; ${NEEDED} are needed in each window.`];
  }
  const over = burns.filter(([, burn]) => burn.rate > 1).map(([name]) => `the last ${name}`);
  if (!level && !over.length) return ["ok", STATUS.ok.join(" "), "The objective is met in both windows."];
  const now = status === "ok" ? 0 : burns[0][1].rate;
  const severity = now >= FAST ? "critical" : level ? LEVELS[level][0] : now > 1 ? "warning" : "info";
  return [severity, STATUS[severity].join(" "), level ? LEVELS[level][1] : `More requests were bad than the objective permits in ${over.join(" and in ")}.`];
}

/** At what load the 95th percentile crosses the threshold; empty if the last hour does not show it. */
export function loadLimit({ threshold, unjudged, load_multiple: multiple, load_multiple_reached: reached }) {
  if (unjudged || multiple === null) return "";
  const [time, load] = [format.chosen(threshold), format.factor(multiple)];
  return reached ? `p95 reaches ${time} at ${load} today's load` : `p95 stays under ${time} up to ${load} today's load (the most seen in the last hour)`;
}

/** The objective of a document as one line of text; empty if there is none. */
export function line(document) {
  const { objective: known } = document;
  if (!known) return "";
  const [, state, text] = judge(document);
  const rates = known.unjudged ? [] : windows(known).filter(([, burn]) => burn.rate !== null).map(([name, burn]) => `${format.mean(burn.rate)} in the last ${name}`);
  const sentences = [text, rates.length && `Burn rate ${rates.join(", ")}.`, loadLimit(known) && `${loadLimit(known)}.`];
  return `Objective ${goal(known)}: ${[`${state.replace(/^\S+ /, "")}.`, ...sentences].filter(Boolean).join(" ")}`;
}

/** The windows with their names: [name, burn]. Without requests for a while, there is only the longer one. */
const windows = ({ windows: burns }) => burns.map((burn, at) => [WINDOWS.at(at - burns.length)[1], burn]);

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

export function objective() {
  const chip = el("span", { class: "chip" });
  const words = el("span", {});
  const burns = WINDOWS.map(([, name]) => new Tile(`Burn rate, last ${name}`, `burn_${name}`.replace(/\W/g, "_"), "share of bad requests, divided by the share that the objective permits; at 1, the error budget of a month lasts a month"));
  const load = new Tile("Load until missed", "objective_load", "from the load and the response times of the last hour");
  const node = panel("", "", el("p", { class: "judged" }, chip, " ", words), el("dl", { class: "keys few" }, ...[...burns, load].map((tile) => tile.node)));
  node.classList.add("wide");
  node.hidden = true;
  return {
    node,
    now(document) {
      const { objective: known, state: now } = document;
      node.hidden = !known || now === "down"; // what was met then says nothing of now
      if (node.hidden) return;
      const [severity, state, text] = judge(document);
      retitle(node, `Objective: ${goal(known)}`, `at most ${share(1 - known.objective, 3)} of requests may be slower, or lost with their worker; ${HOW}`);
      mark(node, "data-severity", severity);
      say(chip, state);
      say(words, text);
      const shown = windows(known);
      burns.forEach((tile, at) => {
        tile.show(...burning(known, shown.at(at - burns.length)?.[1], WINDOWS[at][0]));
        tile.warn(severity in { warning: 1, critical: 1 } ? severity : null);
      });
      const limit = loadLimit(known);
      load.show(limit ? `${known.load_multiple_reached ? "" : ">"}${format.factor(known.load_multiple)}` : format.NOT_KNOWN, limit || (known.unjudged ? "not judged" : "the last hour does not show it"));
    },
  };
}

/** The burn rate of a window, and what it consists of. */
function burning(known, burn, asked) {
  if (!burn) return [format.NOT_KNOWN, "no requests"];
  const part = burn.seconds < LEAST_COVERED * asked ? `${format.duration(burn.seconds)} so far: ` : "";
  if (burn.rate === null) return [format.NOT_KNOWN, `${part}${format.count(burn.requests)} requests, ${NEEDED} are needed`];
  if (known.unjudged) return [format.NOT_KNOWN, "not judged"];
  const named = ["slow", "waited", "lost", "refused"].filter((reason) => burn[reason] >= 0.5).map((reason) => `${format.count(burn[reason])} ${reason}`);
  const bad = `${share(burn.share)} bad${named.length ? `: ${named.join(", ")}` : ""}`;
  return [format.mean(burn.rate), `${part}${bad} of ${format.count(burn.requests)}`];
}
