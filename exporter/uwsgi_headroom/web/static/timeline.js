// The state that all charts over time share: the events to mark, and the zoom into a stretch of time.

/** The shortest stretch that a zoom shows, in seconds. */
const LEAST_SECONDS = 10;
const MOST_POINTS = 240;

export class Timeline {
  #zoomed;
  #back;

  /** zoomed: called with a range for `History.load`; back: called to show the whole range again. */
  constructor(zoomed, back) {
    this.#zoomed = zoomed;
    this.#back = back;
    this.events = [];
    this.dragged = null; // the plot on which a drag began: every plot sees the end of the drag
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

  /** The newest event within so many seconds of an instant; null if there is none. */
  near(time, seconds) {
    return this.events.find((event) => Math.abs(event.time - time) <= seconds) ?? null;
  }
}

/** A range of the history that ends in the past, in whole steps, at most as many as a chart has room for. */
export function stretch(from, until) {
  const step = Math.max(1, Math.ceil((until - from) / MOST_POINTS));
  const points = Math.max(2, Math.ceil((until - from) / step));
  return { seconds: points * step, points, until, from };
}

/** A stretch as it is written in the URL. */
export const written = ({ from, until }) => `${from}-${until}`;

/** Read a stretch from the URL; null if the text is none. */
export function parse(text) {
  const [, from, until] = /^(\d{1,12})-(\d{1,12})$/.exec(text ?? "") ?? [];
  return Number(until) > Number(from) && until - from <= 3600 ? stretch(Number(from), Number(until)) : null;
}
