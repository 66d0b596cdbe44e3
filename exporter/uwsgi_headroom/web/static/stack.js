// The first chart: the requests in the system, by what they do. Those in service are stacked by what they wait for, those in
// the listen queue above them, and the threads are a line: what is above the line waits.

import { Lines } from "./charts.js";
import { el, panel, say } from "./dom.js";
import * as format from "./format.js";
import { unknowns } from "./keys.js";
import { bands } from "./waits.js";

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
  const queues = history.names("sockets.").filter((name) => name.endsWith(".mean_queue")).map((name) => history.column(`sockets.${name}`));
  return history.time.map((_, at) => queues.reduce((sum, queue) => ((queue[at] ?? null) === null ? sum : (sum ?? 0) + queue[at]), null));
}

/** All requests in the system; null where those in service are not known. */
export function inSystem(history) {
  const queued = inQueues(history);
  return (history.column("concurrency.observed") ?? []).map((requests, at) => (requests === null ? null : requests + (queued[at] ?? 0)));
}

/** The lines that draw a stack. */
export const areas = (stack) =>
  stack.map((band) => ({ ...band, column: band.key, area: true, stacked: true, write: (requests) => (requests === null ? "" : format.threads(requests)) }));
