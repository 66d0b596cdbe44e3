// Keeps the last hour as columns: fetches a range whole once, then only what is new, also after a gap.

export const RANGES = [
  { seconds: 300, points: 150, name: "5 m" },
  { seconds: 900, points: 180, name: "15 m" },
  { seconds: 3600, points: 240, name: "1 h" },
];

/** The shortest range that covers so many seconds, or else the longest. */
export const rangeFor = (seconds) => RANGES.find((range) => range.seconds >= seconds) ?? RANGES.at(-1);

const OLD_STEPS = 3; // older figures mean an outage

export class History {
  #path;
  #turn = null;
  #now = 0; // epoch seconds, from the exporter's last document
  #stale = true; // until the range has been fetched whole, the columns are those of the previous range

  constructor(path) {
    this.#path = path;
    this.range = RANGES.at(-1);
    this.step = 0;
    this.columns = new Map([["time", []]]);
  }

  get time() {
    return this.columns.get("time");
  }

  /** A column by its dotted name, such as `concurrency.observed` or `workers.3.share`; null if there is none. */
  column(name) {
    return this.columns.get(name) ?? null;
  }

  /** What follows a prefix in the names of columns. */
  names(prefix) {
    return [...this.columns.keys()].filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  }

  /** The newest value of a column; null if there is none. */
  newest(name) {
    return this.column(name)?.at(-1) ?? null;
  }

  /** The first and last instant shown, in epoch seconds: up to the newest figures, or up to now if those are old. */
  get span() {
    const until = this.range.until ?? this.#newest();
    return [until - this.range.seconds, until];
  }

  #newest() {
    const last = this.time.at(-1) ?? -Infinity;
    const now = Math.floor(this.#now / this.step) * this.step;
    return now - last > OLD_STEPS * this.step ? now : last;
  }

  /**
   * Fetch another range: one of `RANGES` up to now, or a stretch that ends at its `until`. If this fails, `follow` tries
   * again. Returns whether the range was fetched.
   */
  async load(range) {
    this.range = range;
    this.step = range.seconds / range.points;
    this.#stale = true;
    return this.#loadWhole();
  }

  async #loadWhole() {
    await this.#ask(this.range.seconds, (fetched) => {
      this.columns = fetched;
      this.#stale = false;
    });
    return !this.#stale;
  }

  /** Fetch what is new at an instant (epoch seconds). Returns whether there is something new to draw. */
  async follow(now) {
    const before = this.span[1];
    this.#now = now;
    return (await this.#fetchNew(now)) || this.span[1] !== before;
  }

  async #fetchNew(now) {
    if (this.#turn || !this.step) return false;
    if (this.#stale) return this.#loadWhole();
    if (this.range.until) return false; // a stretch of the past has nothing new
    const last = this.time.at(-1) ?? now - this.range.seconds;
    if (now - last < this.step + 0.5) return false;
    const slices = Math.min(this.range.points, Math.max(2, Math.ceil((now - last) / this.step) + 1));
    return this.#ask(slices * this.step, (fetched) => this.#append(fetched));
  }

  async #ask(seconds, use) {
    const range = this.range;
    const until = range.until ? `&until=${range.until}` : "";
    const address = `${this.#path}/history?seconds=${seconds}&points=${seconds / this.step}${until}`;
    const mine = (this.#turn = fetch(address, { signal: AbortSignal.timeout(10000) }));
    try {
      const answer = await mine;
      const document = answer.ok ? await answer.json() : null;
      if (this.range !== range || !document) return false; // another range was chosen meanwhile
      const before = this.time.at(-1);
      use(flatten(document));
      return before !== this.time.at(-1);
    } catch {
      return false; // `follow` tries again with the next document
    } finally {
      if (this.#turn === mine) this.#turn = null;
    }
  }

  #append(fetched) {
    const times = fetched.get("time");
    const last = this.time.at(-1) ?? -Infinity;
    const first = times.findIndex((time) => time > last + this.step / 2);
    if (first < 0) return;
    // A line breaks where samples are missing.
    const gap = times[first] - last > 1.5 * this.step && Number.isFinite(last) ? [null] : [];
    const known = this.time.length;
    const until = times.at(-1);
    for (const name of new Set([...this.columns.keys(), ...fetched.keys()])) {
      const column = this.columns.get(name) ?? new Array(known).fill(null);
      const more = fetched.get(name) ?? new Array(times.length).fill(null);
      const breach = name === "time" ? gap.map(() => last + this.step) : gap;
      column.push(...breach, ...more.slice(first));
      this.columns.set(name, column);
    }
    const old = this.time.findIndex((time) => time > until - this.range.seconds);
    if (old > 0) for (const column of this.columns.values()) column.splice(0, old);
  }
}

/** Turn a history document into a map of columns, each as long as `time`. */
function flatten(document) {
  const columns = new Map([["time", document.time]]);
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
