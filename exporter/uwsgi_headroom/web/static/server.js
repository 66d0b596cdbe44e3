// The page of one server, kept up to date: the document once a second, and the history as it grows.

import { action, choice, toggle, windowsOf } from "./controls.js";
import { Columns } from "./columns.js";
import { el, mark, panel, say } from "./dom.js";
import { Findings } from "./findings.js";
import * as format from "./format.js";
import { Headline } from "./headline.js";
import { History, RANGES, rangeFor } from "./history.js";
import { Keys } from "./keys.js";
import { emperor, router } from "./others.js";
import { Residency } from "./residency.js";
import { sockets } from "./sockets.js";
import { copy, text } from "./snapshot.js";
import { Stream } from "./stream.js";
import * as timelines from "./timelines.js";
import { many, STATES, STATUS } from "./words.js";
import * as workers from "./workers.js";

/** Build it into `main`. path: of the document in the API; page: where this page is, to be pasted in a chat. */
export function show(main, { path, page, servers }) {
  const asked = new URLSearchParams(location.search);
  const history = new History(path);
  const headline = new Headline();
  const keys = new Keys();
  const controls = el("div", { class: "controls" });
  const over = el("div", { class: "controls" });
  const back = el("div", { class: "controls wide" });
  const name = el("h1", {});
  const about = el("p", { class: "about" });
  const body = el("div", {});
  let document_ = null;
  let laid = null;
  let paused = false;
  let window_ = asked.get("window");

  const stream = new Stream(heard);
  const listen = () => stream.open(`${path}/events${window_ ? `?window=${window_}` : ""}`);
  const link = el("a", { href: "/" }, Number(servers) > 1 ? `All ${servers} servers` : "uwsgi-headroom");
  main.append(el("header", {}, el("div", { class: "name" }, link, name, about), controls), headline.node, over, keys.node, body);

  function heard(server) {
    if (paused) return;
    const first = document_ === null;
    document_ = server;
    if (first) start(server);
    if (laid?.kind !== server.kind) lay(server.kind);
    redraw();
    follow();
  }

  function start(server) {
    const range = RANGES.find((each) => String(each.seconds) === asked.get("range")) ?? rangeFor(server.sampling.history_seconds);
    const ranges = RANGES.map((each) => ({ value: each.seconds, name: each.name, range: each }));
    const windows = windowsOf(server);
    over.replaceChildren(
      choice("Figures are means over the last", windows, Number(window_) || windows[0].value, (chosen) => {
        window_ = chosen.value;
        remember("window", chosen.value);
        if (!paused) listen();
      }),
    );
    back.replaceChildren(
      choice("Charts show the last", ranges, range.seconds, (chosen) => {
        remember("range", chosen.value);
        load(chosen.range);
      }),
    );
    controls.replaceChildren(
      toggle("Pause", "Resume", pause),
      action("Copy snapshot", async () => ((await copy(text(document_, address(), trouble()))) ? "Copied" : "Copy snapshot")),
    );
    load(range);
  }

  async function load(range) {
    await history.load(range);
    past();
  }

  async function follow() {
    if (await history.follow(document_.time)) past();
  }

  function past() {
    if (laid && history.time.length) for (const part of laid.panels) part.past?.(history, document_);
  }

  function lay(kind) {
    const panels = kind === "emperor" ? [emperor()] : kind === "router" ? [router()] : kind ? ofServer() : [];
    laid = { kind, panels };
    keys.node.hidden = kind !== "server";
    over.hidden = kind !== "server";
    const nodes = panels.flatMap((part) => part.nodes ?? [part.node]);
    if (kind === "server") nodes.splice(BEFORE_CHARTS, 0, back);
    body.replaceChildren(el("div", { class: "grid" }, ...nodes));
    past();
  }

  function redraw() {
    present();
    keys.show(document_);
    for (const part of laid.panels) part.now?.(document_);
  }

  /** The headline, and whether all this is the present. */
  function present() {
    const server = document_;
    const state = paused ? "paused" : stream.lost ? "lost" : server.state;
    mark(main, "data-state", state);
    mark(main, "data-time", server.time);
    headline.show(server, trouble());
    say(name, server.name);
    say(about, [STATES[state], server.version && `uWSGI ${server.version}`, server.address].filter(Boolean).join(" · "));
    const sign = state === "up" ? STATUS[server.status][0] : STATES[state][0];
    document.title = [sign, server.headroom?.factor && format.factor(server.headroom.factor), server.name].filter(Boolean).join(" ");
  }

  /** Why what is shown is not the present, in a sentence; null where it is. */
  function trouble() {
    const server = document_;
    const then = format.clock(server.read_at ?? server.time);
    if (paused) return `Paused: this is as of ${then}.`;
    if (stream.trouble) return `${stream.trouble}. This is as of ${then}.`;
    if (stream.lost) return `The exporter has not answered for ${format.duration(stream.silentFor / 1000)}: this is as of ${then}.`;
    if (server.state !== "up" && server.age !== null) return `Last read ${format.duration(server.age)} ago, at ${then}: figures are as of then.`;
    return null;
  }

  function pause(now) {
    paused = now;
    if (paused) stream.close();
    else listen();
    redraw();
  }

  function remember(key, value) {
    asked.set(key, value);
    globalThis.history.replaceState(null, "", `${location.pathname}?${asked}`);
  }

  const address = () => location.origin + page + (asked.size ? `?${asked}` : "");

  setInterval(() => {
    if (!document_) return say(headline.verdict, stream.trouble ?? "Waiting for the exporter …");
    if (stream.lost || main.dataset.state === "lost") present();
  }, 1000);
  // Out of sight a page listens to nothing: a browser has six connections to one host, and the exporter other work.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stream.close();
    else if (!paused) listen();
  });
  listen();
}

const BEFORE_CHARTS = 2;

function ofServer() {
  const findings = new Findings();
  const advice = panel("What to change", "the worst first", findings.node);
  advice.classList.add("wide");
  const levels = new Columns("Occupancy", { format: format.percent, height: 172 });
  const occupancy = panel("Occupancy", "share of the time at each level of busy threads, of those available", levels.node);
  const residency = new Residency();
  const sampling = el("p", { class: "hint" });
  const unknown = el("ul", { class: "unknown" });
  const watched = panel("How it is watched", "and what is not known", sampling, unknown);
  return [
    { node: advice, now: (server) => findings.show(server) },
    workers.sideBySide(),
    timelines.concurrency(),
    timelines.headroom(),
    timelines.throughput(),
    timelines.times(),
    timelines.queues(),
    { node: occupancy, now: (server) => levels.show(server.occupancy ? server.occupancy.shares.map((share, at) => level(server.occupancy, share, at)) : []) },
    workers.overTime(),
    sockets(),
    { node: panel("Worker × CPU", "which CPUs workers may use, and use", residency.node), now: (server) => residency.show(server) },
    { node: watched, now: (server) => watch(server, sampling, unknown) },
    workers.table(),
  ];
}

function level({ up_to: bounds }, share, at) {
  const last = at === bounds.length - 1;
  return { label: last ? "all" : `${Math.round(bounds[at] * 100)}%`, value: share, hot: last && share >= 0.05 };
}

function watch({ sampling, unknown }, sentence, list) {
  say(
    sentence,
    `Read every ${format.duration(sampling.interval)}, ${format.duration(sampling.read_seconds)} and ${format.bytes(sampling.document_bytes)} each; ` +
      `history of ${format.duration(sampling.history_seconds)}; ${format.duration(sampling.gap_seconds)} without samples; ` +
      `${many(sampling.reloads, "reload")} seen.`,
  );
  const elsewhere = unknown.filter((each) => each.what !== "residency"); // that has a panel of its own
  const sentences = elsewhere.map((each) => `${each.what}${each.socket ? ` of ${each.socket}` : ""}: ${each.why}`);
  if (list.dataset.unknown === sentences.join()) return;
  list.dataset.unknown = sentences.join();
  list.replaceChildren(...sentences.map((text) => el("li", {}, `Not known: ${text}.`)));
}
