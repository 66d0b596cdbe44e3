// Percentiles of response times in words, never more exact than samples are; and their chart over time.

import { Lines } from "./charts.js";
import { panel } from "./dom.js";
import * as format from "./format.js";

/** The percentiles that are shown, as shares of the requests that are not slower. */
export const SHARES = [0.5, 0.9, 0.95, 0.99];

export const HOW = "inside uWSGI, without the wait in the listen queue, estimated from samples";

const COLOURS = { 0.5: "green", 0.9: "blue", 0.95: "orange", 0.99: "vermillion" };

/** `p95` for 0.95. */
export const name = (share) => `p${Math.round(share * 100)}`;

const needed = (share) => Math.round(1 / (1 - share));

const find = ({ response_times: known }, share) => known?.percentiles.find((each) => each.share === share) ?? null;

const under = (seconds) => `under ${format.duration(seconds)}`;

/** A percentile of a document: an estimate, or the time below which it is, or a dash. Beside a lower percentile that is
 * only known to be below a bound, a higher one has no estimate below that bound, but its range. */
export function figure(server, share) {
  const known = find(server, share);
  if (!known) return format.NOT_KNOWN;
  if (known.seconds === null) return under(known.under);
  const lower = SHARES.filter((each) => each < share).map((each) => find(server, each));
  if (lower.some((each) => each?.seconds === null && known.seconds < each.under)) return interval(server, share);
  return format.duration(known.seconds);
}

/** The interval that contains the percentile in 19 of 20 cases, or why there is no percentile. */
export function interval(server, share) {
  const known = find(server, share);
  if (!known) return tooFew(server) ? `needs ${needed(share)} requests` : "not known";
  const { low, high, under: least } = known;
  if (high === null) return `${format.duration(low)} or more`; // above the last bin
  if (least !== null && high <= least) return "too short for samples";
  return low ? range(low, high) : `at most ${format.duration(high)}`;
}

/** Whether percentiles are missing for lack of requests, and not because uWSGI does not show its threads. */
const tooFew = ({ response_times: known, flow, threads }) => known !== null || (flow?.requests === 0 && threads?.configured !== null);

/** The percentiles of a document as one line of text; empty if none is known. */
export function line(server) {
  const write = (...parts) => (parts[0] === parts[1] ? parts[0] : `${parts[0]} (${parts[1]})`);
  const known = SHARES.filter((share) => find(server, share)).map((share) => `${name(share)} ${write(figure(server, share), interval(server, share))}`);
  return known.length ? `Response times ${HOW}: ${known.join(", ")}` : "";
}

/** `210 to 240 ms`: a unit that both have is written once. */
function range(low, high) {
  const [from, to] = [low, high].map(format.duration);
  const [number, unit, ...more] = from.split(" ");
  return `${!more.length && to.endsWith(` ${unit}`) ? number : from} to ${to}`;
}

/** The percentiles over time, with the mean, the least that samples show, and the threshold of an objective. */
export function percentiles(timeline) {
  let history = null;
  const at = (column, place) => history.column(`response_times.${column}`)?.[place] ?? null;
  const write = (share) => (seconds, place) => {
    if (seconds !== null) return format.duration(seconds);
    const enough = at("requests", place) * (1 - share) > 1 - 1e-9;
    return enough ? under(at("finest", place)) : "";
  };
  const lines = [
    ...SHARES.map((share) => ({ column: `response_times.${share}`, name: name(share), colour: COLOURS[share], write: write(share) })),
    { column: "response_time", name: "mean", colour: "ink", width: 1.5, dash: true },
    { column: "response_times.finest", name: "samples show nothing below", colour: "off", area: true, hatched: true },
  ];
  const log = { from: 0.1, to: 1, lowest: 0.001, highest: 1000 };
  const chart = new Lines("Response time percentiles", lines, timeline, { format: format.duration, log, legend: "even" });
  return {
    node: panel("Response time percentiles", `${HOW}, over at least 30 s each; the mean is exact`, chart.node),
    past(shown, { objective }) {
      history = shown;
      chart.show(history, null, objective && { value: objective.threshold, name: `objective: within ${format.chosen(objective.threshold)}` });
    },
  };
}
