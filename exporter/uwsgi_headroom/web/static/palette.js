// The colours of the style sheet, for what is drawn: they change with the reader's light or dark.

const dark = matchMedia("screen and (prefers-color-scheme: dark)");

const known = new Map(); // to ask for a computed style is to have everything that changed laid out first
dark.addEventListener("change", () => known.clear());

/** A colour by the name of its variable, without the dashes. */
export function colour(name) {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return known.get(name);
}

/** Call when they change. */
export const onColours = (changed) => dark.addEventListener("change", changed);

/** Red, green and blue of a colour written as #rrggbb. */
export const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
