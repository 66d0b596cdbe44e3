// Draws the CPUs that workers may run on, and did run on: a row per worker, a column per CPU.

import { channels, colour, Surface } from "./canvas.js";
import { el, say } from "./dom.js";

const LEFT = 34;
const TOP = 18;
const MOST_CPUS = 256;

export class Residency {
  #workers = [];
  #cpus = [];

  constructor() {
    this.surface = new Surface("CPU residency", 60, (context, width, height) => this.#paint(context, width, height));
    this.note = el("p", { class: "hint" });
    this.node = el("div", {}, this.surface.node, this.note);
  }

  show({ workers, host, unknown }) {
    this.#workers = workers;
    const used = workers.flatMap((worker) => [...Object.keys(worker.residency ?? {}).map(Number), ...(worker.affinity ?? [])]);
    const cpus = workers.map((worker) => worker.last_cpu).filter((cpu) => cpu !== null);
    this.#cpus = [...new Set([...used, ...cpus])].sort((a, b) => a - b).slice(0, MOST_CPUS);
    this.surface.resize(this.#cpus.length ? TOP + workers.length * this.#tall() : 0);
    this.surface.describe(workers.map((worker) => `worker ${worker.worker_id} ${home(worker)}`).join(", "));
    this.surface.draw();
    say(this.note, [masks(workers, host), ...reasons(unknown)].filter(Boolean).join(" "));
  }

  #tall() {
    return Math.max(6, Math.min(20, Math.floor(320 / Math.max(1, this.#workers.length))));
  }

  #paint(context, width) {
    const tall = this.#tall();
    const wide = Math.min(64, (width - LEFT) / Math.max(1, this.#cpus.length));
    const [low, high] = ["cell-low", "cell-high"].map((name) => channels(colour(name)));
    const hair = wide > 6 && tall > 7 ? 1 : 0;
    this.#workers.forEach((worker, row) => {
      const spent = Object.values(worker.residency ?? {}).reduce((sum, seconds) => sum + seconds, 0);
      const allowed = new Set(worker.affinity ?? []);
      this.#cpus.forEach((cpu, column) => {
        const [x, y] = [LEFT + column * wide, TOP + row * tall];
        const part = spent > 0 ? (worker.residency[cpu] ?? 0) / spent : 0;
        if (allowed.has(cpu) || part > 0) {
          context.fillStyle = `rgb(${low.map((value, at) => value + (high[at] - value) * Math.sqrt(part)).join(" ")})`;
          context.fillRect(x, y, wide - hair, tall - hair);
        }
        if (worker.last_cpu === cpu) {
          context.fillStyle = colour("hot");
          const size = Math.max(3, Math.min(8, tall - 5));
          context.fillRect(x + (wide - hair - size) / 2, y + (tall - hair - size) / 2, size, size);
        }
      });
    });
    context.fillStyle = colour("dim");
    context.textAlign = "right";
    const rows = Math.ceil(14 / tall);
    this.#workers.forEach((worker, row) => {
      if (row % rows === 0) context.fillText(worker.worker_id, LEFT - 6, TOP + (row + 0.5) * tall + 4);
    });
    context.textAlign = "center";
    const columns = Math.ceil(26 / wide);
    this.#cpus.forEach((cpu, at) => {
      if (at % columns === 0) context.fillText(cpu, LEFT + (at + 0.5) * wide, 12);
    });
  }
}

/** The CPU on which a worker spent most of its time, in words. */
function home({ residency, last_cpu: last }) {
  const [cpu] = Object.entries(residency ?? {}).sort((a, b) => b[1] - a[1])[0] ?? [];
  if (cpu !== undefined) return `mostly on CPU ${cpu}`;
  return last === null ? "not known" : `last on CPU ${last}`;
}

function masks(workers, host) {
  const known = workers.filter((worker) => worker.affinity);
  if (!known.length) return "";
  const shared = host?.sharing_one_cpu ? ` ${host.sharing_one_cpu} workers share one CPU with another.` : "";
  const widths = [...new Set(known.map((worker) => worker.affinity.length))].sort((a, b) => a - b);
  const each = widths.length === 1 ? widths[0] : `${widths[0]} to ${widths.at(-1)}`;
  return `Shaded: the CPUs a worker may run on (${each} each); darker: where it spent its CPU time; square: where it ran last.${shared}`;
}

function reasons(unknown) {
  const why = { residency: () => "CPU time by CPU is not recorded: enable it with --cpu-residency.", processes: (entry) => `Not known: ${entry.why}.` };
  return unknown.filter((entry) => entry.what in why).map((entry) => why[entry.what](entry));
}
