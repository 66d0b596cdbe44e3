// The colours of the style sheet, and what else canvases need to draw with them.

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

/** Call `changed` when the colours change. */
export const onColours = (changed) => dark.addEventListener("change", changed);

/** Red, green and blue of a colour written as #rrggbb. */
export const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

export const FONT = "12px system-ui, sans-serif";
