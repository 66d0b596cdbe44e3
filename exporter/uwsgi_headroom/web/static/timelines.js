// The charts over time below the first, and the columns of the history that they draw.

import { Lines } from "./charts.js";
import { panel } from "./dom.js";
import * as format from "./format.js";
import { LIMIT_COLOURS, LIMITS } from "./words.js";

const HOW = "inside uWSGI, without the wait in the listen queue, estimated from samples";
const SHARES = { 0.5: "green", 0.9: "blue", 0.95: "orange", 0.99: "vermillion" }; // of the requests that are not slower
const CYCLE = ["blue", "orange", "green", "purple", "sky", "vermillion"];

/** The factor by which load can grow, for each limit. */
export const headroom = (timeline) =>
  fixed(
    timeline,
    "Headroom by limit",
    "headroom over time, per limit; at 1x the limit is reached",
    { format: format.factor, log: { from: 0.5, to: 10, lowest: 0.01, highest: 1000 }, limit: { value: 1, name: "1x: limit reached" } },
    Object.entries(LIMITS).filter(([limit]) => limit !== "other").map(([limit, name]) => ({
      column: `headroom.${limit}`,
      name,
      colour: LIMIT_COLOURS[limit],
      dash: limit === "interpreters" || limit === "cpu",
    })),
  );

export const throughput = (timeline) =>
  fixed(timeline, "Throughput", "requests completed per second", { format: format.rate }, [
    { column: "throughput", name: "completed", colour: "blue" },
  ]);

/** The requests in service, counted in two ways, against the threads. */
export const concurrency = (timeline) =>
  fixed(timeline, "Concurrency", "mean requests in service, against threads", { format: format.mean }, [
    { column: "concurrency.observed", name: "observed", colour: "blue" },
    { column: "concurrency.littles_law", name: "by Little's law", colour: "orange", width: 1.5 },
    { column: "threads.available", name: "threads available", colour: "green", width: 3, steps: true },
    { column: "threads.configured", name: "configured", colour: "ink", width: 1.5, dash: true, steps: true },
  ]);

/** The time that a client waits: in the queue, then in service. */
export const times = (timeline) =>
  fixed(timeline, "Response time", "mean per request", { format: format.duration }, [
    { column: "response_time", name: "in service", colour: "blue" },
    { column: "queue_wait", name: "in the listen queue", colour: "orange", dash: true },
  ]);

/** The percentiles over time, with the mean, the least that samples show, and the threshold of an objective. */
export function percentiles(timeline) {
  let history = null;
  const at = (column, place) => history.column(`response_times.${column}`)?.[place] ?? null;
  const write = (share) => (seconds, place) => {
    if (seconds !== null) return format.duration(seconds);
    const enough = at("requests", place) * (1 - share) > 1 - 1e-9;
    return enough ? `under ${format.duration(at("finest", place))}` : "";
  };
  const lines = [
    ...Object.entries(SHARES).map(([share, colour]) => ({ column: `response_times.${share}`, name: `p${Math.round(share * 100)}`, colour, write: write(share) })),
    { column: "response_time", name: "mean", colour: "ink", width: 1.5, dash: true },
    { column: "response_times.finest", name: "samples show nothing below", colour: "off", area: true, hatched: true },
  ];
  const log = { from: 0.1, to: 1, lowest: 0.001, highest: 1000 };
  const chart = new Lines("Response time percentiles", lines, timeline, { format: format.duration, log, legend: "even" });
  return {
    node: panel("Response time percentiles", `${HOW}, over at least 30 s each; the mean is exact`, chart.node),
    past(shown, { objective }) {
      history = shown;
      chart.show(history, undefined, objective && { value: objective.threshold, name: `objective: within ${format.chosen(objective.threshold)}` });
    },
  };
}

/** A line for each listen queue that can be measured. */
export function queues(timeline) {
  const chart = new Lines("Listen queues", [], timeline, { format: format.mean, least: 1 });
  const lines = (sockets) =>
    sockets.slice(0, CYCLE.length).map((socket, at) => ({
      column: `sockets.${socket.name}.mean_queue`,
      name: socket.name,
      colour: CYCLE[at],
      dash: at > 2,
    }));
  return {
    node: panel("Listen queues", "connections waiting to be accepted", chart.node),
    past(history, { sockets }) {
      // A socket that can no longer be measured, or is no longer there, still has a past.
      const known = (socket) => history.column(`sockets.${socket.name}.mean_queue`)?.some((mean) => mean !== null);
      const gone = history
        .names("sockets.")
        .filter((name) => name.endsWith(".mean_queue"))
        .map((name) => ({ name: name.replace(/\.mean_queue$/, "") }))
        .filter(({ name }) => !sockets.some((socket) => socket.name === name));
      const measured = [...sockets, ...gone].filter((socket) => socket.measurable || known(socket));
      chart.show(history, lines(measured), smallest(measured));
    },
  };
}

/** The smallest limit of the sockets: the first to be reached. */
function smallest(sockets) {
  const limits = sockets.map((socket) => socket.limit).filter((limit) => limit > 0);
  const least = Math.min(...limits);
  return limits.length ? { value: least, name: `${limits.length > 1 ? "smallest " : ""}limit ${least}: more are refused` } : null;
}

function fixed(timeline, title, explanation, { limit = null, ...options }, lines) {
  const chart = new Lines(title, lines, timeline, options);
  return { node: panel(title, explanation, chart.node), past: (history) => chart.show(history, undefined, limit) };
}
