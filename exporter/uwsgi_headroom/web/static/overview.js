// Every server, the one with the least headroom first, as the API sorts them.

import { el, mark, say } from "./dom.js";
import * as format from "./format.js";
import { Stream } from "./stream.js";
import { Table } from "./table.js";
import { LIMITS, many, STATES, STATUS } from "./words.js";

/** Build it into `main`. */
export function show(main) {
  const count = el("p", { class: "about" }, "Waiting for the exporter …");
  const age = el("p", { class: "age trouble", role: "status" });
  const table = new Table("Servers", COLUMNS, { key: (server) => server.name, flag: (server) => server.status });
  const stream = new Stream((list) => {
    const down = list.servers.filter((each) => each.state === "down").length;
    say(count, list.servers.length ? `${many(list.servers.length, "server")}, ${down} that cannot be read` : NONE);
    mark(main, "data-time", list.time);
    table.show(list.servers.map((each, place) => ({ ...each, place })));
    look();
  });
  main.append(el("header", {}, el("div", { class: "name" }, el("h1", {}, "uwsgi-headroom"), count)), age, el("section", { class: "panel overview" }, table.node));

  function look() {
    mark(main, "data-state", stream.lost ? "lost" : "up");
    say(age, stream.lost ? `The exporter has not answered for ${format.duration(stream.silentFor / 1000)}.` : (stream.trouble ?? ""));
  }

  setInterval(look, 1000);
  document.addEventListener("visibilitychange", () => (document.hidden ? stream.close() : stream.open(EVENTS)));
  stream.open(EVENTS);
}

const EVENTS = "/api/v1/events";
const NONE = "No server yet: the globs of the configuration match no socket.";

/** Where the page of a server is. */
const page = (server) => server.path.replace("/api/v1/servers/", "/servers/");

/** By how much load can grow. What is known and far away is not a question; where CPU is hidden, it is the most. */
const growth = (server) => (server.headroom === null && server.far.length ? ">100×" : (server.is_upper_bound && server.headroom !== null ? "≤ " : "") + format.factor(server.headroom));

const COLUMNS = [
  { head: "Headroom", value: (server) => server.place, text: growth },
  { head: "Server", left: true, value: (server) => server.name, text: (server) => server.name, node: (server) => el("a", { href: page(server) }) },
  { head: "State", left: true, value: (server) => server.status, text: (server) => (server.state === "up" ? STATUS[server.status].join(" ") : STATES[server.state]) },
  { head: "Gives out first", left: true, value: (server) => server.first, text: (server) => (server.first ? LIMITS[server.first][0] : format.NOT_KNOWN) },
  { head: "Verdict", left: true, value: (server) => server.verdict, text: (server) => server.verdict },
  { head: "Throughput", value: (server) => server.throughput, text: (server) => format.rate(server.throughput) },
  { head: "Response", value: (server) => server.response_time, text: (server) => format.duration(server.response_time) },
  { head: "Concurrency", value: (server) => server.observed, text: (server) => `${format.mean(server.observed)} of ${format.count(server.available)}` },
];
