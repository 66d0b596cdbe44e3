// The style sheet's colours, for canvases. They change with the reader's light or dark mode.

const dark = matchMedia("screen and (prefers-color-scheme: dark)");

const known = new Map(); // cached, because reading a computed style forces a layout
dark.addEventListener("change", () => known.clear());

/** A colour by the name of its variable, without the dashes. */
export function colour(name) {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return known.get(name);
}

/** Call `changed` when the colours change. */
export const onColours = (changed) => dark.addEventListener("change", changed);

/** Red, green and blue of a colour written as #rrggbb. */
export const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
