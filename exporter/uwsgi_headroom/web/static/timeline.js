// What all charts over time share: the events that they mark, and zooming into a stretch of time.

/** Seconds that a zoom shows at least. */
const LEAST_SECONDS = 10;
const MOST_POINTS = 240;

export class Timeline {
  #zoomed;
  #back;

  /** Make one that calls `zoomed` with a range for `History.load`, and `back` where the reader wants the whole again. */
  constructor(zoomed, back) {
    this.#zoomed = zoomed;
    this.#back = back;
    this.events = [];
    this.dragged = null; // the plot that a drag began on: its end reaches all of them
  }

  /** Show the time between two instants, in epoch seconds. */
  zoom(one, other) {
    const middle = (one + other) / 2;
    const half = Math.max(Math.abs(one - other), LEAST_SECONDS) / 2;
    this.#zoomed(stretch(Math.floor(middle - half), Math.ceil(middle + half)));
  }

  back() {
    this.#back();
  }

  /** The newest event within so many seconds of an instant; null where there is none. */
  near(time, seconds) {
    return this.events.find((event) => Math.abs(event.time - time) <= seconds) ?? null;
  }
}

/** A range of the history that has an end: in whole steps, as many as a chart has room for. */
export function stretch(from, until) {
  const step = Math.max(1, Math.ceil((until - from) / MOST_POINTS));
  const points = Math.max(2, Math.ceil((until - from) / step));
  return { seconds: points * step, points, until, from };
}

/** A stretch as it stands in the address. */
export const written = ({ from, until }) => `${from}-${until}`;

/** The stretch of an address; null where it is none. */
export function parse(text) {
  const [, from, until] = /^(\d{1,12})-(\d{1,12})$/.exec(text ?? "") ?? [];
  return Number(until) > Number(from) && until - from <= 3600 ? stretch(Number(from), Number(until)) : null;
}
