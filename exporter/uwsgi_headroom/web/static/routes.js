// The routes that hold the busy threads: a table, and a stack over time. How many requests a route has is not known.

import { Lines } from "./charts.js";
import { panel } from "./dom.js";
import * as format from "./format.js";
import { areas } from "./stack.js";
import { Table } from "./table.js";

const MOST_BANDS = 8; // more are too thin to see
const LEAST_THREADS = 0.005; // less than this is written as 0
const COLOURS = ["wait-backend", "wait-cpu-wait", "wait-named-0", "wait-cpu", "wait-disk", "wait-client", "wait-lock", "wait-child"];
const REST = { key: "rest", colour: "wait-other" };
const UNKNOWN = "the share of the requests is not known";
const HEIGHT = 240;

/** The newest figures of each route. */
export function table() {
  const figures = new Table("Routes", COLUMNS, { key: (route) => route.route, by: 1, down: true, remembered: "routes", none: "No thread was busy." });
  const node = panel("Busy threads by route", `mean over the window, and requests in service now; ${UNKNOWN}`, figures.node);
  node.classList.add("low");
  node.hidden = true;
  return {
    node,
    apart: true,
    now({ routes }) {
      node.hidden = !routes;
      if (routes) figures.show(routes);
    },
  };
}

const COLUMNS = [
  { head: "Route", left: true, wraps: true, value: (route) => route.route, text: (route) => route.route },
  { head: "Busy threads", title: "mean over the window", value: (route) => route.threads, text: (route) => format.threads(route.threads) },
  { head: "Share", title: "of all busy threads", value: (route) => route.share, text: (route) => format.percent(route.share), part: (route) => route.share },
  { head: "In service", title: "requests now", value: (route) => route.in_service, text: (route) => format.count(route.in_service) },
  { head: "Oldest", title: "age of the oldest request in service", value: (route) => route.oldest_seconds, text: (route) => format.duration(route.oldest_seconds) },
];

/** The busy threads of each route over time. */
export function overTime(timeline) {
  const chart = new Lines("Busy threads by route over time", [], timeline, { format: format.mean, unit: "threads", height: HEIGHT });
  const node = panel("Busy threads by route over time", `mean threads; ${UNKNOWN}`, chart.node);
  node.classList.add("wide");
  node.hidden = true;
  return {
    node,
    past(history, { routes }) {
      const stack = bands(history);
      node.hidden = !routes && !stack.length;
      if (!node.hidden) chart.show(history, areas(stack));
    },
  };
}

/** The routes with the most busy threads in the whole history, most first, and all others together. */
export function bands(history) {
  const columns = history.names("routes.").map((name) => ({ name, values: history.column(`routes.${name}`) }));
  const known = history.time.map((_, at) => columns.some(({ values }) => values[at] !== null));
  // A route is unknown before it was seen, while others are known.
  const all = columns.map(({ name, values }) => ({ key: `routes.${name}`, name, values: known.map((is, at) => (is ? (values[at] ?? 0) : null)) }));
  const ordered = all
    .map((route) => ({ ...route, total: sum(route.values) }))
    .filter((route) => route.total >= LEAST_THREADS)
    .sort((one, other) => other.total - one.total);
  const first = ordered.slice(0, MOST_BANDS).map((route, at) => ({ ...route, colour: COLOURS[at] }));
  const rest = ordered.slice(MOST_BANDS);
  if (!rest.length) return first;
  const values = known.map((is, at) => (is ? sum(rest.map((route) => route.values[at])) : null));
  return [...first, { ...REST, name: format.many(rest.length, "more route"), values }];
}

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
