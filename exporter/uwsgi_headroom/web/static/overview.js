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
  const table = new Table("Servers", COLUMNS, { key: (it) => it.name, flag: (it) => it.status });
  const stream = new Stream((it) => {
    const down = it.servers.filter((each) => each.state === "down").length;
    say(count, it.servers.length ? `${many(it.servers.length, "server")}, ${down} that cannot be read` : NONE);
    mark(main, "data-time", it.time);
    table.show(it.servers.map((each, place) => ({ ...each, place })));
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
const page = (it) => it.path.replace("/api/v1/servers/", "/servers/");

const COLUMNS = [
  { head: "Headroom", value: (it) => it.place, text: (it) => format.factor(it.headroom) },
  { head: "Server", left: true, value: (it) => it.name, text: (it) => it.name, node: (it) => el("a", { href: page(it) }) },
  { head: "State", left: true, value: (it) => it.status, text: (it) => (it.state === "up" ? STATUS[it.status].join(" ") : STATES[it.state]) },
  { head: "Gives out first", left: true, value: (it) => it.first, text: (it) => (it.first ? LIMITS[it.first][0] : format.NOT_KNOWN) },
  { head: "Verdict", left: true, value: (it) => it.verdict, text: (it) => it.verdict },
  { head: "Throughput", value: (it) => it.throughput, text: (it) => format.rate(it.throughput) },
  { head: "Response", value: (it) => it.response_time, text: (it) => format.duration(it.response_time) },
  { head: "Concurrency", value: (it) => it.observed, text: (it) => `${format.mean(it.observed)} of ${format.count(it.available)}` },
];
