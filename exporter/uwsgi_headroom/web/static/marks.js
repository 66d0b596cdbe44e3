// Draws events and limits onto a chart.

import { colour } from "./canvas.js";
import { TONES } from "./words.js";

const NEAR = 8; // pixels
const MOST_MARKS = 40;

/** The colour of a kind of event, by its name. The list says in text what happened. */
export const tone = (kind) => TONES[kind] ?? "dim";

const LEVELS = ["dim", "accent", "ok", "warning", "critical"];

/** How severe an event is: 0 for the least. */
export const severity = (event) => LEVELS.indexOf(tone(event.kind));

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
    context.strokeStyle = context.fillStyle = colour(tone(event.kind));
    context.setLineDash([2 * scale, 3 * scale]);
    context.beginPath();
    context.moveTo(at, top);
    context.lineTo(at, top + height);
    context.stroke();
    context.beginPath();
    context.moveTo(at - 4 * scale, top);
    context.lineTo(at + 4 * scale, top);
    context.lineTo(at, top + 6 * scale);
    context.fill();
  }
  context.restore();
}

/** Draw a horizontal line at a value. */
export function drawLimit(plot, value) {
  const { ctx: context, bbox } = plot;
  const scale = devicePixelRatio || 1;
  const y = Math.round(plot.valToPos(value, "y", true)) + 0.5;
  if (y < bbox.top - 1 || y > bbox.top + bbox.height + 1) return;
  context.save();
  context.strokeStyle = colour("critical");
  context.lineWidth = 1.5 * scale;
  context.setLineDash([8 * scale, 3 * scale]);
  context.beginPath();
  context.moveTo(bbox.left, y);
  context.lineTo(bbox.left + bbox.width, y);
  context.stroke();
  context.restore();
}
