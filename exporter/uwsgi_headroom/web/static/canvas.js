// What canvases need: the colours of the style sheet, and marks of events and limits.

import { TONES } from "./words.js";

const dark = matchMedia("screen and (prefers-color-scheme: dark)");
const known = new Map(); // cached, because reading a computed style forces a layout
dark.addEventListener("change", () => known.clear());

/** A colour by the name of its variable, without the dashes. */
export function colour(name) {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return known.get(name);
}

/** Lines across the ground in a colour, as a fill for canvases. */
export function hatching(name) {
  const tile = new OffscreenCanvas(6, 6);
  const context = tile.getContext("2d");
  context.strokeStyle = colour(name);
  context.lineWidth = 1.5;
  for (const shift of [-6, 0, 6]) {
    context.moveTo(shift - 1, 7);
    context.lineTo(shift + 7, -1);
  }
  context.stroke();
  return context.createPattern(tile, "repeat");
}

export const onColours = (changed) => dark.addEventListener("change", changed);

/** Red, green and blue of a colour written as #rrggbb. */
export const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

export const FONT = "12px system-ui, sans-serif";
const NEAR = 8; // pixels
const MOST_MARKS = 40;

/** The colour of a kind of event, by its name. The list says in text what happened. */
export const tone = (kind) => TONES[kind] ?? "dim";

const LEVELS = ["dim", "accent", "ok", "warning", "critical"];
export const severity = (event) => LEVELS.indexOf(tone(event.kind)); // how severe an event is: 0 for the least

/** Whether charts mark an event. The list also has those that happen all day, such as workers of cheaper mode. */
export const isMarked = (event) => severity(event) > 0;

/** Of events that are close together, the worst one. x: turns an instant into pixels; near: pixels. */
function thin(events, x, near) {
  const marked = [];
  let place = Infinity;
  for (const event of events) {
    const at = x(event.time);
    if (Math.abs(place - at) >= near) {
      marked.push(event);
      place = at;
    } else if (severity(event) > severity(marked.at(-1))) marked[marked.length - 1] = event;
  }
  return marked;
}

function dashed(context, name, dash, ...places) {
  context.strokeStyle = context.fillStyle = colour(name);
  context.setLineDash(dash);
  context.beginPath();
  for (const place of places) context.lineTo(...place);
  context.stroke();
}

/**
 * Draw a vertical line for events between two instants, at most one every few pixels, and not more than can be seen
 * apart. events: newest first. x: turns an instant into pixels of the context.
 */
export function drawEvents(context, events, [from, until], x, top, height, scale = 1) {
  const within = events.filter((event) => from <= event.time && event.time <= until);
  let near = NEAR * scale;
  let shown = thin(within, x, near);
  while (shown.length > MOST_MARKS) shown = thin(within, x, (near *= 2));
  context.save();
  context.lineWidth = scale;
  for (const event of shown) {
    const at = Math.round(x(event.time)) + 0.5;
    dashed(context, tone(event.kind), [2 * scale, 3 * scale], [at, top], [at, top + height]);
    context.beginPath();
    context.moveTo(at - 4 * scale, top);
    context.lineTo(at + 4 * scale, top);
    context.lineTo(at, top + 6 * scale);
    context.fill();
  }
  context.restore();
}

export function drawLimit(plot, value) {
  const { ctx: context, bbox } = plot;
  const scale = devicePixelRatio || 1;
  const y = Math.round(plot.valToPos(value, "y", true)) + 0.5;
  if (y < bbox.top - 1 || y > bbox.top + bbox.height + 1) return;
  context.save();
  context.lineWidth = 1.5 * scale;
  dashed(context, "critical", [8 * scale, 3 * scale], [bbox.left, y], [bbox.left + bbox.width, y]);
  context.restore();
}
