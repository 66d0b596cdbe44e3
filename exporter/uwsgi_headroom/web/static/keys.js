// The key figures below the headline, each with its name and what it is measured against.

import { el, say } from "./dom.js";
import * as format from "./format.js";

const FIGURES = [
  ["throughput", "Throughput", (server) => format.rate(server.flow?.throughput), (server) => requests(server)],
  ["response_time", "Response time", (server) => format.duration(server.flow?.response_time), () => "mean, in service"],
  ["observed", "Concurrency", (server) => format.mean(server.flow?.observed), (server) => `of ${format.count(server.threads?.available)} threads`],
  ["littles_law", "By Little's law", (server) => format.mean(server.flow?.littles_law), (server) => inFlight(server)],
  ["busy", "Busy now", (server) => format.count(server.threads?.busy), (server) => stuck(server)],
  ["full", "All threads busy", (server) => format.percent(server.occupancy?.full), () => "of the time"],
  ["queue_wait", "Queue wait", (server) => format.duration(server.flow?.queue_wait), () => "before uWSGI sees a request"],
  ["hot_ratio", "Hottest worker", (server) => hot(server.balance), (server) => floor(server.balance)],
];

export class Keys {
  constructor() {
    this.parts = FIGURES.map(([key, name, value, against]) => {
      const [figure, note] = [el("b", { "data-figure": key }), el("small", {})];
      return { node: el("div", {}, el("dt", {}, name), el("dd", {}, figure, note)), figure, note, value, against };
    });
    this.node = el("dl", { class: "keys" }, ...this.parts.map((part) => part.node));
  }

  show(document) {
    for (const { figure, note, value, against } of this.parts) {
      say(figure, value(document));
      say(note, against(document));
    }
  }
}

const requests = (server) => (server.flow ? `${format.count(server.flow.requests)} in ${format.duration(server.window.seconds)}` : "");

const stuck = (server) => (server.threads?.stuck ? `${server.threads.stuck} for over 30 s` : "threads");

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
