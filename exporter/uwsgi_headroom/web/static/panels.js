// The panels of a server's page, in their order.

import { code } from "./code.js";
import { el, folding, panel, say } from "./dom.js";
import * as events from "./events.js";
import * as format from "./format.js";
import { figures } from "./keys.js";
import { objective } from "./objective.js";
import { emperor, router } from "./others.js";
import { percentiles } from "./percentiles.js";
import { about } from "./ranges.js";
import { requestBar } from "./request_bar.js";
import { Residency } from "./residency.js";
import * as routes from "./routes.js";
import { setup } from "./setup.js";
import { sockets } from "./sockets.js";
import { load } from "./stack.js";
import { Table } from "./table.js";
import * as timelines from "./timelines.js";
import * as workers from "./workers.js";

/**
 * The panels of a kind of server. Each has `node` or `nodes`; `now(document)` shows a document, `past(history,
 * document)` the history, `happened(events)` the events. A panel with `apart` shows a document after the next frame; one
 * with `section` is named in the bar of sections; those with `side` are beside each other. shared: {predictions, ranges},
 * what the page has already.
 */
export function panelsOf(kind, timeline, shared) {
  if (kind === "emperor") return [emperor()];
  if (kind === "router") return [router()];
  return kind ? ofServer(timeline, shared) : [];
}

function ofServer(timeline, { predictions, ranges }) {
  return [
    { ...load(timeline, ranges.node), section: "Load" },
    { ...workers.table(), section: "Workers", side: "left" },
    { ...requestBar(), side: "right" },
    { ...code(), side: "right" },
    { ...routes.table(), side: "right" },
    { ...events.listed(), section: "Events" },
    { ...timelines.times(timeline), section: "Charts" },
    percentiles(timeline),
    timelines.throughput(timeline),
    timelines.headroom(timeline),
    timelines.queues(timeline),
    timelines.concurrency(timeline),
    routes.overTime(timeline),
    workers.overTime(timeline),
    predictions,
    objective(),
    { ...figures(), section: "Figures" },
    occupancy(),
    sockets(),
    residency(),
    workers.details(),
    { ...setup(), section: "Setup" },
    watched(),
  ];
}

/** The nodes of panels, in their order; those with a `side` are in two columns. */
export function arranged(panels) {
  const sides = { left: el("div", { class: "side" }), right: el("div", { class: "side" }) };
  const pair = el("div", { class: "pair wide" }, sides.left, sides.right);
  const nodes = panels.flatMap((part) => {
    if (!part.side) return part.nodes ?? [part.node];
    sides[part.side].append(part.node);
    return [pair];
  });
  return [...new Set(nodes)];
}

function occupancy() {
  const levels = new Table("Occupancy", LEVELS, { key: (level) => level.text, by: null });
  return { node: folding("Occupancy", "share of the time by busy threads", levels.node), now: ({ occupancy: known }) => levels.show(known ? known.shares.map((share, at) => level(known, share, at)).filter(({ share, text }) => share || text === "all") : []) };
}

const LEVELS = [
  { head: "Busy threads", left: true, text: (level) => level.text },
  { head: "Share of the time", value: (level) => level.share, text: (level) => format.percent(level.share), part: (level) => level.share },
];

function level({ up_to: bounds }, share, at) {
  return { share, text: at === bounds.length - 1 ? "all" : `up to ${format.percent(bounds[at])}` };
}

function residency() {
  const chart = new Residency();
  return { node: folding("Worker × CPU", "the CPUs that workers may use, and do use", chart.node), now: (server) => chart.show(server) };
}

function watched() {
  const sentence = el("p", { class: "hint" });
  const unknown = el("ul", { class: "unknown" });
  return {
    node: folding("Sampling", "how the exporter reads this server, and what is not known", sentence, unknown),
    now(server) {
      say(sentence, [sampled(server.sampling), about(server)].join(" "));
      list(unknown, server.unknown);
    },
  };
}

const sampled = (sampling) =>
  `Sampled every ${format.duration(sampling.interval)} (${format.duration(sampling.read_seconds)}, ${format.bytes(sampling.document_bytes)} per read). ` +
  `History ${format.duration(sampling.history_seconds)}, ${sampling.gap_seconds >= 0.05 ? `${format.duration(sampling.gap_seconds)} without samples` : "no gaps"}, ` +
  `${sampling.reloads ? format.many(sampling.reloads, "reload") : "no reloads"}.`;

function list(node, unknown) {
  const elsewhere = unknown.filter((each) => each.what !== "residency"); // residency has a panel of its own
  const sentences = elsewhere.map((each) => `${each.what}${each.socket ? ` of ${each.socket}` : ""}: ${each.why}`);
  if (node.dataset.unknown === sentences.join()) return;
  node.dataset.unknown = sentences.join();
  node.replaceChildren(...sentences.map((text) => el("li", {}, `Not known: ${text}.`)));
}
