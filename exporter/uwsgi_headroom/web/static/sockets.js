// Lists the sockets with the length of each listen queue, or the reason why that is not known.

import { folding } from "./dom.js";
import * as format from "./format.js";
import { Table } from "./table.js";

export function sockets() {
  const list = new Table("Sockets", COLUMNS, { key: (socket) => socket.name });
  return {
    node: folding("Every socket", "connections waiting to be accepted, and for how long", list.node),
    now: (document) => list.show(document.sockets),
  };
}

const COLUMNS = [
  { head: "Socket", left: true, wraps: true, value: (socket) => socket.name, text: (socket) => socket.name },
  { head: "Waiting", wraps: true, title: "connections waiting now, and how many fit; more are refused", value: (socket) => socket.queue, text: (socket) => waiting(socket) },
  { head: "Mean", title: "mean number of waiting connections over the window", value: (socket) => socket.mean_queue, text: (socket) => format.mean(socket.mean_queue) },
  { head: "Wait", title: "mean time a request waited; known only if its workers serve no other socket", value: (socket) => socket.queue_wait, text: (socket) => format.least(format.duration(socket.queue_wait), socket.wait_is_floor) },
  { head: "Oldest", title: "for how long the oldest request in the queue has waited", value: (socket) => socket.oldest_wait ?? null, text: (socket) => format.duration(socket.oldest_wait) },
];

const waiting = (socket) => (socket.measurable ? `${format.count(socket.queue)} of ${format.count(socket.limit)}` : `not known: ${socket.reason}`);
