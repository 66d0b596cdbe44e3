// The panels of the workers: side by side, over time, and in a table.

import { Columns } from "./columns.js";
import { el, panel, say } from "./dom.js";
import * as format from "./format.js";
import { Strip } from "./strip.js";
import { Table } from "./table.js";
import { WORKERS } from "./words.js";

/** The id of the worker that takes most requests if a finding says that this does harm; else null. */
export function hottest({ balance, findings }) {
  const harms = findings.some(({ code, severity }) => code.startsWith("uneven") && severity !== "info");
  return harms ? (balance?.hottest ?? null) : null;
}

/** Three charts with a column per worker: share of requests, response time, interpreter load. */
export function sideBySide() {
  const share = row("Share of the requests", { format: format.percent });
  const response = row("Response time", { format: format.duration });
  const load = row("Interpreter load", { format: format.load, top: 1 });
  const node = panel(
    "Workers side by side",
    "a worker that takes more requests and answers more slowly than the others is limited by its interpreter",
    el("div", { class: "rows" }, ...[share, response, load].map((part) => part.node)),
  );
  node.classList.add("wide");
  return {
    node,
    now(document) {
      const { workers, balance } = document;
      const hot = hottest(document);
      const items = (value) => workers.map((worker) => item(worker, value(worker), worker.worker_id === hot));
      const even = balance?.even_share ?? null;
      const chance = even !== null && balance.noise_floor > 1 ? even * (balance.noise_floor - 1) : null;
      const band = chance === null ? null : [Math.max(0, even - chance), even + chance];
      share.show(items((worker) => worker.share), even, `even ${format.percent(even)}`, fair(even, band), band);
      const calm = balance?.calm_response_time ?? null;
      const explanation = calm === null ? "" : `dashed: less busy workers, ${format.duration(calm)}`;
      response.show(items((worker) => worker.response_time), calm, `less busy workers ${format.duration(calm)}`, explanation);
      load.show(items((worker) => worker.interpreter_load), 1, "one CPU", "dashed: one CPU, the most that one interpreter can use");
    },
  };
}

const item = (worker, value, hot) => ({ label: String(worker.worker_id), value, hot, dim: worker.active === false });

const fair = (even, band) =>
  even === null
    ? ""
    : `dashed: the even share, ${format.percent(even)}` +
      (band ? `; shaded: expected by chance, ${format.percent(band[0])} to ${format.percent(band[1])}` : "");

function row(name, options) {
  const columns = new Columns(name, options);
  const note = el("small", {});
  return {
    node: el("div", { class: "row" }, el("h3", {}, name, " ", note), columns.node),
    show(items, line, text, explanation, band = null) {
      say(note, explanation);
      columns.show(items, line === null ? null : { value: line, text }, band);
    },
  };
}

/** Busy threads, and interpreter load, of every worker over time. */
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
  node.classList.add("wide");
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
  const busy = history.names("workers.").filter((name) => name.endsWith(".busy_threads"));
  const threads = Math.max(0, ...workers.map((worker) => worker.threads ?? 0));
  return busy.map((name) => ({ worker_id: parseInt(name, 10), threads })).filter((worker) => !known.has(worker.worker_id));
}

/** A table of every worker slot. */
export function table() {
  let hot = null;
  const figures = new Table("Workers", COLUMNS, {
    key: (worker) => worker.worker_id,
    remembered: "sort",
    flag: (worker) => (worker.worker_id === hot ? "hot" : worker.accepting ? null : "off"),
  });
  const node = panel("Every worker", "click a heading to sort; click it again to reverse the order", figures.node);
  node.classList.add("wide", "tall");
  return {
    node,
    apart: true,
    now(document) {
      hot = hottest(document);
      figures.show(document.workers);
    },
  };
}

const COLUMNS = [
  { head: "Worker", value: (worker) => worker.worker_id, text: (worker) => String(worker.worker_id) },
  { head: "PID", value: (worker) => worker.pid, text: (worker) => (worker.pid === null ? format.NOT_KNOWN : String(worker.pid)) },
  { head: "State", left: true, value: (worker) => worker.state, text: (worker) => WORKERS[worker.state] },
  { head: "Requests", title: "since the last full reload", value: (worker) => worker.requests, text: (worker) => format.count(worker.requests) },
  { head: "Rate", title: "over the window", value: (worker) => worker.throughput, text: (worker) => format.rate(worker.throughput) },
  { head: "Share", title: "of the requests in the window", value: (worker) => worker.share, text: (worker) => format.percent(worker.share) },
  { head: "Lifetime", title: "share since the last full reload", value: (worker) => worker.lifetime_share, text: (worker) => format.percent(worker.lifetime_share) },
  { head: "Response", title: "mean time in service", value: (worker) => worker.response_time, text: (worker) => format.duration(worker.response_time) },
  { head: "Threads", title: "busy now, of all", value: (worker) => worker.busy_threads, text: (worker) => `${format.count(worker.busy_threads)} / ${format.count(worker.threads)}` },
  { head: "Oldest", title: "age of the oldest request in service", value: (worker) => worker.oldest_request_age, text: (worker) => format.duration(worker.oldest_request_age) },
  { head: "CPU", title: "interpreter load: CPU seconds per second", value: (worker) => worker.interpreter_load, text: (worker) => format.load(worker.interpreter_load) },
  { head: "Lock wait", title: "mean threads that wait for the interpreter lock", optional: true, value: (worker) => worker.lock_waiters, text: (worker) => format.threads(worker.lock_waiters) },
  { head: "Last CPU", title: "the CPU its main thread ran on last; in brackets the CPUs it may run on", value: (worker) => worker.last_cpu, text: (worker) => place(worker) },
  { head: "Memory", title: "resident", value: (worker) => worker.resident_bytes, text: (worker) => format.bytes(worker.resident_bytes) },
  { head: "Age", value: (worker) => worker.age, text: (worker) => format.duration(worker.age) },
  { head: "Restarts", title: "since the last full reload", value: restarts, text: (worker) => format.count(restarts(worker)) },
  { head: "Exceptions", title: "unhandled, since the last full reload", value: (worker) => worker.exceptions, text: (worker) => format.count(worker.exceptions) },
  { head: "Harakiri", title: "requests killed for taking too long, since the last full reload", value: (worker) => worker.harakiris, text: (worker) => format.count(worker.harakiris) },
];

const place = (worker) => (worker.last_cpu === null ? format.NOT_KNOWN : `${worker.last_cpu} (${ranges(worker.affinity)})`);

/** uWSGI also counts the first spawn. */
function restarts(worker) {
  return worker.respawns === null ? null : Math.max(0, worker.respawns - 1);
}

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
