// Shows the page of one server. Updates it with a new document every second, and with the history as it grows.

import * as address from "./address.js";
import { action, choice, toggle, windowsOf } from "./controls.js";
import { afterFrame, el, mark, say } from "./dom.js";
import { Events } from "./events.js";
import * as format from "./format.js";
import { Headline } from "./headline.js";
import { help } from "./help.js";
import { History, RANGES, rangeFor } from "./history.js";
import { line } from "./identity.js";
import { Keys } from "./keys.js";
import { panelsOf } from "./panels.js";
import { copy, text } from "./snapshot.js";
import { Stream } from "./stream.js";
import { parse, Timeline, written } from "./timeline.js";
import { STATES, STATUS } from "./words.js";

const GESTURES = [
  ["drag", "on a chart: zoom into the selected time"],
  ["double click", "on a chart: show the whole range again"],
  ["one finger", "on a chart: figures at that time"],
  ["two fingers", "on a chart: zoom to the time between them"],
];

/** Build the page into `main`. path: of the document in the API; page: the path of this page, for snapshots. */
export function show(main, { path, page, servers }) {
  const history = new History(path);
  const events = new Events(path);
  const timeline = new Timeline(zoom, whole);
  const headline = new Headline();
  const keys = new Keys();
  const over = el("div", { class: "controls" });
  const ranges = el("div", { class: "controls" });
  const zoomed = el("button", { type: "button", hidden: true, title: "Escape, or double click on a chart", click: whole });
  const back = el("div", { class: "controls wide" }, ranges, zoomed);
  const name = el("h1", {});
  const about = el("p", { class: "about" });
  const which = el("p", { class: "about which" });
  const body = el("div", {});
  let document_ = null;
  let laid = null;
  let range = null;
  let paused = false;
  let window_ = address.recall("window");

  const stream = new Stream(heard);
  const listen = () => stream.open(`${path}/events${window_ ? `?window=${window_}` : ""}`);
  const pausing = toggle("Pause", "Resume", pause);
  const controls = el("div", { class: "controls" }, pausing, action("Copy snapshot", snapshot), help([["p", "pause or resume", () => pausing.click()], ["Escape", "show the whole range again", whole]], GESTURES));
  const link = el("a", { href: "/" }, Number(servers) > 1 ? `All ${servers} servers` : "uwsgi-headroom");
  main.append(el("header", {}, el("div", { class: "name" }, link, name, about), controls, which), headline.node, over, keys.node, keys.explanation, body);

  function heard(server) {
    if (paused) return;
    const first = document_ === null;
    document_ = server;
    if (first) start(server);
    if (laid?.kind !== server.kind) lay(server.kind);
    redraw();
    if (events.add(server.events)) happened();
    follow();
  }

  function start(server) {
    range = RANGES.find((each) => String(each.seconds) === address.recall("range")) ?? rangeFor(server.sampling.history_seconds);
    const windows = windowsOf(server);
    over.replaceChildren(
      choice("Figures are over the last", windows, Number(window_) || windows[0].value, (chosen) => {
        window_ = chosen.value;
        address.remember("window", chosen.value);
        if (!paused) listen();
      }),
    );
    ranges.replaceChildren(
      choice("Charts show the last", RANGES.map((each) => ({ value: each.seconds, name: each.name, range: each })), range.seconds, (chosen) => {
        range = chosen.range;
        address.remember("range", chosen.value);
        whole();
      }),
    );
    const stretch = parse(address.recall("zoom"));
    if (stretch) zoom(stretch);
    else load(range);
    events.load().then(happened);
  }

  async function load(chosen) {
    await history.load(chosen);
    past();
  }

  async function follow() {
    if (await history.follow(document_.time)) past();
  }

  function zoom(stretch) {
    address.remember("zoom", written(stretch));
    say(zoomed, `Zoomed: ${format.timeOfDay(stretch.from)} to ${format.clock(stretch.until)} ✕`);
    zoomed.hidden = false;
    load(stretch);
  }

  function whole() {
    if (!range) return;
    address.remember("zoom", null);
    zoomed.hidden = true;
    load(range);
  }

  function happened() {
    timeline.events = events.list;
    if (laid) for (const part of laid.panels) part.happened?.(timeline.events);
    past();
  }

  function past() {
    if (laid && history.time.length) for (const part of laid.panels) part.past?.(history, document_);
  }

  function lay(kind) {
    const panels = panelsOf(kind, timeline);
    laid = { kind, panels };
    keys.node.hidden = keys.explanation.hidden = over.hidden = kind !== "server";
    // Panels with a time axis stay undimmed when figures are old.
    for (const part of panels) if (part.past || part.happened) part.node.classList.add("dated");
    const nodes = panels.flatMap((part) => (part.range ? [back, part.node] : (part.nodes ?? [part.node])));
    body.replaceChildren(el("div", { class: "grid" }, ...nodes));
    happened();
  }

  function redraw() {
    present();
    keys.show(document_);
    for (const part of laid.panels) if (!part.apart) part.now?.(document_);
    afterFrame(() => {
      for (const part of laid.panels) if (part.apart) part.now(document_);
    });
  }

  /** Show the headline, and whether the figures are current. */
  function present() {
    const server = document_;
    const state = paused ? "paused" : stream.lost ? "lost" : server.state;
    mark(main, "data-state", state);
    mark(main, "data-time", server.time);
    headline.show(server, trouble());
    say(name, server.name);
    say(about, [STATES[state], server.version && `uWSGI ${server.version}`, server.address].filter(Boolean).join(" · "));
    say(which, line(server));
    const sign = state === "up" ? STATUS[server.status][0] : STATES[state][0];
    const factor = server.state !== "down" && server.headroom?.factor ? format.factor(server.headroom.factor) : null;
    document.title = [sign, factor, server.name].filter(Boolean).join(" ");
  }

  /** Return a sentence that says why the figures are not current, or null if the figures are current. */
  function trouble() {
    const server = document_;
    const then = format.clock(server.read_at ?? server.time);
    if (paused) return `Paused: figures as of ${then}.`;
    if (stream.trouble) return `${stream.trouble}. Figures as of ${then}.`;
    if (stream.lost) return `The exporter has not answered for ${format.duration(stream.silentFor / 1000)}. Figures as of ${then}.`;
    if (server.state !== "up" && server.age !== null) return `Last read ${format.duration(server.age)} ago. Figures as of ${then}.`;
    return null;
  }

  function pause(now) {
    paused = now;
    if (paused) stream.close();
    else listen();
    if (document_) redraw();
  }

  const url = () => location.origin + page + address.query();
  async function snapshot() {
    return (await copy(text(document_, url(), trouble()))) ? "Copied" : "Copy snapshot";
  }

  setInterval(() => {
    if (!document_) return say(headline.verdict, stream.trouble ?? "Waiting for the exporter …");
    if (stream.lost || main.dataset.state === "lost") present();
  }, 1000);
  // A hidden page closes its stream: a browser allows six connections per host, and each stream costs the exporter CPU.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stream.close();
    else if (!paused) listen();
  });
  listen();
}
