// The load of an earlier time, to compare with: an hour or a day before, or before the last reload.

import { el, offer, recall, remember, say } from "./dom.js";
import { History } from "./history.js";
import { reach } from "./ranges.js";
import { inSystem } from "./waits.js";

const AGO = [
  { value: "3600", name: "the hour before", seconds: 3600 },
  { value: "86400", name: "the day before", seconds: 86400 },
];
const NONE = { value: "", name: "-" };
const LEAST_SLICES = 5; // of the earlier time that are kept, if it is offered
const LEAST_STEPS = 2; // a time that is nearer is hardly another one
const MOST_POINTS = 600; // that a request may ask for

export class Comparison {
  #changed;
  #past; // the history of the earlier time
  #asked = ""; // what of it was requested
  #until = 0; // up to which instant
  #wanted = recall("vs") ?? NONE.value;
  #chosen = NONE; // what is wanted, if it is offered
  #choice = el("div", {});
  #trouble = el("p", { class: "age trouble", role: "status" });

  /** path: of the server in the API; changed: called when there is another line to draw. */
  constructor(path, changed) {
    this.#changed = changed;
    this.#past = new History(path);
    this.node = el("div", { class: "controls" }, this.#choice, this.#trouble);
  }

  /** Offer what is kept, and fetch what is chosen: once for as much again as the charts show. reload: the time of the
   * last one before the end of the history, or null. */
  async now(document, history, reload) {
    if (!history.isCurrent || !history.time.length) return;
    const { range, step, span: [, end] } = history;
    const since = document.time - reach(document);
    const offered = AGO.filter(({ seconds }) => seconds >= LEAST_STEPS * step).map((ago) => ({ ...ago, end: end - ago.seconds }));
    if (reload) offered.unshift({ value: "reload", name: "before the reload", end: reload });
    const kept = offered.filter((each) => each.end - since >= LEAST_SLICES * step);
    const before = this.#chosen;
    this.#chosen = kept.find(({ value }) => value === this.#wanted) ?? NONE;
    this.node.hidden = !kept.length;
    offer(this.#choice, "vs", [NONE, ...kept], this.#chosen.value, ({ value }) => {
      this.#wanted = value;
      remember("vs", value);
      this.now(document, history, reload);
    });
    const { columns } = this.#past;
    if (this.#chosen !== NONE) await this.#fetch(document, range, step);
    say(this.#trouble, this.#chosen !== NONE && this.#past.trouble ? `Nothing to compare with: ${this.#past.trouble}.` : "");
    if (columns !== this.#past.columns || before.value !== this.#chosen.value) this.#changed();
  }

  // What was fetched is enough until the charts have moved past its end. After a failure, `follow` tries again.
  #fetch({ time }, { seconds, until = "" }, step) {
    const { value, seconds: ago = 0, end } = this.#chosen;
    const asked = [value, seconds, step, until].join();
    if (asked === this.#asked && end <= this.#until) return this.#past.follow(time);
    this.#asked = asked;
    const points = Math.round(seconds / step);
    const later = until ? 0 : Math.min(points, MOST_POINTS - points, Math.floor(ago / step));
    this.#until = end + later * step;
    return this.#past.load({ seconds: (points + later) * step, points: points + later, until: this.#until });
  }

  /** The line to draw, if any. That from before a reload begins at the reload, and ends with the last slice before it. */
  lines(history) {
    const { seconds, end, name } = this.#chosen;
    const { time: times, step } = this.#past;
    if (!end || !times.length || !history.time.length) return [];
    const load = inSystem(this.#past);
    const shift = seconds ?? history.span[1] - end;
    let at = 0;
    const values = history.time.map((time) => {
      if (!seconds && time <= end) return null;
      const middle = time - history.step / 2 - shift;
      while (times[at] < middle) at += 1;
      return times[at] - step < middle ? load[at] : null;
    });
    return [{ column: "compared", name, colour: "ink", width: 1.5, dotted: true, values }];
  }
}
