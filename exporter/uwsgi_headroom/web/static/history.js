// Keeps the time that the charts show as columns: fetches a range whole once, then only what is new, also after a gap.

import { RANGES } from "./ranges.js";

const OLD_STEPS = 3; // older figures mean an outage
const LEAST_SLICES = 5; // the charts of an exporter that has just started are no narrower
const MINUTE = 60; // seconds: slices of this length or longer come from the exporter's file
const LATE = 3.1; // seconds: a sample that is up to three seconds late joins the one before
const WRITTEN = 6; // seconds after its end, a minute is in the file
const MOST_PAUSE = 30; // seconds between two requests that brought nothing new
const SHORT_MS = 10000;
const LONG_MS = 60000; // the exporter reads a whole file

export class History {
  #path;
  #wanted = null; // the range to show; `range` until it has been fetched whole
  #whole = false; // whether `range` needs to be fetched whole again
  #wholeAt = 0; // performance.now()
  #request = null;
  #quietUntil = 0; // performance.now(): no request before, because the last one brought nothing
  #now = 0; // epoch seconds, from the exporter's last document

  constructor(path) {
    this.#path = path;
    this.range = RANGES.at(-1);
    this.step = 0; // seconds, as the exporter chose: it can be longer than a range asks for
    this.columns = new Map([["time", []]]);
    this.trouble = null; // a sentence that says why what was asked for is missing
  }

  get time() {
    return this.columns.get("time");
  }

  /** A column by its dotted name, such as `concurrency.observed` or `workers.3.share`; null if there is none. */
  column(name) {
    return this.columns.get(name) ?? null;
  }

  /** What is between a prefix and a suffix in the names of columns. */
  names(prefix, suffix = "") {
    const found = [...this.columns.keys()].filter((name) => name.startsWith(prefix) && name.endsWith(suffix));
    return found.map((name) => name.slice(prefix.length, name.length - suffix.length));
  }

  /** The first and last instant shown, in epoch seconds: from the first figures of the range that was chosen, or from its
   * beginning; up to the newest figures, or up to now if those are old. */
  get span() {
    const { seconds, until } = this.range;
    if (until) return [until - seconds, until];
    const newest = this.#newest();
    const known = this.column("throughput")?.findIndex((value) => value !== null) ?? -1;
    const first = Math.min((this.time[Math.max(0, known)] ?? -Infinity) - this.step, newest - LEAST_SLICES * this.step);
    return [Math.max(newest - seconds, first), newest];
  }

  /** The seconds that the charts show without figures, after the first ones. */
  get blank() {
    const known = this.column("throughput") ?? [];
    const first = known.findIndex((value) => value !== null);
    const { time, step } = this;
    return time.reduce((sum, end, at) => {
      if (first < 0 || at <= first) return sum;
      const begin = time[at - 1];
      return sum + (known[at] === null ? end - begin : isGap(begin, end, step) ? end - begin - step : 0);
    }, 0);
  }

  /** Whether the columns are those of the range that was asked for last. */
  get isCurrent() {
    return this.range === this.#wanted;
  }

  #newest() {
    const last = this.time.at(-1) ?? -Infinity;
    const now = Math.floor(this.#now / this.step) * this.step;
    return now - last > OLD_STEPS * this.step ? now : last;
  }

  /**
   * Fetch another range: one of `ranges.js` up to now, or a stretch that ends at its `until`. Until it is there, the
   * columns are those of the previous range. If this fails, `trouble` says why, and `follow` tries again. Returns
   * whether the range was fetched.
   */
  async load(range) {
    this.#wanted = range;
    this.#request?.abort();
    this.#request = null;
    this.trouble = null;
    await this.#loadWhole();
    return this.isCurrent;
  }

  #loadWhole() {
    const range = this.#wanted;
    return this.#ask(range.seconds, range.points, (document) => {
      this.range = range;
      this.step = document.step;
      this.columns = withGaps(flatten(document), this.step);
      this.#whole = true;
      this.#wholeAt = performance.now();
    });
  }

  /** Fetch what is new at an instant (epoch seconds). Returns whether there is something new to draw. */
  async follow(now) {
    const before = this.span[1];
    this.#now = now;
    return (await this.#fetchNew(now)) || this.span[1] !== before;
  }

  async #fetchNew(now) {
    if (this.#request || !this.#wanted || performance.now() < this.#quietUntil) return false;
    if (!this.isCurrent || !this.#whole || this.#isCoarse) return this.#loadWhole();
    if (this.range.until) return false; // a stretch of the past has nothing new
    const last = this.time.at(-1) ?? now - this.range.seconds;
    if (now - last < this.step + (this.step < MINUTE ? 0.5 : WRITTEN)) return false;
    const most = Math.ceil(this.range.seconds / this.step);
    const slices = Math.min(most, Math.max(2, Math.ceil((now - last) / this.step) + 1));
    return this.#ask(slices * this.step, slices, (document) => this.#append(document));
  }

  // After the exporter's start, a short range is made of the file's minutes. Finer figures are there some time later.
  get #isCoarse() {
    const { seconds, points, until } = this.range;
    return !until && this.step > seconds / points && performance.now() - this.#wholeAt > seconds * 1000;
  }

  /** Returns whether there are newer slices, or the range is another one. */
  async #ask(seconds, points, use) {
    const range = this.#wanted;
    const until = range.until ? `&until=${range.until}` : "";
    const address = `${this.#path}/history?seconds=${seconds}&points=${points}${until}`;
    const mine = (this.#request = new AbortController());
    const timer = setTimeout(() => mine.abort(), range.seconds > RANGES.at(-1).seconds ? LONG_MS : SHORT_MS);
    const [before, shown] = [this.time.at(-1), this.range];
    let trouble = null;
    try {
      const answer = await fetch(address, { signal: mine.signal });
      const document = await answer.json().catch(() => null);
      if (!answer.ok) trouble = document?.error ?? `the exporter answers with status ${answer.status}`;
      else if (this.#request === mine && document) use(document);
    } catch {
      // Without an exporter, the headline says so. `follow` tries again with the next document.
      if (mine.signal.aborted) trouble = "the exporter has not answered in time";
    }
    clearTimeout(timer);
    if (this.#request !== mine) return false; // another range was chosen meanwhile
    this.#request = null;
    this.trouble = trouble;
    const isNew = before !== this.time.at(-1) || shown !== this.range;
    if (!isNew) this.#quietUntil = performance.now() + Math.min(MOST_PAUSE, seconds / points / 12) * 1000;
    return isNew;
  }

  #append(document) {
    if (document.step !== this.step) {
      this.#whole = false; // the exporter was started again: it has other slices
      return;
    }
    const fetched = flatten(document);
    const times = fetched.get("time");
    const last = this.time.at(-1) ?? -Infinity;
    const first = times.findIndex((time) => time > last + this.step / 2);
    if (first < 0) return;
    for (const column of fetched.values()) column.splice(0, first);
    // A line breaks where samples are missing.
    const gap = Number.isFinite(last) && isGap(last, times[0], this.step) ? [null] : [];
    const more = withGaps(fetched, this.step);
    const known = this.time.length;
    const added = more.get("time");
    for (const name of new Set([...this.columns.keys(), ...more.keys()])) {
      const column = this.columns.get(name) ?? new Array(known).fill(null);
      const breach = name === "time" ? gap.map(() => last + this.step) : gap;
      column.push(...breach, ...(more.get(name) ?? new Array(added.length).fill(null)));
      this.columns.set(name, column);
    }
    const old = this.time.findIndex((time) => time > this.time.at(-1) - this.range.seconds);
    if (old > 0) for (const column of this.columns.values()) column.splice(0, old);
  }
}

/** The columns of a document. Slices of minutes end at multiples of their step, also where the last sample is earlier. */
export function flatten(document) {
  const { step } = document;
  const time = step >= MINUTE ? document.time.map((end) => Math.ceil((end - MINUTE / 2) / step) * step) : document.time;
  const columns = new Map([["time", time]]);
  const take = (prefix, part) => {
    for (const [name, column] of Object.entries(part)) if (Array.isArray(column)) columns.set(prefix + name, column);
  };
  take("", { throughput: document.throughput, response_time: document.response_time, queue_wait: document.queue_wait });
  take("concurrency.", document.concurrency);
  take("threads.", document.threads);
  take("headroom.", document.headroom);
  const { states, threads, backend_names: names, backends } = document.waits;
  states.forEach((state, at) => columns.set(`waits.states.${state}`, threads[at]));
  names.forEach((name, at) => columns.set(`waits.backends.${name}`, backends[at]));
  const { shares, seconds, ...rest } = document.response_times;
  shares.forEach((share, at) => columns.set(`response_times.${share}`, seconds[at]));
  take("response_times.", rest);
  document.routes?.routes.forEach((route, at) => columns.set(`routes.${route}`, document.routes.threads[at]));
  for (const socket of document.sockets) take(`sockets.${socket.name}.`, socket);
  for (const worker of document.workers) take(`workers.${worker.worker_id}.`, worker);
  return columns;
}

/** Whether a line breaks between slices that end at these times: with a late sample, one is longer than the others. */
export const isGap = (before, time, step) => time - before > Math.max(1.5 * step, step + LATE);

/** The columns with an unknown slice in each gap: there are no slices while the exporter is not running. */
export function withGaps(columns, step) {
  const times = columns.get("time");
  const places = times.flatMap((time, at) => (at && isGap(times[at - 1], time, step) ? [null, at] : [at]));
  if (places.length === times.length) return columns;
  const filled = new Map();
  for (const [name, column] of columns) filled.set(name, places.map((at) => (at === null ? null : column[at])));
  filled.set("time", places.map((at, place) => (at === null ? times[places[place - 1]] + step : times[at])));
  return filled;
}
