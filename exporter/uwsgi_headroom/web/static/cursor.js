// Moves the pointer of a chart without a mouse: by keyboard, as a slider whose text has the values, or by touch.

import { mark } from "./dom.js";

const STEPS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  PageUp: [-10, 0],
  PageDown: [10, 0],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
};

/** move(across, down): moves the pointer, and returns {at, last, text} of where it is, or null; leave: takes it away. */
export function steer(node, move, leave) {
  const point = ({ at, last, text }) => {
    const state = { "aria-valuenow": at, "aria-valuemax": last, "aria-valuetext": text };
    for (const [name, value] of Object.entries(state)) mark(node, name, value);
  };
  const attributes = { role: "slider", tabindex: 0, "aria-valuemin": 0 };
  for (const [name, value] of Object.entries(attributes)) mark(node, name, value);
  point({ at: 0, last: 0, text: "arrow keys show values" });
  node.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const moved = step && !event.ctrlKey && !event.altKey && !event.metaKey ? move(...step) : null;
    if (!moved) return;
    event.preventDefault();
    point(moved);
  });
  node.addEventListener("blur", leave);
}

/** A place after a step from another, or from beyond the last; null: none yet. */
export const stepped = (place, step, last) => Math.max(0, Math.min(last, (place ?? (step < 0 ? last + 1 : last)) + step));

/** Handle touch on a plot. A vertical swipe still scrolls the page (`touch-action` in the style sheet). */
export function listen(plot, timeline) {
  const fingers = new Map();
  const place = (event) => event.clientX - plot.over.getBoundingClientRect().left;
  const only = (act) => (event) => event.pointerType === "touch" && act(event);
  plot.over.addEventListener("pointerdown", only((event) => {
    fingers.set(event.pointerId, place(event));
    point(event);
  }));
  plot.over.addEventListener("pointermove", only((event) => {
    if (!fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, place(event));
    point(event);
  }));
  plot.over.addEventListener("pointercancel", only((event) => fingers.delete(event.pointerId)));
  plot.over.addEventListener("pointerup", only(() => {
    const two = fingers.size === 2 ? [...fingers.values()].map((left) => plot.posToVal(left, "x")) : null;
    fingers.clear();
    if (two) timeline.zoom(...two);
  }));

  function point(event) {
    if (fingers.size === 1) plot.setCursor({ left: place(event), top: 1 }, true, true);
  }
}
