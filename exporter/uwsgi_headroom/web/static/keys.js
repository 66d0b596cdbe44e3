// The key figures: four below the banner, which say whether users are hurt, and a panel of all others. What may be normal,
// such as a long request, has a colour only beside a verdict that is not ok.

import { el, panel, Tile } from "./dom.js";
import * as format from "./format.js";
import { goal, judge } from "./objective.js";
import { figure, HOW, interval, name, SHARES } from "./percentiles.js";

/** The tone of the queue wait, by how much users notice it. */
export const WAITING = { noticed: "warning", severe: "critical" };

/** What users wait: in the queue, then in service. If no request is completed, the oldest one says how long at least. */
function usersWait({ flow, threads, workers, sockets, status }) {
  const { total_time: total = null, response_time: served = null, queue_wait: queue = null, wait_is_floor: isFloor, waiting } = flow ?? {};
  const oldest = Math.max(0, ...workers.map((worker) => worker.oldest_request_age ?? 0), ...sockets.map((socket) => socket.oldest_wait ?? 0));
  if (served === null && flow?.requests) return { text: format.NOT_KNOWN, note: "uWSGI does not time static files" };
  if (served === null) return { text: oldest ? `over ${format.duration(oldest)}` : format.NOT_KNOWN, note: "no request completed", tone: oldest >= threads?.stuck_seconds ? status : null };
  if (total === null) return { text: format.duration(served), note: "in service; the queue is not known" };
  return { text: format.least(format.duration(total), isFloor), note: `= ${format.duration(queue)} in queue${isFloor ? " up to now" : ""} + ${format.duration(served)} in service`, tone: WAITING[waiting] };
}

function served({ flow, window, findings, status, threads }) {
  const all = findings.flatMap((finding) => [finding, ...(finding.harms ?? [])]);
  const refused = all.find(({ code }) => code === "clients_refused");
  const turned = flow?.refused ? `${format.rate(flow.refused)} turned away` : refused ? "clients turned away" : "";
  const { exceptions = 0, harakiris = 0 } = window ?? {};
  const failed = [turned, exceptions && format.many(exceptions, "exception"), harakiris && `${format.count(harakiris)} harakiri`];
  const note = failed.filter(Boolean).join(", ") || (flow?.requests ? "no exceptions" : "");
  const isStanding = flow?.throughput === 0 && threads?.busy > 0; // requests are in service, and none is completed
  return { text: format.rate(flow?.throughput), note, tone: refused?.severity ?? (isStanding ? status : null) };
}

/** Whether the objective is met; without one, the 95th percentile. */
function promised(server) {
  const { objective } = server;
  if (!objective) return { name: "p95", text: figure(server, 0.95), note: interval(server, 0.95) };
  const [severity] = judge(server);
  const word = { ok: "met", unknown: "not judged" }[severity] ?? "missed";
  const share = objective.windows.find((burn) => burn.rate > 1)?.share ?? null;
  const note = goal(objective).replace(" of requests", "") + (word === "missed" && share !== null ? `; ${format.percent(share)} were not` : "");
  return { name: "Objective", text: word, note, tone: severity };
}

/** The fullest listen queue. */
function queue({ sockets, status }) {
  const known = sockets.filter((socket) => socket.measurable && socket.limit);
  const [fullest] = known.sort((one, other) => other.queue / other.limit - one.queue / one.limit);
  if (!fullest) return { text: format.NOT_KNOWN, note: sockets.length ? "not measurable" : "no socket is known" };
  const { queue: waiting, limit, mean_queue: mean, full, oldest_wait: oldest } = fullest;
  const notes = [full ? `full ${format.percent(full)} of the time` : `${format.mean(mean)} on average`, oldest ? `oldest ${format.duration(oldest)}` : ""];
  return { text: `${format.count(Math.min(waiting, limit))} of ${format.count(limit)}`, note: notes.filter(Boolean).join(", "), tone: waiting >= limit ? status : null };
}

const FELT = [
  ["total_time", "Users wait", usersWait, "the mean wait in the listen queue, and then in service, without the network"],
  ["throughput", "Served", served, "requests completed, and what was not served"],
  ["promised", "Objective", promised, `response times ${HOW}`],
  ["queue", "Queue", queue, "connections in the fullest listen queue now, and how many fit: more are turned away"],
];

/** The four figures below the banner. A server that is down has none: the note then has the last one. */
export class Keys {
  constructor() {
    this.parts = FELT.map(([key, title, read, explanation]) => ({ tile: new Tile(title, key, explanation), read }));
    this.node = el("dl", { class: "keys" }, ...this.parts.map((part) => part.tile.node));
  }

  show(document) {
    const isDown = document.state === "down";
    for (const { tile, read } of this.parts) {
      const { name: title = null, text, note, tone = null } = read(document);
      if (title) tile.rename(title);
      if (isDown) tile.show(format.NOT_KNOWN, text === format.NOT_KNOWN ? "" : `before: ${text}`);
      else tile.show(text, note);
      tile.warn(!isDown && tone in WARNS ? tone : null);
    }
  }
}

const WARNS = { warning: 1, critical: 1 };

const FIGURES = [
  ...SHARES.map((share) => [name(share), `Response ${name(share)}`, (server) => figure(server, share), (server) => interval(server, share), `${Math.round(share * 100)} of 100 requests are not slower: ${HOW}`]),
  ["response_time", "Response time", (server) => format.duration(server.flow?.response_time), () => "mean, in service"],
  ["queue_wait", "Queue wait", (server) => format.least(format.duration(server.flow?.queue_wait), server.flow?.wait_is_floor), (server) => waits(server), "mean time in the listen queue, before the response time; percentiles are of all requests, estimated from samples"],
  ["observed", "Concurrency", (server) => format.mean(server.flow?.observed), (server) => `of ${format.meanThreads(server.threads?.mean ?? server.threads?.available)} threads${server.threads?.held ? "; kept connections hold more" : ""}`],
  ["littles_law", "By Little's law", (server) => format.mean(server.flow?.littles_law), (server) => inFlight(server)],
  ["busy", "Busy now", (server) => format.count(server.threads?.busy), (server) => stuck(server)],
  ["full", "All threads busy", (server) => format.percent(server.occupancy?.full), () => "of the time"],
  ["usable_headroom", "Usable headroom", (server) => format.factor(server.headroom?.usable), () => "until requests wait"],
  ["hot_ratio", "Hottest worker", (server) => hot(server.balance), (server) => floor(server.balance), "its share of the requests divided by an even share; below, the ratio that chance alone explains"],
  ["cpu_idle", "CPU idle", (server) => format.mean(server.cpu?.idle), (server) => cpu(server)],
  ["more_workers", "Memory for", (server) => workers(server.host?.memory), (server) => memory(server.host?.memory)],
];

/** The panel of all other figures. */
export function figures() {
  const parts = FIGURES.map(([key, title, value, against, explanation = null]) => ({ tile: new Tile(title, key, explanation), value, against }));
  const node = panel("Figures", `over the window; percentiles are ${HOW}, and 19 of 20 are in the range below each`, el("dl", { class: "keys many" }, ...parts.map((part) => part.tile.node)));
  node.classList.add("wide");
  return {
    node,
    apart: true,
    now(document) {
      for (const { tile, value, against } of parts) tile.show(value(document), against(document));
    },
  };
}

/** What is known of single waits: percentiles if any request was seen waiting, and the oldest one of now. */
function waits({ flow, queue_waits: known, sockets }) {
  const parts = known ? [0.95, 0.99].map((share) => known.percentiles.find((each) => each.share === share)).filter((each) => each?.seconds) : [];
  const oldest = Math.max(0, ...sockets.map((socket) => socket.oldest_wait ?? 0));
  const ofLeft = flow?.wait_is_floor ? "of those that have left it " : "";
  const texts = [...parts.map((each, place) => `${place ? "" : ofLeft}${name(each.share)} ${format.duration(each.seconds)}`), ...(oldest ? [`oldest now ${format.duration(oldest)}`] : [])];
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
  const others = used.others === null || used.others === undefined ? "" : `, other programs ${format.mean(used.others)}`;
  return `of ${format.mean(host?.cpus)} CPUs; own ${format.mean(used.own)}${others}`;
}

const workers = (memory) => (memory?.more_workers === null || memory?.more_workers === undefined ? format.NOT_KNOWN : format.count(memory.more_workers));

function memory(room) {
  if (!room || room.more_workers === null) return "more workers";
  return `more workers: ${format.bytes(room.available)} available, ${format.bytes(room.per_worker)} each`;
}
