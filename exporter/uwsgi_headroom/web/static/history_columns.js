// Turns a history document into columns by name, each as long as `time`.

const MINUTE = 60;
const LATE = 3.1; // seconds: a sample that is up to three seconds late joins the one before

/** The columns of a document. Slices of minutes end at multiples of their step, also where the last sample is earlier. */
export function flatten(document) {
  const { step } = document;
  const time = step >= MINUTE ? document.time.map((end) => Math.ceil((end - MINUTE / 2) / step) * step) : document.time;
  const columns = new Map([["time", time]]);
  const take = (prefix, part) => {
    for (const [name, column] of Object.entries(part)) if (Array.isArray(column)) columns.set(prefix + name, column);
  };
  take("", { throughput: document.throughput, response_time: document.response_time, queue_wait: document.queue_wait });
  take("concurrency.", document.concurrency);
  take("threads.", document.threads);
  take("headroom.", document.headroom);
  const { states, threads, backend_names: names, backends } = document.waits;
  states.forEach((state, at) => columns.set(`waits.states.${state}`, threads[at]));
  names.forEach((name, at) => columns.set(`waits.backends.${name}`, backends[at]));
  const { shares, seconds, ...rest } = document.response_times;
  shares.forEach((share, at) => columns.set(`response_times.${share}`, seconds[at]));
  take("response_times.", rest);
  document.routes?.routes.forEach((route, at) => columns.set(`routes.${route}`, document.routes.threads[at]));
  for (const socket of document.sockets) take(`sockets.${socket.name}.`, socket);
  for (const worker of document.workers) take(`workers.${worker.worker_id}.`, worker);
  return columns;
}

/** Whether a line breaks between slices that end at these times: with a late sample, one is longer than the others. */
export const isGap = (before, time, step) => time - before > Math.max(1.5 * step, step + LATE);

/** The columns with an unknown slice in each gap: there are no slices while the exporter is not running. */
export function withGaps(columns, step) {
  const times = columns.get("time");
  const places = times.flatMap((time, at) => (at && isGap(times[at - 1], time, step) ? [null, at] : [at]));
  if (places.length === times.length) return columns;
  const filled = new Map();
  for (const [name, column] of columns) filled.set(name, places.map((at) => (at === null ? null : column[at])));
  filled.set("time", places.map((at, place) => (at === null ? times[places[place - 1]] + step : times[at])));
  return filled;
}
