// The panels of the workers: in tables, worst first, and over time.

import { el, folding, panel, say } from "./dom.js";
import * as format from "./format.js";
import { Strip } from "./strip.js";
import { column, plain, Table } from "./table.js";
import { WORKERS } from "./words.js";

/** The id of the worker that takes most requests if a finding says that this does harm; else null. */
export function hottest({ balance, findings }) {
  const harms = findings.some(({ code, severity }) => code.startsWith("uneven") && severity !== "info");
  return harms ? (balance?.hottest ?? null) : null;
}

export function overTime(timeline) {
  const busy = new Strip("Busy threads by worker", (value) => `${format.mean(value)} busy`, timeline);
  const load = new Strip("Interpreter load by worker", format.load, timeline);
  // Shades follow the square root, so that low values are visible: the middle of the scale is 25 %.
  const scale = (text) => el("p", { class: "scale" }, "0 % ", el("i", {}), " 25 % ", el("i", { class: "darker" }), " 100 %; ", el("b", {}), ` ${text}`);
  const strip = (title, chart, text) => el("div", { class: "row" }, el("h3", {}, title), chart.node, scale(text));
  const node = panel(
    "Every worker over time",
    "one row per worker",
    el("div", { class: "rows" }, strip("Busy threads", busy, "all threads busy"), strip("Interpreter load", load, "a whole CPU")),
  );
  return {
    node,
    past(history, { workers }) {
      const all = [...workers, ...former(history, workers)];
      const rows = (column, whole) =>
        all.map((worker) => ({ label: String(worker.worker_id), column: `workers.${worker.worker_id}.${column}`, whole: whole(worker) }));
      busy.show(history, rows("busy_threads", (worker) => worker.threads));
      load.show(history, rows("interpreter_load", () => 1));
    },
  };
}

/** The workers that the history has and a document has not, because there were more workers. */
function former(history, workers) {
  const known = new Set(workers.map((worker) => worker.worker_id));
  const threads = Math.max(0, ...workers.map((worker) => worker.threads ?? 0));
  const all = history.names("workers.", ".busy_threads").map((id) => ({ worker_id: Number(id), threads }));
  return all.filter((worker) => !known.has(worker.worker_id));
}

/** A table of every worker slot, worst first, with a bar for each figure that can be compared. */
export function table() {
  let hot = null;
  let most = { share: 0, response: 0 };
  const columns = [
    NUMBER,
    { head: "State", left: true, value: (worker) => worker.state, text: (worker) => WORKERS[worker.state] },
    { head: "Threads", title: "busy now, of all", value: (worker) => worker.busy_threads,
      text: (worker) => `${format.count(worker.busy_threads)} / ${format.count(worker.threads)}`, part: (worker) => ratio(worker.busy_threads, worker.threads) },
    column("Oldest", "oldest_request_age", format.duration, { title: "age of the oldest request in service" }),
    column("Share", "share", format.percent, { title: "of the requests in the window", part: (worker) => ratio(worker.share, most.share) }),
    column("Response", "response_time", format.duration, { title: "mean time in service", part: (worker) => ratio(worker.response_time, most.response) }),
    column("CPU", "interpreter_load", format.load, { title: "interpreter load: CPU seconds per second, of the one CPU that one interpreter can use",
      part: (worker) => worker.interpreter_load }),
    column("Lock wait", "lock_waiters", format.threads, { title: "mean threads that wait for the interpreter lock (GIL)", optional: true }),
    column("Memory", "resident_bytes", format.bytes, { title: "resident" }),
  ];
  const figures = new Table("Workers", columns, {
    key: (worker) => worker.worker_id,
    by: null,
    remembered: "sort",
    flag: (worker) => (worker.worker_id === hot ? "hot" : worker.accepting ? null : "off"),
  });
  const node = panel("Workers", "", figures.node);
  const hint = node.querySelector(".hint");
  return {
    node,
    apart: true,
    now(document) {
      const { workers, threads, balance } = document;
      hot = hottest(document);
      most = { share: largest(workers, "share"), response: largest(workers, "response_time") };
      say(hint, `worst first${even(balance)}`);
      figures.show(ordered(workers, threads?.stuck_seconds ?? Infinity));
    },
  };
}

const NUMBER = column("Worker", "worker_id", String);
const RESTING = ["cheap", "never_spawned"]; // cheaper mode keeps them in reserve
const STEPS = 10; // of a load: smaller differences do not change the order
const ratio = (part, whole) => (part === null || !whole ? 0 : part / whole);
const largest = (workers, key) => Math.max(0, ...workers.map((worker) => worker[key] ?? 0));

/** Workers that should serve and do not come first, then those with stuck requests, then the busiest. */
function ordered(workers, stuckSeconds) {
  const trouble = (worker) => (RESTING.includes(worker.state) ? -1 : !worker.accepting ? 2 : worker.oldest_request_age >= stuckSeconds ? 1 : 0);
  const load = (worker) => Math.round(STEPS * Math.max(worker.interpreter_load ?? 0, ratio(worker.concurrency, worker.threads)));
  const ranked = workers.map((worker) => ({ worker, trouble: trouble(worker), load: load(worker) }));
  ranked.sort((one, other) => other.trouble - one.trouble || other.load - one.load || one.worker.worker_id - other.worker.worker_id);
  return ranked.map(({ worker }) => worker);
}

/** The share of each worker if all had the same, and what chance alone makes of it. */
function even(balance) {
  const { even_share: share = null, noise_floor: chance, active } = balance ?? {};
  if (share === null || active < 2) return "";
  const width = share * (Math.max(1, chance ?? 1) - 1);
  return `; an even share is ${format.percent(share)}${width ? `, by chance ${format.percent(Math.max(0, share - width))} to ${format.percent(share + width)}` : ""}`;
}

export function details() {
  const figures = new Table("Worker details", DETAILS, { key: (worker) => worker.worker_id });
  const node = folding("Worker details", "counts are since the last full reload", figures.node);
  node.open = false;
  let newest = [];
  const show = () => node.open && figures.show(newest); // many cells, which nobody sees while it is folded
  node.addEventListener("toggle", show);
  return {
    node,
    apart: true,
    now({ workers }) {
      newest = workers;
      show();
    },
  };
}

const restarts = ({ respawns }) => (respawns === null ? null : Math.max(0, respawns - 1)); // it counts the first spawn too

const DETAILS = [
  NUMBER,
  column("PID", "pid", plain),
  column("Age", "age", format.duration),
  column("Rate", "throughput", format.rate, { title: "over the window" }),
  column("Requests", "requests", format.count),
  column("Of all", "lifetime_share", format.percent, { title: "its share of them" }),
  { head: "Restarts", value: restarts, text: (worker) => format.count(restarts(worker)) },
  column("Exceptions", "exceptions", format.count, { title: "unhandled" }),
  column("Harakiri", "harakiris", format.count, { title: "requests killed for taking too long" }),
  { head: "Last CPU", title: "the CPU its main thread ran on last; in brackets the CPUs it may run on",
    value: (worker) => worker.last_cpu, text: (worker) => place(worker) },
  { head: "CPU time by CPU", title: "where it spent its CPU time since the exporter's start", optional: true, left: true, wraps: true,
    value: (worker) => worker.residency, text: (worker) => home(worker) },
];

/** The share of a worker's CPU time on each CPU, the largest first. */
function home({ residency }) {
  const spent = Object.entries(residency ?? {}).sort((one, other) => other[1] - one[1]);
  const whole = spent.reduce((sum, [, seconds]) => sum + seconds, 0);
  return spent.filter(([, seconds]) => seconds > 0).map(([cpu, seconds]) => `${cpu}: ${format.percent(seconds / whole)}`).join(", ") || format.NOT_KNOWN;
}

const place = (worker) => (worker.last_cpu === null ? format.NOT_KNOWN : `${worker.last_cpu} (${ranges(worker.affinity)})`);

/** CPUs as taskset writes them: `0-3,8`. */
function ranges(cpus) {
  if (!cpus?.length) return "?";
  const runs = [];
  for (const cpu of cpus) {
    const last = runs.at(-1);
    if (last && last[1] === cpu - 1) last[1] = cpu;
    else runs.push([cpu, cpu]);
  }
  return runs.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(",");
}
