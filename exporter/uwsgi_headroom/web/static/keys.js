// The key figures below the headline, each with its name and what it is measured against.

import { el, say } from "./dom.js";
import * as format from "./format.js";

const FIGURES = [
  ["throughput", "Throughput", (it) => format.rate(it.flow?.throughput), (it) => requests(it)],
  ["response_time", "Response time", (it) => format.duration(it.flow?.response_time), () => "mean, in service"],
  ["observed", "Concurrency", (it) => format.mean(it.flow?.observed), (it) => `of ${format.count(it.threads?.available)} threads`],
  ["littles_law", "By Little's law", (it) => format.mean(it.flow?.littles_law), (it) => inFlight(it)],
  ["busy", "Busy now", (it) => format.count(it.threads?.busy), (it) => stuck(it)],
  ["full", "All threads busy", (it) => format.percent(it.occupancy?.full), () => "of the time"],
  ["queue_wait", "Queue wait", (it) => format.duration(it.flow?.queue_wait), () => "before uWSGI sees a request"],
  ["hot_ratio", "Hottest worker", (it) => hot(it.balance), (it) => floor(it.balance)],
];

export class Keys {
  constructor() {
    this.parts = FIGURES.map(([key, name, value, against]) => {
      const [figure, note] = [el("b", { "data-figure": key }), el("small", {})];
      return { node: el("div", {}, el("dt", {}, name), el("dd", {}, figure, note)), figure, note, value, against };
    });
    this.node = el("dl", { class: "keys" }, ...this.parts.map((it) => it.node));
  }

  show(document) {
    for (const { figure, note, value, against } of this.parts) {
      say(figure, value(document));
      say(note, against(document));
    }
  }
}

const requests = (it) => (it.flow ? `${format.count(it.flow.requests)} in ${format.duration(it.window.seconds)}` : "");

const stuck = (it) => (it.threads?.stuck ? `${it.threads.stuck} for over 30 s` : "threads");

function inFlight({ flow }) {
  const { observed = null, littles_law: law = null } = flow ?? {};
  const more = observed !== null && law !== null && observed - law > Math.max(1, 0.1 * observed);
  return more ? "less than seen: long or stuck requests" : "from requests that ended";
}

const hot = (balance) => (balance?.hot_ratio ? `${balance.hot_ratio.toFixed(2)}×` : format.NOT_KNOWN);

function floor(balance) {
  if (!balance?.hot_ratio) return "its share over the even one";
  const chance = balance.noise_floor ? `; chance makes up to ${balance.noise_floor.toFixed(2)}×` : "";
  return `the even share, worker ${balance.hottest}${chance}`;
}
