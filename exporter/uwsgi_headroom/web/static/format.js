// Writes figures with their units. An unknown figure is a dash, never 0.

export const NOT_KNOWN = "–";

const when = (known, text) => (value) => (value === null || value === undefined || Number.isNaN(value) ? known : text(value));

/** A figure with three digits, or more if its whole part has more. */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : size === 0 ? 0 : 3);
}

/** A multiple of today's load. */
export const factor = when("?", (value) => `${value < 99.95 ? value.toFixed(1) : Math.round(value)}×`);

/** A duration in seconds. */
export const duration = when(NOT_KNOWN, (seconds) => {
  if (seconds < 0.0000005) return "0 s";
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 119.5) return `${Math.round(seconds)} s`;
  if (seconds < 7170) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} d`;
});

/** A share between 0 and 1, as a percentage. */
export const percent = when(NOT_KNOWN, (part) => `${(part * 100).toFixed(part !== 0 && part < 0.0995 ? 1 : 0)} %`);

/** A share between 0 and 1 as a percentage with so many digits: small shares keep theirs. */
export const share = (part, digits) => `${Number((part * 100).toPrecision(digits))}\u00a0%`;

/** A duration that somebody chose, in seconds: as exact as it was written. */
export const chosen = (seconds) => (seconds < 1 ? `${Number((seconds * 1000).toPrecision(6))} ms` : `${Number(seconds.toPrecision(6))} s`);

/** A mean count. */
export const mean = when(NOT_KNOWN, (value) => (value < 99.95 ? value.toFixed(1) : String(Math.round(value))));

/** A mean number of threads, of which a part of one counts. */
export const threads = when(NOT_KNOWN, (value) => (value < 9.995 ? value.toFixed(2) : mean(value)));

// Made once: `toLocaleString` makes a formatter at each call, which takes 50 us, for hundreds of figures a second.
const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** A count. */
export const count = when(NOT_KNOWN, (value) => GROUPED.format(Math.round(value)));

/** A rate per second. */
export const rate = when(NOT_KNOWN, (value) => `${digits(value)}/s`);

/** A load; 1 is the maximum. */
export const load = when(NOT_KNOWN, (value) => value.toFixed(2));

export const bytes = when(NOT_KNOWN, (size) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; size >= 999.5 && at < 4; at += 1) size /= 1000;
  return `${at && size < 9.95 ? size.toFixed(1) : Math.round(size)} ${units[at]}`;
});

/** Epoch seconds as the local time of day, for an axis. */
export const timeOfDay = (time) => TIME.format(new Date(time * 1000));

/** Epoch seconds as date and time in UTC. */
export const utc = (time) => `${new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
