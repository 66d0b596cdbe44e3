// Lists every server in the order of the API: what is down, what its own settings can solve, what its host lacks, the rest.

import { el, help, isOn, mark, marks, pageOf, recall, refill, remember, say, toggle, unmarked } from "./dom.js";
import * as format from "./format.js";
import { Stream } from "./stream.js";
import { column, plain, Table } from "./table.js";
import { LIMITS, STATES, STATUS } from "./words.js";

const EVENTS = "/api/v2/events";
const NONE = "No server yet: the globs of the configuration match no socket.";
const TONES_OF_SERVERS = ["down", "stale", "critical", "warning", "unknown", "ok"];
const NO_ROOM = 1.15; // headroom below this reads 1.1x or less: nothing good, whatever the status is
const WAITING = { noticed: "warning", severe: "critical" }; // the tone of the queue wait, by how much users notice it
const MOST_ROWS = 200; // at once: a browser takes a tenth of a second for a thousand

export function show(main) {
  const count = el("p", { class: "about" }, "Waiting for the exporter …");
  const host = el("p", { class: "whole" });
  const others = el("div", { class: "others" });
  const age = el("p", { class: "age trouble", role: "status" });
  const filter = el("input", { type: "search", id: "filter", placeholder: "name, state, limit or verdict", input: sift });
  const chips = new Chips(sift);
  const table = new Table("Servers", COLUMNS, { key: (server) => server.name, flag: tone,
    by: FIRST, remembered: "sort", none: "No server matches.", most: MOST_ROWS });
  const keys = [["/", "filter", () => filter.focus()], ["Escape", "show all servers again", clear]];
  const controls = el("div", { class: "controls" }, el("label", { for: "filter" }, "Filter"), filter, help(keys));
  let servers = [];
  let patterns = [];
  const stream = new Stream((list) => {
    ({ patterns } = list);
    refill(others, JSON.stringify(list.not_watched), () => list.not_watched.map(describeOthers));
    say(host, list.host ? `${STATUS.warning[0]} ${list.host}` : "");
    servers = list.servers.map((server, place) => ({ ...server, place, shared: Boolean(list.host && server.of_host) }));
    mark(main, "data-time", list.time);
    redraw();
  });
  filter.value = recall("filter") ?? "";
  filter.addEventListener("keydown", (event) => event.key === "Escape" && clear());
  const name = el("div", { class: "name" }, el("h1", {}, "uwsgi-headroom"), count);
  main.append(el("header", {}, name, controls), age, chips.node, host, el("div", { class: "panel overview" }, table.node), others);

  function sift() {
    remember("filter", filter.value);
    remember("state", chips.chosen());
    redraw();
  }

  function clear() {
    filter.value = "";
    chips.clear();
    sift();
  }

  function redraw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = servers.filter((server) => words.every((word) => text(server).includes(word)));
    const shown = found.filter((server) => chips.has(tone(server)));
    chips.show(found);
    const few = shown.length < servers.length ? `; ${shown.length} shown` : "";
    say(count, (servers.length ? format.many(servers.length, "server") + few : NONE) + lacking(patterns));
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

/** How many servers are in each state: buttons that show only these. */
class Chips {
  #buttons;

  constructor(changed) {
    const chosen = new Set((recall("state") ?? "").split(","));
    this.#buttons = new Map(TONES_OF_SERVERS.map((name) => [name, toggle(["", ""], changed, chosen.has(name))]));
    for (const [name, button] of this.#buttons) marks(button, { class: "chip", "data-tone": name });
    this.node = el("div", { class: "chips", role: "group", "aria-label": "Show only servers in these states" }, ...this.#buttons.values());
  }

  show(servers) {
    for (const [name, button] of this.#buttons) {
      const number = servers.filter((server) => tone(server) === name).length;
      button.hidden = !number && !isOn(button);
      say(button, `${wordOf(name)} ${format.count(number)}`);
    }
  }

  /** Whether servers in a state are shown: all are if none is chosen. */
  has(name) {
    return isOn(this.#buttons.get(name)) || !this.chosen();
  }

  chosen() {
    return TONES_OF_SERVERS.filter((name) => isOn(this.#buttons.get(name))).join(",");
  }

  clear() {
    for (const button of this.#buttons.values()) mark(button, "aria-pressed", "false");
  }
}

/** What the list does not have: servers without a name that should be there, and sockets beyond the bound. */
function lacking(patterns) {
  const missing = patterns.map((of) => Math.max(0, of.expected - of.found - of.missing)).reduce((sum, one) => sum + one, 0);
  const leftOut = patterns.map((of) => of.left_out).reduce((sum, one) => sum + one, 0);
  return (missing ? `; ${missing} expected and not there` : "") + (leftOut ? `; ${leftOut} left out: more than max_servers` : "");
}

/** uWSGIs that are not watched for one reason: which, and what has them watched. */
function describeOthers(found) {
  const more = found.number > found.names.length ? ` and ${found.number - found.names.length} more` : "";
  const names = `${found.names.join("; ")}${more}`;
  return el("p", {}, `${format.many(found.number, "uWSGI")} ${found.why}: ${names}. To have it watched: `, el("code", {}, found.act));
}

const text = (server) => [server.name, server.address, state(server), limit(server), server.verdict, act(server)].join(" ").toLowerCase();

const tone = (server) => (server.state === "up" ? server.status : server.state);
const wordOf = (tone) => (tone in STATES ? STATES[tone].toUpperCase() : STATUS[tone].join(" "));
const state = (server) => wordOf(tone(server)) + (server.state === "up" || server.age === null ? "" : ` ${format.duration(server.age)}`);
const limit = (server) => (server.first && server.state !== "down" ? LIMITS[server.first][0] : "");

/** What is wrong; in short if the host lacks it, which a line above the list says for all its servers. */
const verdict = (server) => (server.shared ? "The CPUs of its host are full." : unmarked(server.verdict));

const act = (server) => (server.shared ? "see above" : unmarked(server.act ?? ""));
const sharedTone = (server) => (server.shared ? "shared" : null);

function growth(server) {
  if (server.state === "down") return format.NOT_KNOWN;
  const factor = server.headroom === null && server.far.length ? ">100x" : format.factor(server.headroom);
  const sign = roomTone(server) ? `${STATUS[roomTone(server)][0]} ` : "";
  return sign + (server.is_upper_bound && server.headroom !== null ? `≤ ${factor}` : factor);
}

/** No room is a warning, also where nobody is hurt yet; unless it is the host's, which is said above. */
function roomTone(server) {
  const isLow = server.state === "up" && server.headroom !== null && server.headroom < NO_ROOM;
  if (!isLow || (server.shared && server.status === "ok")) return null;
  return server.status === "critical" ? "critical" : "warning";
}

const waitTone = (server) => (server.state === "up" ? (WAITING[server.waiting] ?? null) : null);
const wait = (server) => (waitTone(server) ? `${STATUS[waitTone(server)][0]} ` : "") + format.least(format.duration(server.queue_wait), server.wait_is_floor);
const clamped = () => el("span", { class: "clamp" });

const COLUMNS = [
  { head: "State", kind: "status", left: true, title: "if down: time since the last read",
    value: (server) => TONES_OF_SERVERS.indexOf(tone(server)), text: state, tone, node: () => el("span", { class: "chip" }) },
  column("Server", "name", plain, { kind: "server", left: true, hint: (server) => `${server.name}, ${server.address}`, node: (server) => el("a", { href: pageOf(server) }) }),
  { head: "Headroom", kind: "room",
    value: (server) => (server.state === "down" ? null : (server.headroom ?? (server.far?.length ? 1e9 : null))), text: growth, hint: (server) => limit(server) && `first limit: ${limit(server)}`, tone: roomTone },
  { head: "Verdict", kind: "says", left: true,
    value: (server) => server.verdict, text: verdict, hint: (server) => unmarked(server.verdict), tone: sharedTone, node: clamped },
  { head: "Do", kind: "act", left: true, title: "the first thing to do; in this order, what its own settings can solve comes before what its host lacks",
    value: (server) => server.place, text: act, hint: (server) => unmarked(server.act ?? ""), tone: sharedTone, node: clamped },
  { head: "Queue wait", kind: "rate", title: "mean time a request waits in the listen queue", value: (server) => server.queue_wait, text: wait, tone: waitTone },
  column("Response", "response_time", format.duration, { kind: "rate", title: "mean time in service" }),
  column("Served", "throughput", format.rate, { title: "requests per second", kind: "rate" }),
  { head: "Busy", kind: "rate", title: "mean requests in service, of the threads available",
    value: (server) => server.observed, text: (server) => (server.observed === null ? format.NOT_KNOWN : `${format.mean(server.observed)} of ${format.meanThreads(server.threads ?? server.available)}`) },
];

const FIRST = COLUMNS.findIndex((column) => column.head === "Do");
