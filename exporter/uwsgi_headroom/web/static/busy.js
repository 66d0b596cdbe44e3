// What holds the busy threads: the routes, in a table and as a stack over time, and the lines of code. How many requests
// a route has is not known.

import { Lines } from "./charts.js";
import { el, panel, say } from "./dom.js";
import * as format from "./format.js";
import { column, plain, Table } from "./table.js";
import { areas } from "./waits.js";
import { WAITS } from "./words.js";

const MOST_BANDS = 8; // more are too thin to see
const LEAST_THREADS = 0.005; // less than this is written as 0
const COLOURS = ["wait-backend", "wait-cpu-wait", "wait-named-0", "wait-cpu", "wait-disk", "wait-client", "wait-lock", "wait-child"];
const REST = { key: "rest", colour: "wait-other" };
const UNKNOWN = "the share of the requests is not known";
const HEIGHT = 240;

export function routes() {
  const figures = new Table("Routes", ROUTES, { key: (route) => route.route, by: 1, down: true, remembered: "routes", none: "No thread was busy." });
  const node = panel("Busy threads by route", `mean over the window, and requests in service now; ${UNKNOWN}`, figures.node);
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

const ROUTES = [
  column("Route", "route", plain, { left: true, wraps: true }),
  column("Busy threads", "threads", format.threads, { title: "mean over the window" }),
  column("Share", "share", format.percent, { title: "of all busy threads", part: (route) => route.share }),
  column("In service", "in_service", format.count, { title: "requests now" }),
  column("Oldest", "oldest_seconds", format.duration, { title: "age of the oldest request in service" }),
];

const MOST_LINES = 10; // at once
const LEAST_PART = 0.2; // of a line's time, from which on a state is named
const LEAST_REST = 0.005;

/** The lines of code in which requests spend their time, and what they do there. */
export function code() {
  const figures = new Table("Lines of code", LINES, { key: (line) => JSON.stringify([line.function, line.file, line.line, line.callee]),
    by: 2, down: true, none: "No thread was busy.", most: MOST_LINES });
  const rest = el("p", { class: "hint" });
  const node = panel("Where in the code", "the mean time of a request in service, by line", figures.node, rest);
  node.hidden = true;
  return {
    node,
    apart: true,
    now({ code: known }) {
      node.hidden = !known;
      if (!known) return;
      figures.node.hidden = known.why !== null;
      figures.show(known.lines);
      say(rest, known.why === null ? left(known) : `Not known: ${known.why}.`);
    },
  };
}

/** From how many samples the lines are, and what is not in them. */
function left({ lines, unread, changed, threads, seconds }) {
  const known = lines.reduce((sum, line) => sum + line.share, 0);
  const parts = [[threads ? 1 - known - unread : 0, "in other lines"], [unread, "not readable"], [changed, "dropped"]];
  const rest = parts.filter(([part]) => part > LEAST_REST).map(([part, what]) => `; ${format.percent(part)} ${what}`);
  return `${format.many(Math.round(threads), "sample")} of busy threads in ${format.duration(seconds)}${rest.join("")}`;
}

const LINES = [
  { head: "Line", left: true, wraps: true, value: place, text: place, hint: (line) => line.file },
  column("Time", "per_request", format.duration, { title: "of a mean request" }),
  column("Share", "share", format.percent, { title: "of all busy threads", part: (line) => line.share }),
  { head: "Doing", title: "what its threads mostly wait for", left: true, wraps: true, value: doing, text: doing },
];

function place(line) {
  if (!line.line) return "outside of Python code";
  return [`${line.function} (${line.file.split("/").slice(-2).join("/")}:${line.line})`, line.callee && `in ${line.callee}`].filter(Boolean).join(", ");
}

/** What the threads in a line mostly do, with the address that they wait for. */
function doing({ states, share, addresses: [address = ""] }) {
  const outside = { backend: ` ${address}`, dns: ` ${address}` };
  return states.filter((each) => each.share >= LEAST_PART * share).map(({ state }) => `${WAITS[state][0]}${outside[state] ?? ""}`.trim()).join(", ");
}

export function overTime(timeline) {
  const chart = new Lines("Busy threads by route over time", [], timeline, { format: format.mean, unit: "threads", height: HEIGHT });
  const node = panel("Busy threads by route over time", `mean threads; ${UNKNOWN}`, chart.node);
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
