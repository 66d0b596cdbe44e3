// Shows the page of one server. Updates it with a new document every second, and with the history as it grows.

import { isMarked } from "./canvas.js";
import { Comparison } from "./comparison.js";
import { action, afterFrame, el, help, isOn, mark, offer, query, recall, remember, say, toggle, visible } from "./dom.js";
import { Events, listedSpan } from "./events.js";
import * as format from "./format.js";
import { Headline } from "./headline.js";
import { History } from "./history.js";
import { copy, Keys, text, textOf } from "./keys.js";
import { adder, panelsOf } from "./panels.js";
import { finest, moved, Ranges, reach, Timeline } from "./ranges.js";
import { Stream } from "./stream.js";
import { whatIf } from "./what_if.js";
import { STATES, STATUS } from "./words.js";

const LEAST_SLICES = 10; // the shortest stretch that a zoom shows
const GESTURES = [
  ["drag", "on a chart: zoom into the selected time"],
  ["double click", "on a chart: show the whole range again"],
  ["one finger", "on a chart: figures at that time"],
  ["two fingers", "on a chart: zoom to the time between them"],
];

/** Build the page into `main`. path: of the document in the API; page: the path of this page, for snapshots. */
export function show(main, { path, page, servers, others }) {
  const history = new History(path);
  const events = new Events(path);
  const ranges = new Ranges(load);
  const comparison = new Comparison(path, past);
  const timeline = new Timeline((stretch) => ranges.zoom(stretch), () => ranges.whole(), least);
  const predictions = whatIf();
  const headline = new Headline(copy, () => predictions.open());
  const keys = new Keys();
  const over = el("div", { class: "controls" });
  const name = el("h1", {});
  const about = el("p", { class: "about" });
  const body = el("div", { "aria-busy": "true" });
  const sections = el("nav", { class: "sections", "aria-label": "Sections" });
  let document_ = null;
  let laid = null;
  let paused = false;
  let drawing = null; // the panels whose charts are still to be drawn; null before the first figures
  let window_ = recall("window");

  const stream = new Stream(heard);
  const listen = () => stream.open(`${path}/events${window_ ? `?window=${window_}` : ""}`);
  const pausing = toggle(["Pause", "Resume"], pause);
  const marking = toggle(["Marks", "Marks"], (on) => {
    remember("marks", on ? null : "off");
    happened();
  }, recall("marks") !== "off");
  const KEYS = [
    ["p", "pause or resume", () => pausing.click()],
    ["m", "charts: marks of events on or off", () => marking.click()],
    ["[", "charts: earlier", () => move({ by: -0.5 })],
    ["]", "charts: later", () => move({ by: 0.5 })],
    ["+", "charts: zoom in", () => move({ scale: 0.5 })],
    ["-", "charts: zoom out", () => move({ scale: 2 })],
    ["Escape", "show the whole range again", () => ranges.whole()],
  ];
  const controls = el("div", { class: "controls" }, over, pausing, action("Copy", snapshot), help(KEYS, GESTURES));
  const unwatched = others ? `, ${others} not watched` : "";
  const link = el("a", { href: "/servers" }, (Number(servers) > 1 ? `All ${servers} servers` : "uwsgi-headroom") + unwatched);
  ranges.node.append(comparison.node, marking);
  main.append(el("header", {}, el("div", { class: "name" }, link, name, about), controls), headline.node, keys.node, sections, body);
  // The bar names the verdict once the banner is out of sight.
  new IntersectionObserver(([{ isIntersecting }]) => mark(sections, "data-stuck", !isIntersecting)).observe(headline.node);

  function heard(server) {
    if (paused) return;
    const first = document_ === null;
    document_ = server;
    redraw();
    if (first) afterFrame(start); // the first figures come before all panels
    else if (laid) update();
  }

  function update() {
    if (laid?.kind !== document_.kind) lay(document_.kind);
    ranges.now(document_);
    if (events.add(document_.events)) happened();
    follow();
  }

  function start() {
    const windows = document_.windows.map(({ asked }) => ({ value: asked, name: format.duration(asked) }));
    offer(over, "Over", windows, Number(window_) || windows[0].value, ({ value }) => {
      window_ = value;
      remember("window", value);
      if (!paused) listen();
    });
    ranges.start(document_);
    events.load(document_.time).then(happened);
    update();
  }

  async function load(chosen) {
    const isFetched = await history.load(chosen);
    ranges.fetched(history);
    if (!isFetched) return;
    happened();
    if (document_.kept_history && (await events.load(document_.time, history.span[0]))) happened();
    compare();
  }

  function compare() {
    const { deploy } = document_;
    const end = history.span[1];
    comparison.now(document_, history, deploy?.time < end ? deploy.first : events.reloaded(end));
  }

  async function follow() {
    const range = history.range;
    const isNew = await history.follow(document_.time);
    ranges.fetched(history);
    if (range !== history.range) happened();
    else if (isNew) past();
    compare();
  }

  /** The shortest stretch to zoom to that begins at an instant. */
  function least(from) {
    const { kept_history: kept, sampling, time } = document_;
    return LEAST_SLICES * (kept?.since ? finest(time - from, sampling.history_seconds) : 1);
  }

  function move(how) {
    if (!history.isCurrent || !history.step) return;
    const stretch = moved(history.span, document_.time, how);
    const longest = Math.max(reach(document_), history.range.seconds);
    if (least(stretch.from) <= stretch.seconds && stretch.seconds <= longest) ranges.zoom(stretch);
  }

  function happened() {
    if (!document_) return;
    const span = listedSpan(history, document_.time);
    const listed = events.list(...span);
    timeline.events = isOn(marking) ? listed.filter(isMarked) : [];
    if (laid) for (const part of laid.panels) part.happened?.(listed, span);
    past();
  }

  // A chart after each frame: all of them in one frame would take longer than a frame may.
  function past() {
    if (!laid || !(history.time.length || drawing)) return;
    const rest = laid.panels.filter((part) => part.past);
    const mine = (drawing = rest);
    const next = () => {
      if (drawing !== mine) return;
      rest.shift()?.past(history, document_);
      if (rest.length) afterFrame(next);
    };
    afterFrame(next);
  }

  // A panel after each frame, in their order.
  function lay(kind) {
    const plan = panelsOf(kind, timeline, { predictions, ranges, comparison });
    const mine = (laid = { kind, panels: [] });
    const grid = el("div", { class: "grid" });
    const links = el("div", { class: "links" });
    const add = adder(grid);
    mark(body, "aria-busy", true);
    body.replaceChildren(grid);
    sections.replaceChildren(el("span", { class: "now" }), links);
    const next = () => {
      if (laid !== mine) return;
      if (!plan.length) {
        mark(body, "aria-busy", null);
        if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
        return;
      }
      const { make, ...place } = plan.shift();
      const part = { ...place, ...make() };
      // Panels with a time axis stay undimmed when figures are old.
      if (part.past || part.happened) part.node.classList.add("dated");
      if (part.section) {
        part.node.id = part.section.toLowerCase();
        links.append(el("a", { href: `#${part.node.id}` }, part.section));
      }
      add(part);
      laid.panels.push(part);
      part.now?.(document_);
      if (drawing) part.past?.(history, document_);
      if (part.happened) happened();
      afterFrame(next);
    };
    next();
  }

  function redraw() {
    present();
    keys.show(document_);
    keys.node.hidden = sections.hidden = over.hidden = document_.kind !== "server";
    if (!laid) return;
    for (const part of laid.panels) if (!part.apart) part.now?.(document_);
    afterFrame(() => {
      for (const part of laid.panels) if (part.apart) part.now(document_);
    });
  }

  function present() {
    const server = document_;
    const state = paused ? "paused" : stream.lost ? "lost" : server.state;
    mark(main, "data-state", state);
    mark(main, "data-time", server.time);
    headline.show(server, trouble(), state === "lost" ? stream.silentFor / 1000 : null);
    say(name, server.name);
    say(about, brief(server));
    mark(about, "title", textOf(server, "identity"));
    const stuck = sections.querySelector(".now");
    if (stuck) say(stuck, `${headline.chip.textContent} ${headline.verdict.textContent}`);
    mark(sections, "data-status", headline.node.dataset.status);
    const sign = state === "up" ? STATUS[server.status][0] : STATES[state][0];
    const factor = server.state !== "down" && server.headroom?.factor ? format.factor(server.headroom.factor) : null;
    document.title = visible([sign, factor, server.name].filter(Boolean).join(" "));
  }

  /** Return a sentence that says why the figures are not current, or null if the figures are current. */
  function trouble() {
    const server = document_;
    const then = format.clock(server.read_at ?? server.time);
    if (paused) return `Paused: figures as of ${then}.`;
    if (stream.trouble) return `${stream.trouble}. Figures as of ${then}.`;
    if (stream.lost || server.state === "down") return server.read_at ? `Figures as of ${then}.` : null;
    if (server.state !== "up" && server.age !== null) return `Last read ${format.duration(server.age)} ago. Figures as of ${then}.`;
    return null;
  }

  function pause(now) {
    paused = now;
    if (paused) stream.close();
    else listen();
    if (document_) redraw();
  }

  async function snapshot() {
    return (await copy(text(document_, location.origin + page + query(), trouble()))) ? "Copied" : "Copy";
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

/** The version, the host and the time since the start, for the first line of the page; down, it is not up. */
function brief({ version, identity, address, state }) {
  const { host, uptime = null } = identity ?? {};
  const which = [version ? `uWSGI ${version}` : address, host && `on ${host}`].filter(Boolean).join(" ");
  return [which, uptime !== null && state !== "down" && `up ${format.duration(uptime)}`].filter(Boolean).join(", ");
}
