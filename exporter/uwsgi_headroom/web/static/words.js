// The words for limits, severities, states and events. `make generate` writes them from `words/states.py`.

/** What takes the time of a request in each state, in the order of the stack from the bottom; and in short. */
export const WAITS = {
  cpu: ["CPU", "CPU"],
  cpu_wait: ["CPU wait", "CPU wait"],
  interpreter_lock: ["interpreter lock (GIL)", "GIL"],
  backend: ["backend", "backend"],
  client: ["client", "client"],
  dns: ["DNS", "DNS"],
  disk: ["disk", "disk"],
  lock: ["lock", "lock"],
  sleep: ["sleep", "sleep"],
  child: ["child process", "child"],
  pipe: ["pipe", "pipe"],
  other: ["other", "other"],
  unknown: ["unknown", "unknown"],
};

/** Each limit's name and colour. */
export const LIMITS = {
  hottest_interpreter: ["hottest interpreter", "wait-interpreter-lock"],
  interpreters: ["all interpreters", "wait-named-0"],
  threads: ["threads", "blue"],
  cpu: ["CPUs", "wait-cpu-wait"],
  lock: ["lock of the application", "wait-lock"],
  other: ["what requests wait for", "wait-other"],
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
export const STATES = {
  up: "✓ up",
  stale: "… stale",
  down: "✖ down",
  paused: "‖ paused",
  lost: "? not current",
};

/** The states of a worker, with a sign for those that take no requests. */
export const WORKERS = {
  idle: "idle",
  busy: "busy",
  cheap: "in reserve ○",
  pause: "paused ‖",
  signal: "signal",
  starting: "starting …",
  gone: "gone ✖",
  never_spawned: "never spawned ○",
};

/** The colour of each kind of event. */
export const TONES = {
  server_down: "critical",
  server_up: "ok",
  worker_ended: "critical",
  reload: "accent",
  sampling_gap: "dim",
  configuration_changed: "accent",
  verdict_changed: "warning",
  deploy_judged: "accent",
};

/** How many colours named backends have. */
export const NAMED_COLOURS = 4;
