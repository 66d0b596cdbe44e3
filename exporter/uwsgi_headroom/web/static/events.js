// What happened to the server, the newest first: marks on the charts, and a list of them.

import { el, panel } from "./dom.js";
import * as format from "./format.js";
import { tone } from "./marks.js";

const SECONDS = 3600;
const NOTHING = "Nothing happened since the exporter began to watch this server.";

/** The events of the last hour, those of each new document added. Without an answer, the document's own are all. */
export class Events {
  #path;
  #known = new Map();

  constructor(path) {
    this.#path = path;
  }

  /** Ask for the whole hour: a document has only the newest. */
  async load() {
    try {
      const answer = await fetch(`${this.#path}/events?seconds=${SECONDS}`, { signal: AbortSignal.timeout(10000), headers: { Accept: "application/json" } });
      if (!answer.ok || !answer.headers.get("content-type")?.startsWith("application/json")) return void answer.body?.cancel();
      const { events } = await answer.json();
      this.add(events);
    } catch {
      return; // the document's own are shown
    }
  }

  /** Whether there is one that was not known. */
  add(events) {
    const before = this.#known.size;
    for (const event of events ?? []) this.#known.set(event.id, event);
    return this.#known.size !== before;
  }

  /** The newest first. */
  get list() {
    return [...this.#known.values()].sort((one, other) => other.id - one.id);
  }
}

/** The list below the charts. */
export function listed() {
  const list = el("ol", { class: "events" });
  const none = el("p", { class: "hint" }, NOTHING);
  const node = panel("Events", "what happened, the newest first; marked on every chart", none, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events" }, list));
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
  const evidence = event.evidence ? el("span", { class: "why" }, ` ${event.evidence}`) : null;
  return el("li", { "data-kind": event.kind }, sign, time, el("span", {}, el("b", {}, event.title), evidence));
}
