// Lists every server in the order of the API: servers that are down first, then the least headroom first.

import { recall, remember } from "./address.js";
import { el, mark, say, unmarked } from "./dom.js";
import * as format from "./format.js";
import { amount } from "./headline.js";
import { help } from "./help.js";
import { WAITING } from "./keys.js";
import { Stream } from "./stream.js";
import { Table } from "./table.js";
import { LIMITS, STATES, STATUS } from "./words.js";

const EVENTS = "/api/v1/events";
const NONE = "No server yet: the globs of the configuration match no socket.";

/** Build the list into `main`. */
export function show(main) {
  const count = el("p", { class: "about" }, "Waiting for the exporter …");
  const host = el("p", { class: "about" });
  const age = el("p", { class: "age trouble", role: "status" });
  const filter = el("input", { type: "search", id: "filter", placeholder: "name, state, limit or verdict", input: sift });
  const table = new Table("Servers", COLUMNS, { key: (server) => server.name, flag: tone, remembered: "sort", none: "No server matches." });
  const keys = [["/", "filter", () => filter.focus()], ["Escape", "show all servers again", clear]];
  const controls = el("div", { class: "controls" }, el("label", { for: "filter" }, "Filter"), filter, help(keys));
  let servers = [];
  let patterns = [];
  const stream = new Stream((list) => {
    patterns = list.patterns ?? [];
    say(host, list.host ?? "");
    servers = list.servers.map((server, place) => ({ ...server, place }));
    mark(main, "data-time", list.time);
    redraw();
  });
  filter.value = recall("filter") ?? "";
  filter.addEventListener("keydown", (event) => event.key === "Escape" && clear());
  main.append(el("header", {}, el("div", { class: "name" }, el("h1", {}, "uwsgi-headroom"), count, host), controls), age, el("div", { class: "panel overview" }, table.node));

  function sift() {
    remember("filter", filter.value);
    redraw();
  }

  function clear() {
    filter.value = "";
    sift();
  }

  function redraw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = servers.filter((server) => words.every((word) => text(server).includes(word)));
    say(count, (servers.length ? counted(servers) + (words.length ? `; ${shown.length} shown` : "") : NONE) + lacking(patterns));
    table.show(shown);
    look();
  }

  function look() {
    mark(main, "data-state", stream.lost ? "lost" : "up");
    say(age, stream.lost ? `The exporter has not answered for ${format.duration(stream.silentFor / 1000)}.` : (stream.trouble ?? ""));
  }

  setInterval(look, 1000);
  document.addEventListener("visibilitychange", () => (document.hidden ? stream.close() : stream.open(EVENTS)));
  stream.open(EVENTS);
}

function counted(servers) {
  const down = servers.filter((server) => server.state === "down").length;
  return `${format.many(servers.length, "server")}, ${down ? `${down} down` : servers.length > 1 ? "all up" : "up"}`;
}

/** What the list does not have: servers without a name that should be there, and sockets beyond the bound. */
function lacking(patterns) {
  const missing = patterns.map((of) => Math.max(0, of.expected - of.found - of.missing)).reduce((sum, one) => sum + one, 0);
  const leftOut = patterns.map((of) => of.left_out).reduce((sum, one) => sum + one, 0);
  return (missing ? `; ${missing} expected and not there` : "") + (leftOut ? `; ${leftOut} left out: more than max_servers` : "");
}

/** The text that a filter searches. */
const text = (server) => [server.name, server.address, state(server), limit(server), server.verdict].join(" ").toLowerCase();

const tone = (server) => (server.state === "up" ? server.status : server.state);

const state = (server) => (server.state === "up" ? STATUS[server.status].join(" ") : `${STATES[server.state].toUpperCase()}${server.age === null ? "" : ` ${format.duration(server.age)}`}`);

const limit = (server) => (server.first && server.state !== "down" ? LIMITS[server.first] : format.NOT_KNOWN);

/** The factor by which load can grow; unknown for a server that is down. */
function growth(server) {
  if (server.state === "down") return format.NOT_KNOWN;
  const factor = amount({ factor: server.headroom, far: server.far });
  return server.is_upper_bound && server.headroom !== null ? `≤ ${factor}` : factor;
}

/** The URL of a server's page. */
const page = (server) => server.path.replace("/api/v1/servers/", "/servers/");

function wait(server) {
  const tone = server.state === "up" ? WAITING[server.waiting] : null;
  return (tone ? `${STATUS[tone][0]} ` : "") + format.duration(server.queue_wait);
}

const COLUMNS = [
  { head: "Headroom", value: (server) => server.place, text: growth },
  { head: "Server", left: true, value: (server) => server.name, text: (server) => server.name, node: (server) => el("a", { href: page(server) }) },
  { head: "State", left: true, title: "if down: time since the last read", value: (server) => ["down", "stale", "critical", "warning", "unknown", "ok"].indexOf(tone(server)), text: state },
  { head: "First limit", left: true, title: "which limit is reached first when load grows", value: (server) => server.first, text: limit },
  { head: "Verdict", left: true, value: (server) => server.verdict, text: (server) => unmarked(server.verdict) },
  { head: "Queue wait", title: "mean time a request waits in the listen queue", value: (server) => server.queue_wait, text: wait, tone: (server) => (server.state === "up" ? (WAITING[server.waiting] ?? null) : null) },
  { head: "Response", title: "mean time in service", value: (server) => server.response_time, text: (server) => format.duration(server.response_time) },
  { head: "Throughput", value: (server) => server.throughput, text: (server) => format.rate(server.throughput) },
  { head: "Concurrency", title: "mean requests in service, of the threads available", value: (server) => server.observed, text: (server) => `${format.mean(server.observed)} of ${format.meanThreads(server.threads ?? server.available)}` },
];
