// Writes instants and stretches of time in the reader's time zone, with dates where they are needed.

import { dates, timeOfDay } from "./format.js";

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
export const edge = (time, seconds) => (seconds > LONG_AGO ? `${day(time)} ${MINUTES.format(dateOf(time))}` : timeOfDay(time));

/** An instant on an axis with a mark every `increment` seconds: the year, month, date, or time of day that begins. */
export function tick(time, increment) {
  const date = dateOf(time);
  if (increment >= 28 * DAY) return date.getMonth() ? MONTH.format(date) : String(date.getFullYear());
  const isMidnight = !date.getHours() && !date.getMinutes() && !date.getSeconds();
  if (increment >= DAY || isMidnight) return DATE.format(date);
  return (increment >= 60 ? MINUTES : SECONDS).format(date);
}
