// The key figures below the headline, each with its name and a value to compare it with.

import { el } from "./dom.js";
import * as format from "./format.js";
import { figure, HOW, interval, name, SHARES } from "./percentiles.js";
import { Tile } from "./tile.js";

const FIGURES = [
  ["throughput", "Throughput", (server) => format.rate(server.flow?.throughput), (server) => requests(server)],
  ["response_time", "Response time", (server) => format.duration(server.flow?.response_time), () => "mean, in service"],
  ...SHARES.map((share) => [name(share), `Response ${name(share)}`, (server) => figure(server, share), (server) => interval(server, share), `${Math.round(share * 100)} of 100 requests are not slower: ${HOW}`]),
  ["queue_wait", "Queue wait", (server) => format.duration(server.flow?.queue_wait), (server) => waits(server), "mean time in the listen queue, before the response time; percentiles are of all requests, estimated from samples"],
  ["total_time", "Users wait", (server) => format.duration(server.flow?.total_time), () => "in service + in the queue", "response time and queue wait together, without the network"],
  ["observed", "Concurrency", (server) => format.mean(server.flow?.observed), (server) => `of ${format.meanThreads(server.threads?.mean ?? server.threads?.available)} threads`],
  ["littles_law", "By Little's law", (server) => format.mean(server.flow?.littles_law), (server) => inFlight(server)],
  ["busy", "Busy now", (server) => format.count(server.threads?.busy), (server) => stuck(server)],
  ["full", "All threads busy", (server) => format.percent(server.occupancy?.full), () => "of the time"],
  ["hot_ratio", "Hottest worker", (server) => hot(server.balance), (server) => floor(server.balance), "its share of the requests divided by an even share; below, the ratio that chance alone explains"],
  ["cpu_idle", "CPU idle", (server) => format.mean(server.cpu?.idle), (server) => cpu(server)],
  ["more_workers", "Memory for", (server) => workers(server.host?.memory), (server) => memory(server.host?.memory)],
];

const EXPLANATION = `Percentiles are ${HOW}. The range below each contains it in 19 of 20 cases.`;

/** The tone of the queue wait, by how much users notice it. */
export const WAITING = { noticed: "warning", severe: "critical" };

export class Keys {
  constructor() {
    this.parts = FIGURES.map(([key, name, value, against, title]) => ({ key, tile: new Tile(name, key, title), value, against }));
    this.node = el("dl", { class: "keys" }, ...this.parts.map((part) => part.tile.node));
    this.explanation = el("p", { class: "hint" }, EXPLANATION);
  }

  show(document) {
    for (const { tile, value, against } of this.parts) tile.show(value(document), against(document));
    this.#warn(WAITING[document.flow?.waiting] ?? null);
  }

  // A queue wait that users notice comes first.
  #warn(tone) {
    const place = this.parts.findIndex((part) => part.key === "queue_wait");
    const { tile } = this.parts[place];
    const { node } = tile;
    tile.warn(tone);
    if (tone && node.previousSibling) this.node.prepend(node);
    if (!tone && !node.previousSibling) this.node.insertBefore(node, this.parts[place + 1].tile.node);
  }
}

const requests = (server) => (server.flow ? `${format.count(server.flow.requests)} in ${format.duration(server.window.seconds)}` : "");

/** What is known of single waits: percentiles if any request was seen waiting, and the oldest one of now. */
function waits({ queue_waits: known, sockets }) {
  const parts = known ? [0.95, 0.99].map((share) => known.percentiles.find((each) => each.share === share)).filter((each) => each?.seconds) : [];
  const oldest = Math.max(0, ...sockets.map((socket) => socket.oldest_wait ?? 0));
  const texts = [...parts.map((each) => `${name(each.share)} ${format.duration(each.seconds)}`), ...(oldest ? [`oldest now ${format.duration(oldest)}`] : [])];
  return texts.join(", ") || "in the listen queue";
}

const stuck = (server) => (server.threads?.stuck ? `${server.threads.stuck} for over ${format.chosen(server.threads.stuck_seconds)}` : "threads");

function inFlight({ flow }) {
  const { observed = null, littles_law: law = null } = flow ?? {};
  const more = observed !== null && law !== null && observed - law > Math.max(1, 0.1 * observed);
  return more ? "less than observed: long or stuck requests" : "from completed requests";
}

const hot = (balance) => (balance?.hot_ratio ? `${balance.hot_ratio.toFixed(2)}x` : format.NOT_KNOWN);

function floor(balance) {
  if (!balance?.hot_ratio) return "share ÷ even share";
  const chance = balance.noise_floor ? `; by chance up to ${balance.noise_floor.toFixed(2)}x` : "";
  return `worker ${balance.hottest}${chance}`;
}

function cpu({ cpu: used, host }) {
  if (!used) return "";
  const others = used.others === null || used.others === undefined ? "" : `, others ${format.mean(used.others)}`;
  return `of ${format.mean(host?.cpus)} CPUs; own ${format.mean(used.own)}${others}`;
}

const workers = (memory) => (memory?.more_workers === null || memory?.more_workers === undefined ? format.NOT_KNOWN : format.count(memory.more_workers));

function memory(room) {
  if (!room || room.more_workers === null) return "more workers";
  return `more workers: ${format.bytes(room.available)} available, ${format.bytes(room.per_worker)} each`;
}
