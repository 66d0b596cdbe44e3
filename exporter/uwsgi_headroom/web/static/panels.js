// The panels of a server's page, in their order, with its charts over time; those of an emperor and of a router are tables.

import * as busy from "./busy.js";
import { Lines } from "./charts.js";
import { el, folding, pageOf, panel, refill, say } from "./dom.js";
import * as events from "./events.js";
import * as format from "./format.js";
import { figures, textOf, unknowns } from "./keys.js";
import { about } from "./ranges.js";
import { column, plain, Table } from "./table.js";
import { load, requestBar } from "./waits.js";
import { LIMITS } from "./words.js";
import * as workers from "./workers.js";

/**
 * The panels of a kind of server, yet to be made: {make, section, side, looks}. One with `section` is named in the bar of
 * sections; those with `side` are beside each other; `looks` are its classes. What `make` returns has `node` or `nodes`; `now(document)` shows a
 * document, `past(history, document)` the history, `happened(events)` the events. A panel with `apart` shows a document
 * after the next frame. shared: {predictions, ranges, comparison}, what the page has already.
 */
export function panelsOf(kind, timeline, shared) {
  if (kind === "emperor") return [{ make: emperor, looks: "wide" }];
  if (kind === "router") return [{ make: router, looks: "wide" }];
  return kind ? ofServer(timeline, shared) : [];
}

function ofServer(timeline, { predictions, ranges, comparison }) {
  const overTime = (make) => ({ make: () => make(timeline) });
  return [
    { make: () => load(timeline, ranges.node, comparison), section: "Load", looks: "wide" },
    { make: workers.table, section: "Workers", side: "left", looks: "tall" },
    { make: requestBar, side: "right" },
    { make: busy.code, side: "right", looks: "low" },
    { make: busy.routes, side: "right", looks: "low" },
    { make: events.listed, section: "Events", looks: "wide" },
    { ...overTime(times), section: "Charts" },
    overTime(percentiles),
    overTime(throughput),
    overTime(headroom),
    overTime(queues),
    overTime(concurrency),
    { ...overTime(busy.overTime), looks: "wide" },
    { ...overTime(workers.overTime), looks: "wide" },
    { make: () => predictions, looks: "wide" },
    { make: figures, section: "Figures", looks: "wide" },
    { make: occupancy },
    { make: workers.details, looks: "wide tall" },
    { make: setup, section: "Setup" },
    { make: watched },
  ];
}

/** A function that adds a panel to a grid; those with a `side` are in two columns. */
export function adder(grid) {
  const sides = { left: el("div", { class: "side" }), right: el("div", { class: "side" }) };
  const pair = el("div", { class: "pair wide" }, sides.left, sides.right);
  return ({ side, node, nodes = [node], looks = "" }) => {
    for (const each of nodes) each.classList.add(...looks.split(" ").filter(Boolean));
    if (side && !pair.parentNode) grid.append(pair);
    (sides[side] ?? grid).append(...nodes);
  };
}

function occupancy() {
  const levels = new Table("Occupancy", LEVELS, { key: (level) => level.text, by: null });
  return {
    node: folding("Occupancy", "share of the time by busy threads", levels.node),
    now({ occupancy: known }) {
      const { up_to: bounds, shares } = known ?? { shares: [] };
      const text = (at) => (at === bounds.length - 1 ? "all" : `up to ${format.percent(bounds[at])}`);
      const all = shares.map((share, at) => ({ share, text: text(at) }));
      levels.show(all.filter(({ share, text }) => share || text === "all"));
    },
  };
}

const LEVELS = [
  { head: "Busy threads", left: true, text: (level) => level.text },
  { head: "Share of the time", value: (level) => level.share, text: (level) => format.percent(level.share), part: (level) => level.share },
];

function watched() {
  const sentence = el("p", { class: "hint" });
  const unknown = el("ul", { class: "unknown" });
  return {
    node: folding("Sampling", "how the exporter reads this server, and what is not known", sentence, unknown),
    now(server) {
      say(sentence, [sampled(server.sampling), about(server)].join(" "));
      const sentences = unknowns(server);
      refill(unknown, sentences.join(), () => sentences.map((sentence) => el("li", {}, sentence)));
    },
  };
}

const sampled = (sampling) =>
  `Sampled every ${format.duration(sampling.interval)} (${format.duration(sampling.read_seconds)}, ${format.bytes(sampling.document_bytes)} per read). ` +
  `History ${format.duration(sampling.history_seconds)}, ${sampling.gap_seconds >= 0.05 ? `${format.duration(sampling.gap_seconds)} without samples` : "no gaps"}, ` +
  `${sampling.reloads ? format.many(sampling.reloads, "reload") : "no reloads"}.`;

const CONCURRENCY = { single: "one request at a time in each worker", threads: "one request on each thread", async: "many requests on one thread (async)" };

function setup() {
  const which = el("p", { class: "which" });
  const sentence = el("p", { class: "hint" });
  const list = el("dl", { class: "options" });
  return {
    node: folding("Setup", "options that advice depends on, and where each is set", which, list, sentence),
    now(server) {
      say(which, [server.address, textOf(server, "identity")].filter(Boolean).join(" · "));
      say(sentence, describe(server));
      const options = server.setup?.options ?? {};
      refill(list, JSON.stringify(options), () => Object.entries(options).map(option));
    },
  };
}

const option = ([name, { value, source }]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("b", {}, written(value)), " ", el("small", {}, source)));
const written = (value) => (Array.isArray(value) ? value.join(" ") : value === true ? "on" : value === false ? "off" : String(value));

function describe({ setup: known, thunder_lock: lock }) {
  if (!known) return "Not known: the configuration is not visible to the exporter.";
  return [
    `Concurrency: ${CONCURRENCY[known.concurrency_kind] ?? format.NOT_KNOWN}.`,
    lock === null ? "" : `Thunder lock: ${lock ? "on" : "off"}.`,
    known.mapped ? "Workers take requests from some sockets only (map-socket)." : "",
    known.somaxconn === null ? "" : `net.core.somaxconn: ${known.somaxconn}.`,
    known.options_changed ? "A configuration file has changed since a running worker started: uWSGI still uses the earlier options." : "",
    known.options_complete ? "" : "Parts of the configuration cannot be read, so more options may be set.",
  ].filter(Boolean).join(" ");
}

const yes = (value) => (value === null ? format.NOT_KNOWN : value ? "yes" : "no");

export function emperor() {
  const pages = new Map(); // the server of each master's PID
  const vassals = new Table("Vassals", [
    column("Vassal", "name", plain, { left: true }),
    column("Page", "pid", (pid) => plain(pages.get(pid)?.name), {
      left: true,
      title: "the vassal's own page, if the exporter reads its stats",
      value: ({ pid }) => pages.get(pid)?.name ?? null,
      node: ({ pid }) => el("a", { href: pageOf(pages.get(pid)) }),
    }),
    column("PID", "pid", String),
    column("Ready", "ready", yes, { title: "its workers are started" }),
    column("Accepting", "accepting", yes, { title: "it accepts requests" }),
    column("Loyal", "loyal", yes, { title: "it has served a request; a new vassal has not" }),
    column("Cursed", "cursed", yes, { title: "the emperor is ending it" }),
    column("Respawns", "respawns", format.count, { title: "how often the emperor restarted it" }),
    column("Age", "age", format.duration),
    column("Heartbeat", "heartbeat_age", format.duration, { title: "time since the last heartbeat, if the vassal sends any" }),
  ], { key: (vassal) => `${vassal.name} ${vassal.pid}`, flag: (vassal) => (vassal.cursed ? "hot" : null) });
  const throttled = new Table("Throttled", [
    column("Vassal", "name", plain, { left: true }),
    column("Attempts", "attempts", format.count),
    column("Next attempt after", "delay", format.duration),
  ], { key: (vassal) => vassal.name });
  let asked = "";
  let asking = null;
  const tables = lists(
    [["Vassals", "uWSGIs this emperor runs", vassals],
      ["Throttled", "vassals that failed to start: the emperor waits longer before each attempt; uWSGI's log says why they fail", throttled]],
    (document) => [document.emperor.vassals, document.emperor.throttled],
  );
  return {
    ...tables,
    async now(document) {
      const pids = document.emperor.vassals.map((vassal) => vassal.pid).join();
      if (pids !== asked) {
        asked = pids;
        asking = servers().then((known) => {
          // A process of another host may have the same PID.
          const ours = known.filter((server) => server.emperor_pid !== null && server.emperor_pid === document.identity?.pid);
          ours.forEach((server) => pages.set(server.pid, server));
        });
      }
      await asking;
      tables.now(document);
    },
  };
}

async function servers() {
  try {
    const answer = await fetch("/api/v2/servers", { signal: AbortSignal.timeout(10000) });
    return answer.ok ? (await answer.json()).servers : [];
  } catch {
    return [];
  }
}

export function router() {
  const backends = new Table("Backends", [
    column("Key", "key", plain, { left: true }),
    column("Backend", "name", plain, { left: true }),
    column("Requests", "requests", format.count),
    column("Sent", "transmitted_bytes", format.bytes),
    column("Received", "received_bytes", format.bytes),
    column("Load", "load", format.count),
    column("Weight", "weight", format.count),
    column("Failures", "failures", format.count),
    column("Dead", "dead", yes),
  ], { key: (backend) => `${backend.key} ${backend.name}`, flag: (backend) => (backend.dead ? "hot" : null) });
  const configured = new Table("Configured backends", [
    column("Backend", "name", plain, { left: true }),
    column("Requests", "hits", format.count),
  ], { key: (backend) => backend.name });
  return lists(
    [["Backends", "that subscribed to this router", backends], ["Configured backends", "named in its configuration", configured]],
    (document) => [
      document.router.subscriptions.flatMap((each) => each.nodes.map((node) => ({ ...node, key: each.key }))),
      document.router.static_nodes,
    ],
  );
}

function lists(tables, parts) {
  const nodes = tables.map(([title, explanation, table]) => panel(title, explanation, table.node));
  return { nodes, now: (document) => parts(document).forEach((items, at) => tables[at][2].show(items)) };
}

const HOW = "inside uWSGI, without the wait in the listen queue, estimated from samples";
const SHARES = { 0.5: "green", 0.9: "blue", 0.95: "orange", 0.99: "vermillion" }; // of the requests that are not slower
const DASHED = ["interpreters", "cpu"];
const CYCLE = ["blue", "orange", "green", "purple", "sky", "vermillion"];

export const headroom = (timeline) =>
  fixed(
    timeline,
    "Headroom by limit",
    "headroom over time, per limit; at 1x the limit is reached",
    { format: format.factor, log: { from: 0.5, to: 10, lowest: 0.01, highest: 1000 }, limit: { value: 1, name: "1x: limit reached" } },
    Object.entries(LIMITS)
      .filter(([limit]) => limit !== "other")
      .map(([limit, [name, colour]]) => ({ column: `headroom.${limit}`, name, colour, dash: DASHED.includes(limit) })),
  );

export const throughput = (timeline) =>
  fixed(timeline, "Throughput", "requests completed per second", { format: format.rate }, [
    { column: "throughput", name: "completed", colour: "blue" },
  ]);

export const concurrency = (timeline) =>
  fixed(timeline, "Concurrency", "mean requests in service, against threads", { format: format.mean }, [
    { column: "concurrency.observed", name: "observed", colour: "blue" },
    { column: "concurrency.littles_law", name: "by Little's law", colour: "orange", width: 1.5 },
    { column: "threads.available", name: "threads available", colour: "green", width: 3, steps: true },
    { column: "threads.configured", name: "configured", colour: "ink", width: 1.5, dash: true, steps: true },
  ]);

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

export function queues(timeline) {
  const chart = new Lines("Listen queues", [], timeline, { format: format.mean, least: 1 });
  const lines = (sockets) =>
    sockets
      .slice(0, CYCLE.length)
      .map(({ name }, at) => ({ column: `sockets.${name}.mean_queue`, name, colour: CYCLE[at], dash: at > 2 }));
  return {
    node: panel("Listen queues", "connections waiting to be accepted", chart.node),
    past(history, { sockets }) {
      // A socket that can no longer be measured, or is no longer there, still has a past.
      const known = (socket) => history.column(`sockets.${socket.name}.mean_queue`)?.some((mean) => mean !== null);
      const all = history.names("sockets.", ".mean_queue").map((name) => ({ name }));
      const gone = all.filter(({ name }) => !sockets.some((socket) => socket.name === name));
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
