// What is drawn onto a chart beside its lines: events as they happened, and limits.

import { colour } from "./palette.js";

/** By kind of event: its colour. Every mark has a sign at its foot, and its text in the list. */
const TONES = {
  server_down: "critical",
  worker_ended: "critical",
  verdict_changed: "warning",
  server_up: "ok",
  reload: "accent",
  configuration_changed: "accent",
};

/** The colour of a kind of event, by its name. */
export const tone = (kind) => TONES[kind] ?? "dim";

/** A line across the height for each event between two instants. x: where an instant is; in the context's pixels. */
export function drawEvents(context, events, [from, until], x, top, height, scale = 1) {
  context.save();
  context.lineWidth = scale;
  for (const event of events) {
    if (event.time < from || event.time > until) continue;
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

/** A line across the width at a value. */
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
