// A chart with one column per worker. A worker has the same place in every chart, so that a hot worker stands out.

import { NOT_KNOWN } from "./format.js";
import { colour } from "./palette.js";
import { Surface } from "./surface.js";
import { STATUS } from "./words.js";

const LEFT = 58; // `1,000 ms`
const RIGHT = 8;
const TOP = 18;
const BOTTOM = 18;
const WIDEST = 64;

/** format: writes a figure; top: the scale ends at this value or above. */
export class Columns {
  #format;
  #top;
  #shown = { items: [], line: null, band: null };

  constructor(name, { format, top = 0, height = 128 }) {
    this.#format = format;
    this.#top = top;
    this.surface = new Surface(name, height, (context, width, tall) => this.#paint(context, width, tall));
    this.node = this.surface.node;
  }

  /** items: {label, value, hot, dim}; line: {value, text}, drawn as a horizontal line; band: [from, to], shaded. */
  show(items, line = null, band = null) {
    this.#shown = { items, line, band };
    const labels = items.filter((item) => item.value !== null).map((item) => `${item.label} ${this.#format(item.value)}`);
    this.surface.describe(labels.length ? labels.join(", ") + (line ? `; ${line.text}` : "") : "nothing known");
    this.surface.draw();
  }

  #paint(context, width, height) {
    const { items, line, band } = this.#shown;
    const values = items.map((item) => item.value ?? 0);
    const top = Math.max(this.#top, line?.value ?? 0, band?.[1] ?? 0, ...values) || 1;
    const floor = height - BOTTOM;
    const y = (value) => floor - ((floor - TOP) * Math.min(value, top)) / top;
    const slot = (width - LEFT - RIGHT) / Math.max(1, items.length);
    const wide = Math.max(1, Math.min(WIDEST, slot * 0.72));

    if (band) {
      context.fillStyle = colour("band");
      context.fillRect(LEFT, y(band[1]), width - LEFT - RIGHT, y(band[0]) - y(band[1]));
    }
    context.strokeStyle = colour("line");
    context.strokeRect(LEFT - 0.5, floor + 0.5, width - LEFT - RIGHT, 0);
    context.fillStyle = colour("dim");
    context.textAlign = "right";
    context.fillText(this.#format(top), LEFT - 6, TOP + 4);
    context.fillText("0", LEFT - 6, floor + 2);

    context.textAlign = "center";
    const texts = items.map((item) => this.#format(item.value));
    const room = slot > Math.max(0, ...texts.map((text) => context.measureText(text).width)) + 4;
    const widest = Math.max(0, ...items.map((item) => context.measureText(item.label).width));
    const every = Math.ceil((widest + 6) / slot);
    const marked = items.findIndex((item) => item.hot);
    // The hot column always has its label; labels too close to that one are left out.
    const labelled = (place) => place === marked || (place % every === 0 && (marked < 0 || Math.abs(place - marked) * slot > widest + 18));
    items.forEach((item, place) => {
      const middle = LEFT + slot * (place + 0.5);
      context.fillStyle = colour(item.hot ? "hot" : item.dim ? "off" : "accent");
      if (item.value !== null) context.fillRect(middle - wide / 2, y(item.value), wide, floor - y(item.value));
      context.fillStyle = colour(item.hot ? "ink" : "dim");
      if (labelled(place)) context.fillText(item.hot ? `${STATUS.warning[0]}${item.label}` : item.label, middle, height - 4);
    });

    if (line && line.value !== null) {
      context.strokeStyle = colour("ink");
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(LEFT, y(line.value));
      context.lineTo(width - RIGHT, y(line.value));
      context.stroke();
      context.setLineDash([]);
    }
    context.strokeStyle = colour("panel"); // an outline, so that figures stay legible on a line
    context.lineWidth = 4;
    items.forEach((item, place) => {
      if (!room && !item.hot) return;
      const at = [item.value === null ? NOT_KNOWN : texts[place], LEFT + slot * (place + 0.5), y(item.value ?? 0) - 5];
      context.fillStyle = colour(item.hot ? "ink" : "dim");
      context.strokeText(...at);
      context.fillText(...at);
    });
    context.lineWidth = 1;
  }
}
