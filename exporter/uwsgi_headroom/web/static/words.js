// The words for limits, severities and states.

/** The name of each limit. */
export const LIMITS = {
  hottest_interpreter: "hottest interpreter",
  interpreters: "all interpreters",
  threads: "threads",
  cpu: "CPUs",
};

/** A sign and a word for each status and severity, so that colour alone says nothing. */
export const STATUS = {
  ok: ["✓", "OK"],
  info: ["i", "INFO"],
  warning: ["▲", "WARNING"],
  critical: ["✖", "CRITICAL"],
  unknown: ["?", "UNKNOWN"],
};

/** The states of a server, and of the page itself: paused by the reader, or the exporter does not answer. */
export const STATES = { up: "✓ up", stale: "… stale", down: "✖ down", paused: "‖ paused", lost: "? not current" };

/** `2 threads`, `1 thread`. */
export const many = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
