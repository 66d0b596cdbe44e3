// The first chart over time: the load by what requests wait for, or only the concurrency where that is not known.

import { Lines } from "./charts.js";
import { el, panel, retitle, say } from "./dom.js";
import * as format from "./format.js";
import { bands, heights, known, missing } from "./waits.js";

const THREADS = [
  { column: "threads.available", name: "threads available", colour: "green", width: 3, steps: true },
  { column: "threads.configured", name: "configured", colour: "ink", width: 1.5, dash: true, steps: true },
];
const CONCURRENCY = [
  { column: "concurrency.observed", name: "observed", colour: "blue" },
  { column: "concurrency.littles_law", name: "by Little's law", colour: "orange", width: 1.5 },
  ...THREADS,
];
// Above the areas.
const OVER = [
  { column: "concurrency.observed", name: "observed concurrency", colour: "ink", width: 1.5 },
  ...THREADS.map((line) => ({ ...line, distant: true })),
];
const BY_LIMIT = ["Concurrency", "mean requests in service, against threads"];
const BY_STATE = ["Load by wait state", "mean threads with a request in service, by what they wait for, against all threads"];
const HEIGHT = 240;

export function load(timeline) {
  const chart = new Lines(BY_LIMIT[0], CONCURRENCY, timeline, { format: format.mean, unit: "threads", height: HEIGHT });
  const reason = el("p", { class: "hint" });
  const node = panel(...BY_LIMIT, chart.node, reason);
  node.classList.add("wide");
  return {
    node,
    now(server) {
      say(reason, missing(server));
      reason.hidden = !reason.textContent;
    },
    past(history, { waits }) {
      const stack = bands(history);
      // A server without requests has no bands, also if the exporter may not see the threads of requests.
      const byState = stack.length > 0 || (waits !== null && known(history));
      const title = byState ? BY_STATE : BY_LIMIT;
      retitle(node, ...title);
      chart.name = title[0];
      chart.show(history, byState ? [...areas(stack), ...OVER] : CONCURRENCY);
    },
  };
}

/** The lines that draw a stack. */
export function areas(stack) {
  const tops = heights(stack);
  const whole = tops.at(-1);
  const share = (threads, at) => `${format.threads(threads)} (${format.percent(whole[at] ? threads / whole[at] : 0)})`;
  return stack.map((band, place) => ({
    ...band,
    column: band.key,
    drawn: tops[place],
    area: true,
    write: (threads, at) => (threads === null ? format.NOT_KNOWN : share(threads, at)),
  }));
}
