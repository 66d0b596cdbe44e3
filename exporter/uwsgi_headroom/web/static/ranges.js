// The choice of the time that the charts show, as far as the history reaches, and a sentence about that history; and what all
// charts over time share: the events to mark, and the zoom into a stretch of time.

import { severity } from "./canvas.js";
import { el, mark, offer, recall, remember, say } from "./dom.js";
import { between, dated, duration } from "./format.js";

const HOUR = 3600;
const DAY = 24 * HOUR;
const MEMORY = HOUR; // seconds that the exporter has without a file

/** Always there: the exporter has them in memory. */
export const RANGES = [
  { seconds: 300, points: 150, name: "5 m" },
  { seconds: 900, points: 180, name: "15 m" },
  { seconds: HOUR, points: 240, name: "1 h" },
];

/** From the file. Steps are whole minutes, quarters of an hour, or hours. */
const KEPT = [
  { seconds: 6 * HOUR, points: 360, name: "6 h" },
  { seconds: DAY, points: 288, name: "1 d" },
  { seconds: 7 * DAY, points: 336, name: "7 d" },
  { seconds: 30 * DAY, points: 360, name: "30 d" },
  { seconds: 90 * DAY, points: 360, name: "90 d" },
  { seconds: 365 * DAY, points: 365, name: "1 y" },
  { seconds: 730 * DAY, points: 365, name: "2 y" },
];
const TIERS = "Kept: minutes for 14 days, quarters of an hour for 90 days, hours for 2 years.";
const LONG_STEP = 900; // seconds: peaks are shorter
const SLOW_MS = 300; // a fetch that takes longer is named

/** The seconds that a document's history reaches back. */
export const reach = ({ kept_history: kept, sampling, time }) => Math.max(sampling.history_seconds, kept?.since ? time - kept.since : 0);

/** The ranges that a history has figures for: those shorter than its reach, and the first that covers it. */
export function offered(server) {
  const seconds = reach(server);
  const last = KEPT.findIndex((range) => range.seconds >= seconds);
  return seconds > MEMORY ? [...RANGES, ...KEPT.slice(0, last < 0 ? KEPT.length : last + 1)] : RANGES;
}

/** The shortest range in memory that covers so many seconds, or else the longest. */
export const rangeFor = (seconds) => RANGES.find((range) => range.seconds >= seconds) ?? RANGES.at(-1);

/** The shortest slices that are kept of a time so many seconds ago. */
export const finest = (age, memory = MEMORY) => FINEST.find(([most, step]) => age <= (step < 60 ? Math.min(most, memory) : most))[1];

const FINEST = [[360, 1], [960, 5], [MEMORY, 15], [14 * DAY, 60], [90 * DAY, 900], [Infinity, HOUR]];

export class Ranges {
  #load;
  #choice = el("div", { class: "controls" });
  #zoomed;
  #note = el("p", { class: "hint problem" });
  #trouble = el("p", { class: "age trouble", role: "status" });
  #range = null; // the range chosen, which a zoom goes back to
  #timer = 0;

  /** load: called with a range, or a stretch of the past, to show. */
  constructor(load) {
    this.#load = load;
    this.#zoomed = el("button", { type: "button", hidden: true, title: "Escape, or double click on a chart", click: () => this.whole() });
    this.node = el("div", { class: "controls ranges" }, this.#choice, this.#zoomed, this.#note, this.#trouble);
  }

  /** Show the range of the URL, or the shortest one that covers what there is. */
  start(server) {
    const ranges = offered(server);
    this.#range = ranges.find((range) => String(range.seconds) === recall("range")) ?? rangeFor(reach(server));
    this.now(server);
    const zoom = parse(recall("zoom"));
    if (zoom) this.zoom(zoom);
    else this.#begin(this.#range);
  }

  /** Offer the ranges of a document's history, and say why it is not written. */
  now(server) {
    say(this.#note, server.kept_history?.problem ? about(server) : "");
    const ranges = offered(server);
    if (!ranges.includes(this.#range)) ranges.push(this.#range); // what was kept of it may be deleted by now
    offer(this.#choice, "Last", ranges.map((range) => ({ value: range.seconds, name: range.name, range })), this.#range.seconds, ({ range }) => {
      this.#range = range;
      remember("range", range.seconds);
      this.whole();
    });
  }

  zoom(stretch) {
    remember("zoom", written(stretch));
    say(this.#zoomed, `Zoomed: ${between(stretch.from, stretch.until)} ✕`);
    this.#zoomed.hidden = false;
    this.#begin(stretch);
  }

  whole() {
    if (!this.#range) return;
    remember("zoom", null);
    this.#zoomed.hidden = true;
    this.#begin(this.#range);
  }

  #begin(range) {
    const name = range.name ? `the last ${range.name}` : between(range.from, range.until);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#warn(`Reading ${name} …`, false), SLOW_MS);
    this.#load(range);
  }

  /** Say whether the charts show what was chosen. Call when a fetch has ended. */
  fetched(history) {
    if (!history.isCurrent && !history.trouble) return; // `Reading …` stays
    clearTimeout(this.#timer);
    const old = history.isCurrent ? "Charts are not updated" : "Charts still show the previous range";
    this.#warn(history.trouble ? `${old}: ${history.trouble}.` : remark(history), Boolean(history.trouble));
  }

  #warn(text, isTrouble) {
    say(this.#trouble, text);
    mark(this.#trouble, "class", isTrouble ? "age trouble" : "hint");
  }
}

function remark({ time, step, range, blank }) {
  if (!time.length) return range.until ? "No figures are kept of this time." : "No figures of this time yet.";
  const remarks = [];
  if (blank >= 1) remarks.push(`Charts are empty for ${duration(blank)}: uWSGI's master did not answer, or the exporter did not run.`);
  if (step >= LONG_STEP) remarks.push(`Each point is a mean over ${duration(step)}, which is lower than the peaks in it: zoom in to see them.`);
  return remarks.join(" ");
}

/** How far back the charts of a document reach, and why its history is not written. */
export function about({ kept_history: kept, time: now }) {
  if (!kept) return "Charts reach back one hour; with --history FILE, the exporter keeps up to two years.";
  const since = kept.since === null ? "" : `History since ${dated(kept.since)} (${duration(now - kept.since)}).`;
  if (kept.problem) return `${since} The history is not written: ${kept.problem}.`.trim();
  return `${since || "The history begins with the next minute."} ${TIERS}`;
}

/** The stretch `scale` times as long as what is shown, moved by so many lengths, but not beyond now. */
export function moved([from, until], now, { scale = 1, by = 0 }) {
  const length = until - from;
  const end = Math.min((from + until) / 2 + by * length + (scale * length) / 2, now);
  return stretch(Math.floor(end - scale * length), Math.floor(end));
}

const MOST_POINTS = 240;
const MOST_LONG_POINTS = 366; // of minutes and more, in steps that read well
export const LONGEST = 731 * 86400; // seconds: the most that an exporter keeps
const MINUTE = 60;
const STEPS = [1, 2, 3, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 5760].map((minutes) => minutes * MINUTE);

export class Timeline {
  #zoomed;
  #least;
  watchers = []; // called with the instant under the pointer of any chart; with null once it is on none

  /**
   * zoomed: called with a range for `History.load`; back: called to show the whole range again; least: returns the
   * shortest stretch in seconds that begins at an instant.
   */
  constructor(zoomed, back, least) {
    this.#zoomed = zoomed;
    this.#least = least;
    this.back = back;
    this.events = []; // newest first
    this.dragged = null; // the plot on which a drag began: every plot sees the end of the drag
  }

  zoom(one, other) {
    const middle = (one + other) / 2;
    const half = Math.max(Math.abs(one - other), this.#least(Math.min(one, other))) / 2;
    this.#zoomed(stretch(Math.floor(middle - half), Math.ceil(middle + half)));
  }

  point(time) {
    for (const act of this.watchers) act(time);
  }

  /** What happened between two instants, as text: the worst event, the newest of these, and how many more; or null. */
  near(from, until) {
    const near = this.events.filter((event) => from <= event.time && event.time <= until);
    if (!near.length) return null;
    const worst = near.reduce((worst, event) => (severity(event) > severity(worst) ? event : worst));
    return near.length > 1 ? `${worst.title} (and ${near.length - 1} more)` : worst.title;
  }
}

/** A range of the history that ends in the past, in whole steps, at most as many as a chart has room for. */
export function stretch(from, until) {
  const step = Math.max(1, Math.ceil((until - from) / MOST_POINTS));
  if (step >= MINUTE) return long(from, until);
  const points = Math.max(2, Math.ceil((until - from) / step));
  return { seconds: points * step, points, until, from };
}

/** Slices of minutes end at multiples of their step. */
function long(from, until) {
  const step = STEPS.find((step) => (until - from) / step <= MOST_LONG_POINTS) ?? STEPS.at(-1);
  const end = Math.ceil(until / step) * step;
  const points = Math.min(Math.ceil((end - from) / step), Math.floor(LONGEST / step));
  return { seconds: points * step, points, until: end, from: end - points * step };
}

export const written = ({ from, until }) => `${from}-${until}`; // a stretch as it is written in the URL

/** Read a stretch from the URL; null if the text is none. */
export function parse(text) {
  const [, from, until] = /^(\d{1,12})-(\d{1,12})$/.exec(text ?? "") ?? [];
  return Number(until) > Number(from) && until - from <= LONGEST ? stretch(Number(from), Number(until)) : null;
}
