// The sockets that requests come from: how long each one's queue is, or why that is not known.

import { panel } from "./dom.js";
import * as format from "./format.js";
import { Table } from "./table.js";

export function sockets() {
  const list = new Table("Sockets", COLUMNS, { key: (it) => it.name });
  return {
    node: panel("Every socket", "connections that wait to be accepted, and for how long", list.node),
    now: (it) => list.show(it.sockets),
  };
}

const COLUMNS = [
  { head: "Socket", left: true, wraps: true, value: (it) => it.name, text: (it) => it.name },
  { head: "Waiting", wraps: true, title: "now, of as many as fit", value: (it) => it.queue, text: (it) => waiting(it) },
  { head: "Mean", title: "over the window", value: (it) => it.mean_queue, text: (it) => format.mean(it.mean_queue) },
  { head: "Wait", title: "mean, where there is one socket", value: (it) => it.queue_wait, text: (it) => format.duration(it.queue_wait) },
];

const waiting = (it) => (it.measurable ? `${format.count(it.queue)} of ${format.count(it.limit)}` : `not known: ${it.reason}`);
