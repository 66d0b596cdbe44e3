// What is written in words and not in figures: limits, severities, states.

/** By limit: its name. */
export const LIMITS = {
  hottest_interpreter: "hottest interpreter",
  interpreters: "all interpreters",
  threads: "threads",
  cpu: "CPUs",
};

/** By status and severity: a sign and a word, so that nothing is said by colour alone. */
export const STATUS = {
  ok: ["✓", "OK"],
  info: ["i", "INFO"],
  warning: ["▲", "WARNING"],
  critical: ["✖", "CRITICAL"],
  unknown: ["?", "UNKNOWN"],
};

/** A server's, and those of the page itself: paused by its reader, or without an exporter that answers. */
export const STATES = { up: "✓ up", stale: "… stale", down: "✖ down", paused: "‖ paused", lost: "? not current" };

/** `2 threads`, `1 thread`. */
export const many = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
