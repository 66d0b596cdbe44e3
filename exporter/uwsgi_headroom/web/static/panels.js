// The panels of a server's page, in their order.

import { code } from "./code.js";
import { Columns } from "./columns.js";
import { el, folding, panel, say } from "./dom.js";
import * as events from "./events.js";
import { Findings } from "./findings.js";
import * as format from "./format.js";
import { objective } from "./objective.js";
import { emperor, router } from "./others.js";
import { percentiles } from "./percentiles.js";
import { requestBar } from "./request_bar.js";
import { Residency } from "./residency.js";
import * as routes from "./routes.js";
import { setup } from "./setup.js";
import { sockets } from "./sockets.js";
import { load } from "./stack.js";
import * as timelines from "./timelines.js";
import { whatIf } from "./what_if.js";
import * as workers from "./workers.js";

/**
 * The panels of a kind of server. Each has `node` or `nodes`; `now(document)` shows a document, `past(history,
 * document)` the history, `happened(events)` the events. The panel with `range` is the first chart over time: the range
 * controls precede this panel. A panel with `apart` shows a document after the next frame.
 */
export function panelsOf(kind, timeline) {
  if (kind === "emperor") return [emperor()];
  if (kind === "router") return [router()];
  return kind ? ofServer(timeline) : [];
}

function ofServer(timeline) {
  const findings = new Findings();
  const advice = panel("Findings", "worst first, each with advice", findings.node);
  advice.classList.add("wide");
  return [
    objective(),
    requestBar(),
    code(),
    { node: advice, now: (server) => findings.show(server) },
    whatIf(),
    routes.table(),
    workers.sideBySide(),
    workers.table(),
    { ...load(timeline), range: true },
    routes.overTime(timeline),
    timelines.headroom(timeline),
    timelines.throughput(timeline),
    timelines.times(timeline),
    percentiles(timeline),
    timelines.queues(timeline),
    occupancy(),
    events.listed(),
    workers.overTime(timeline),
    sockets(),
    residency(),
    setup(),
    watched(),
  ];
}

function occupancy() {
  const levels = new Columns("Occupancy", { format: format.percent, height: 172 });
  const items = ({ occupancy: known }) => known?.shares.map((share, at) => level(known, share, at)) ?? [];
  return {
    node: panel("Occupancy", "share of the time by busy threads, as a percentage of available threads", levels.node),
    now: (server) => levels.show(items(server)),
  };
}

function level({ up_to: bounds }, share, at) {
  const last = at === bounds.length - 1;
  return { label: last ? "all" : `${Math.round(bounds[at] * 100)}%`, value: share, hot: last && share >= 0.05 };
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
      say(sentence, sampled(server.sampling));
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
