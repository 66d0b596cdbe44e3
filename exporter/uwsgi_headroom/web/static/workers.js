// The workers side by side: shares, response times and interpreter load; busy threads over time; all of it in a table.

import { Columns } from "./columns.js";
import { el, panel, say } from "./dom.js";
import * as format from "./format.js";
import { Strip } from "./strip.js";
import { Table } from "./table.js";

/** The id of the worker that takes most, where a finding says that they are uneven; else null. */
export function hottest({ balance, findings }) {
  return findings.some(({ code }) => code.startsWith("uneven")) ? (balance?.hottest ?? null) : null;
}

/** Three rows of columns over the same workers. */
export function sideBySide() {
  const share = row("Share of the requests", { format: format.percent });
  const response = row("Response time", { format: format.duration });
  const load = row("Interpreter load", { format: format.load, top: 1 });
  const node = panel(
    "Workers side by side",
    "a worker that takes more and answers slower than the others is short of its interpreter",
    el("div", { class: "rows" }, ...[share, response, load].map((it) => it.node)),
  );
  node.classList.add("wide");
  return {
    node,
    now(document) {
      const { workers, balance } = document;
      const hot = hottest(document);
      const items = (value) => workers.map((it) => item(it, value(it), it.worker_id === hot));
      const even = balance?.even_share ?? null;
      const chance = even !== null && balance.noise_floor > 1 ? even * (balance.noise_floor - 1) : null;
      const band = chance === null ? null : [Math.max(0, even - chance), even + chance];
      share.show(items((it) => it.share), even, `even ${format.percent(even)}`, fair(even, band), band);
      const calm = balance?.calm_response_time ?? null;
      const told = calm === null ? "" : `dashed: the calmer half, ${format.duration(calm)}`;
      response.show(items((it) => it.response_time), calm, `calm half ${format.duration(calm)}`, told);
      load.show(items((it) => it.interpreter_load), 1, "one CPU", "dashed: one CPU, all that one interpreter can use");
    },
  };
}

const item = (worker, value, hot) => ({ label: String(worker.worker_id), value, hot, dim: worker.active === false });

const fair = (even, band) =>
  even === null
    ? ""
    : `dashed: the even share, ${format.percent(even)}` +
      (band ? `; shaded: what chance alone makes, ${format.percent(band[0])} to ${format.percent(band[1])}` : "");

function row(name, options) {
  const columns = new Columns(name, options);
  const note = el("small", {});
  return {
    node: el("div", { class: "row" }, el("h3", {}, name, " ", note), columns.node),
    show(items, line, text, told, band = null) {
      say(note, told);
      columns.show(items, line === null ? null : { value: line, text }, band);
    },
  };
}

/** Busy threads, and interpreter load, of every worker over time. */
export function overTime() {
  const busy = new Strip("Busy threads by worker", (value) => `${format.mean(value)} busy`);
  const load = new Strip("Interpreter load by worker", format.load);
  const scale = (text) => el("p", { class: "scale" }, "none ", el("i", {}), " nearly all; ", el("b", {}), ` ${text}`);
  const strip = (title, it, text) => el("div", { class: "row" }, el("h3", {}, title), it.node, scale(text));
  const node = panel(
    "Every worker over time",
    "a row for each",
    el("div", { class: "rows" }, strip("Busy threads", busy, "every thread busy"), strip("Interpreter load", load, "a whole CPU")),
  );
  node.classList.add("wide");
  return {
    node,
    past(history, { workers }) {
      const rows = (column, whole) =>
        workers.map((it) => ({ label: String(it.worker_id), column: `workers.${it.worker_id}.${column}`, whole: whole(it) }));
      busy.show(history, rows("busy_threads", (it) => it.threads));
      load.show(history, rows("interpreter_load", () => 1));
    },
  };
}

/** Every worker slot with all that is known of it. */
export function table() {
  let hot = null;
  const figures = new Table("Workers", COLUMNS, {
    key: (it) => it.worker_id,
    flag: (it) => (it.worker_id === hot ? "hot" : it.accepting ? null : "off"),
  });
  const node = panel("Every worker", "press a heading to sort", figures.node);
  node.classList.add("wide", "tall");
  return {
    node,
    now(document) {
      hot = hottest(document);
      figures.show(document.workers);
    },
  };
}

const COLUMNS = [
  { head: "Worker", value: (it) => it.worker_id, text: (it) => String(it.worker_id) },
  { head: "PID", value: (it) => it.pid, text: (it) => (it.pid === null ? format.NOT_KNOWN : String(it.pid)) },
  { head: "State", left: true, value: (it) => it.state, text: (it) => it.state.replace("_", " ") + (it.accepting ? "" : " ✖") },
  { head: "Requests", title: "since the last full reload", value: (it) => it.requests, text: (it) => format.count(it.requests) },
  { head: "Rate", title: "over the window", value: (it) => it.throughput, text: (it) => format.rate(it.throughput) },
  { head: "Share", title: "of the requests in the window", value: (it) => it.share, text: (it) => format.percent(it.share) },
  { head: "Lifetime", title: "share since the last full reload", value: (it) => it.lifetime_share, text: (it) => format.percent(it.lifetime_share) },
  { head: "Response", title: "mean time in service", value: (it) => it.response_time, text: (it) => format.duration(it.response_time) },
  { head: "Threads", title: "busy now, of all", value: (it) => it.busy_threads, text: (it) => `${format.count(it.busy_threads)} / ${format.count(it.threads)}` },
  { head: "Oldest", title: "age of the oldest request in service", value: (it) => it.oldest_request_age, text: (it) => format.duration(it.oldest_request_age) },
  { head: "CPU", title: "interpreter load: CPU seconds a second", value: (it) => it.interpreter_load, text: (it) => format.load(it.interpreter_load) },
  { head: "On CPU", title: "where it ran last, of those it may run on", value: (it) => it.last_cpu, text: (it) => place(it) },
  { head: "Memory", title: "resident", value: (it) => it.resident_bytes, text: (it) => format.bytes(it.resident_bytes) },
  { head: "Age", value: (it) => it.age, text: (it) => format.duration(it.age) },
  { head: "Spawns", title: "the first counts", value: (it) => it.respawns, text: (it) => format.count(it.respawns) },
  { head: "Errors", title: "exceptions, harakiris", value: (it) => it.exceptions, text: (it) => `${format.count(it.exceptions)}, ${format.count(it.harakiris)}` },
];

const place = (it) => (it.last_cpu === null ? format.NOT_KNOWN : `${it.last_cpu} of ${ranges(it.affinity)}`);

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
