// The listen queues: how long they were, and for each socket how long it is, or why that is not known.

import { panel } from "./dom.js";
import * as format from "./format.js";
import { Table } from "./table.js";
import { queues } from "./timelines.js";

export function sockets() {
  const chart = queues();
  const list = new Table("Sockets", COLUMNS, { key: (it) => it.name });
  return {
    node: panel("Listen queues", "connections that wait to be accepted", chart.node, list.node),
    now: (it) => list.show(it.sockets),
    past: chart.past,
  };
}

const COLUMNS = [
  { head: "Socket", left: true, value: (it) => it.name, text: (it) => it.name },
  { head: "Waiting", value: (it) => it.queue, text: (it) => (it.measurable ? `${format.count(it.queue)} of ${format.count(it.limit)}` : "not known") },
  { head: "Mean", value: (it) => it.mean_queue, text: (it) => format.mean(it.mean_queue) },
  { head: "Wait", value: (it) => it.queue_wait, text: (it) => format.duration(it.queue_wait) },
  { head: "Why not known", left: true, value: (it) => it.reason, text: (it) => it.reason ?? "" },
];
