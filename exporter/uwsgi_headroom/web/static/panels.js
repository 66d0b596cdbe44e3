// The panels of a server's page, in their order.

import * as busy from "./busy.js";
import { el, folding, panel, say } from "./dom.js";
import * as events from "./events.js";
import * as format from "./format.js";
import { figures, textOf, unknowns } from "./keys.js";
import { emperor, router } from "./others.js";
import { about } from "./ranges.js";
import { load } from "./stack.js";
import { Table } from "./table.js";
import * as timelines from "./timelines.js";
import { requestBar } from "./waits.js";
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
    { ...overTime(timelines.times), section: "Charts" },
    overTime(timelines.percentiles),
    overTime(timelines.throughput),
    overTime(timelines.headroom),
    overTime(timelines.queues),
    overTime(timelines.concurrency),
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
      const all = known?.shares.map((share, at) => level(known, share, at)) ?? [];
      levels.show(all.filter(({ share, text }) => share || text === "all"));
    },
  };
}

const LEVELS = [
  { head: "Busy threads", left: true, text: (level) => level.text },
  { head: "Share of the time", value: (level) => level.share, text: (level) => format.percent(level.share), part: (level) => level.share },
];

function level({ up_to: bounds }, share, at) {
  return { share, text: at === bounds.length - 1 ? "all" : `up to ${format.percent(bounds[at])}` };
}

function watched() {
  const sentence = el("p", { class: "hint" });
  const unknown = el("ul", { class: "unknown" });
  return {
    node: folding("Sampling", "how the exporter reads this server, and what is not known", sentence, unknown),
    now(server) {
      say(sentence, [sampled(server.sampling), about(server)].join(" "));
      const sentences = unknowns(server);
      if (unknown.dataset.shown === sentences.join()) return;
      unknown.dataset.shown = sentences.join();
      unknown.replaceChildren(...sentences.map((sentence) => el("li", {}, sentence)));
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
  let shown = "";
  return {
    node: folding("Setup", "options that advice depends on, and where each is set", which, list, sentence),
    now(server) {
      say(which, [server.address, textOf(server, "identity")].filter(Boolean).join(" · "));
      const text = JSON.stringify([server.setup, server.thunder_lock]);
      if (text === shown) return;
      shown = text;
      say(sentence, describe(server));
      list.replaceChildren(...Object.entries(server.setup?.options ?? {}).map(option));
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
