// The events of a server, newest first, for the marks on the charts and for the list.

import { el, marked, panel } from "./dom.js";
import * as format from "./format.js";
import { tone } from "./marks.js";

const SECONDS = 3600;
const NOTHING = "Nothing happened in the last hour.";

/** The events of the last hour: those of the journal, and those of each new document. */
export class Events {
  #path;
  #known = new Map();

  constructor(path) {
    this.#path = path;
  }

  /** Fetch the journal of the whole hour; a document has only the newest events. If this fails, only those are shown. */
  async load() {
    try {
      const answer = await fetch(`${this.#path}/journal?seconds=${SECONDS}`, { signal: AbortSignal.timeout(10000) });
      if (answer.ok) this.add((await answer.json()).events);
    } catch {
      return;
    }
  }

  /** Add events; returns whether any is new. A repeated event replaces its earlier entry. */
  add(events) {
    const before = [...this.#known.keys()].join();
    for (const event of events ?? []) {
      for (const [id, earlier] of this.#known) if (goesOn(event, earlier)) this.#known.delete(id);
      if (![...this.#known.values()].some((later) => goesOn(later, event))) this.#known.set(event.id, event);
    }
    return [...this.#known.keys()].join() !== before;
  }

  /** Known events, newest first. */
  get list() {
    const oldest = Date.now() / 1000 - SECONDS;
    return [...this.#known.values()].filter((event) => event.time > oldest).sort((one, other) => other.id - one.id);
  }
}

/** Whether an event is an earlier one that has repeated. */
const goesOn = (event, earlier) =>
  event.id > earlier.id && event.count > 1 && event.since === earlier.since && event.kind === earlier.kind && event.workers.join() === earlier.workers.join();

/** The panel with the list of events. */
export function listed() {
  const list = el("ol", { class: "events" });
  const none = el("p", { class: "hint" }, NOTHING);
  const node = panel("Events", "newest first; marked on every chart", none, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of events" }, list));
  node.classList.add("wide");
  let newest = null;
  return {
    node,
    happened(events) {
      none.hidden = events.length > 0;
      const known = `${events.length} ${events[0]?.id}`;
      if (known === newest) return;
      newest = known;
      list.replaceChildren(...events.map(one));
    },
  };
}

function one(event) {
  const sign = el("span", { class: "sign", "data-tone": tone(event.kind), "aria-hidden": "true" }, "▼");
  const time = el("time", { datetime: new Date(event.time * 1000).toISOString() }, format.clock(event.time));
  const times = event.count > 1 ? ` (${event.count} times since ${format.clock(event.since)})` : "";
  const evidence = event.evidence ? el("span", { class: "why" }, " ", ...marked(event.evidence)) : null;
  return el("li", { "data-kind": event.kind }, sign, time, el("span", {}, el("b", {}, ...marked(event.title)), times, evidence));
}
