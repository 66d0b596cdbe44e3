// Touch on a chart: one finger moves the pointer on all charts, two fingers zoom to the time between them.

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
