// The state that all charts over time share: the events to mark, and the zoom into a stretch of time.

import { severity } from "./marks.js";

const MOST_POINTS = 240;
const MOST_LONG_POINTS = 366; // of minutes and more, in steps that read well
export const LONGEST = 731 * 86400; // seconds: the most that an exporter keeps
const MINUTE = 60;
const STEPS = [1, 2, 3, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 5760].map((minutes) => minutes * MINUTE);

export class Timeline {
  #zoomed;
  #least;
  #watchers = [];

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

  /** Show the time between two instants, in epoch seconds. */
  zoom(one, other) {
    const middle = (one + other) / 2;
    const half = Math.max(Math.abs(one - other), this.#least(Math.min(one, other))) / 2;
    this.#zoomed(stretch(Math.floor(middle - half), Math.ceil(middle + half)));
  }

  /** Call `act` with the instant under the pointer of any chart; with null once it is on none. */
  onPoint(act) {
    this.#watchers.push(act);
  }

  /** Say which instant is under the pointer. */
  point(time) {
    for (const act of this.#watchers) act(time);
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

/** A stretch as it is written in the URL. */
export const written = ({ from, until }) => `${from}-${until}`;

/** Read a stretch from the URL; null if the text is none. */
export function parse(text) {
  const [, from, until] = /^(\d{1,12})-(\d{1,12})$/.exec(text ?? "") ?? [];
  return Number(until) > Number(from) && until - from <= LONGEST ? stretch(Number(from), Number(until)) : null;
}
