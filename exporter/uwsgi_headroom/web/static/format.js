// Writes figures with their units, by the rules of `words/formats.py` (tests/words/vectors.json holds both to them), and
// instants in the reader's time zone, with dates where they are needed. An unknown figure is a dash, never 0.

export const NOT_KNOWN = "–";
export const isMissing = (value) => value === null || value === undefined;
const when = (known, text) => (value) => (isMissing(value) || Number.isNaN(value) ? known : text(value));

/** A format of dates, made once, when it is first needed: the first one of a page takes a browser milliseconds. */
function dates(options) {
  let made = null;
  return { format: (date) => (made ??= new Intl.DateTimeFormat("en-GB", options)).format(date) };
}

const grouped = (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","); // commas between thousands

/** One decimal below 10, none from there on. */
const two = (value) => (Math.abs(value) < 9.95 ? value.toFixed(1) : grouped(value.toFixed(0)));

/** At most so many digits, without zeros at the end. */
const significant = (value, digits) => String(Number(value.toPrecision(digits)));

export const factor = when("?", (value) => `${two(value)}x`); // a multiple, such as of today's load: `1.5x`, `12x`

/** A measured duration in seconds: `6.7 ms`, `67 ms`, `1.0 s`, `90 s`, `3 min`, `2 h 30 min`, `12 d`. */
export const duration = when(NOT_KNOWN, (seconds) => {
  const milliseconds = 1000 * seconds;
  if (milliseconds < 0.05) return "0 ms";
  if (milliseconds < 999.5) return `${two(milliseconds)} ms`;
  if (seconds < 119.5) return `${two(seconds)} s`;
  const form = LONG[seconds / 60 < 119.5 ? 2 : seconds / 3600 < 47.5 ? 1 : 0];
  const [size, unit, smaller] = form;
  return seconds < 10 * size - smaller / 2 ? inTwo(Math.round(seconds / smaller) * smaller, form) : `${grouped((seconds / size).toFixed(0))} ${unit}`;
});

/** A whole number of the smaller unit. */
function inTwo(seconds, [size, unit, smaller, smallerUnit]) {
  const rest = seconds % size;
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest / smaller} ${smallerUnit}` : ""}`;
}

const LONG = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

/** The sum of durations, of the parts as they are written, which a reader may add up. */
export function whole(parts) {
  const written = parts.map(duration).join(" ").matchAll(/([\d,.]+) (ms|s|min|h|d)\b/g);
  return duration([...written].reduce((sum, [, number, unit]) => sum + Number(number.replaceAll(",", "")) * UNITS[unit], 0));
}

const UNITS = { ms: 0.001, s: 1, min: 60, h: 3600, d: 86400 };

/** A figure, or `at least 18 s` if it is a lower bound. */
export const least = (text, isFloor) => (isFloor ? `at least ${text}` : text);

/** A duration that somebody chose, in seconds: as exact as it was written. */
export function chosen(seconds) {
  const found = LONG.find(([size, , smaller]) => seconds >= 2 * size && seconds % smaller === 0);
  if (found) return inTwo(seconds, found);
  return seconds < 1 ? `${significant(1000 * seconds, 6)} ms` : `${significant(seconds, 6)} s`;
}

/** A share between 0 and 1, as a percentage: `43 %`, `7.7 %`, `0 %`. */
export const percent = when(NOT_KNOWN, (part) => `${part ? two(100 * part) : 0} %`);

export const mean = when(NOT_KNOWN, (value) => (Math.abs(value) < 99.95 ? value.toFixed(1) : grouped(value.toFixed(0))));

/** A mean number of threads, beside which other means stand: `8`, `7.6`. */
export const meanThreads = when(NOT_KNOWN, (value) => mean(value).replace(/\.0$/, ""));

/** A mean number of threads, of which a part of one counts. */
export const threads = when(NOT_KNOWN, (value) => (value < 9.995 ? value.toFixed(2) : mean(value)));

export const count = when(NOT_KNOWN, (value) => grouped(value.toFixed(0)));
export const many = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`; // `2 threads`, `1 thread`

/** A number with three digits, or all of its whole part. */
export const amount = when(NOT_KNOWN, (value) => {
  const size = Math.abs(value);
  if (size >= 99.95 || size === 0) return grouped(value.toFixed(0));
  return value.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
});

export const rate = when(NOT_KNOWN, (value) => `${amount(value)}/s`);
export const load = when(NOT_KNOWN, (value) => value.toFixed(2)); // a load; 1 is the maximum

/** Bytes, in powers of 1000. */
export const bytes = when(NOT_KNOWN, (size) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; size >= 999.5 && at < units.length - 1; at += 1) size /= 1000;
  return `${at ? two(size) : size.toFixed(0)} ${units[at]}`;
});

/** Epoch seconds as date and time in UTC. */
export const utc = (time) => `${new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** How short a window is, as a sentence; empty if it covers what was requested. */
export const shortness = ({ seconds, asked }) =>
  seconds < 0.9 * asked ? `${duration(seconds)} of ${duration(asked)} so far.` : "";

const HOUR = 3600;
const DAY = 24 * HOUR;
const LONG_AGO = 12 * HOUR;
const OTHER_YEAR = 300 * DAY;
const SHORT = 600; // seconds: the ends of a shorter stretch are written with seconds
const [MINUTES, SECONDS, ZONE] = [{ hour: "2-digit", minute: "2-digit" }, { timeStyle: "medium" }, { timeStyle: "long" }].map(dates);
const ZONED_MINUTES = dates({ hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
const MONTH = dates({ month: "short" });
const DATE = dates({ day: "numeric", month: "short" });
const DATE_OF_YEAR = dates({ day: "numeric", month: "short", year: "numeric" });
const dateOf = (time) => new Date(time * 1000);
const isAway = (time, seconds) => Math.abs(Date.now() / 1000 - time) > seconds;

/** Epoch seconds as a date, with its year if it is long ago. */
export const day = (time) => (isAway(time, OTHER_YEAR) ? DATE_OF_YEAR : DATE).format(dateOf(time));

/** Epoch seconds as the local time of day with its zone, and with the date if it is more than 12 hours away. */
export const clock = (time) => (isAway(time, LONG_AGO) ? `${day(time)} ` : "") + ZONE.format(dateOf(time));

/** Epoch seconds as date and time, to the minute. */
export const dated = (time) => `${day(time)} ${ZONED_MINUTES.format(dateOf(time))}`;

/** The time between two instants: with dates if it is not today, with both zones if the clock was changed within it. */
export function between(from, until) {
  const [first, last] = [from, until].map(dateOf);
  const isOneDay = first.toDateString() === last.toDateString();
  const isOneZone = first.getTimezoneOffset() === last.getTimezoneOffset();
  const isShort = until - from < SHORT && (from % 60 !== 0 || until % 60 !== 0);
  const [plain, zoned] = isShort ? [SECONDS, ZONE] : [MINUTES, ZONED_MINUTES];
  const begin = (isOneDay && !isAway(until, LONG_AGO) ? "" : `${day(from)} `) + (isOneZone ? plain : zoned).format(first);
  return `${begin} to ${isOneDay ? "" : `${day(until)} `}${zoned.format(last)}`;
}

/** The time of a slice that ends at `time`: an instant, or from when until when if it is a minute or longer. */
export const slice = (time, step) => (step >= 60 ? between(time - step, time) : clock(time));

/** An instant on an axis that is `seconds` long. */
export const edge = (time, seconds) => (seconds > LONG_AGO ? `${day(time)} ${MINUTES.format(dateOf(time))}` : SECONDS.format(dateOf(time)));

/** An instant on an axis with a mark every `increment` seconds: the year, month, date, or time of day that begins. */
export function tick(time, increment) {
  const date = dateOf(time);
  if (increment >= 28 * DAY) return date.getMonth() ? MONTH.format(date) : String(date.getFullYear());
  const isMidnight = !date.getHours() && !date.getMinutes() && !date.getSeconds();
  if (increment >= DAY || isMidnight) return DATE.format(date);
  return (increment >= 60 ? MINUTES : SECONDS).format(date);
}
