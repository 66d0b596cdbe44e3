// The events of a server, newest first, for the marks on the charts and for the list.

import { tone } from "./canvas.js";
import { el, marked, panel, refill, say } from "./dom.js";
import { between, clock, many } from "./format.js";
import { LONGEST } from "./ranges.js";

const LEAST_SECONDS = 3600; // the list has at least the last hour, although charts may show less
const MOST_LISTED = 200;
const LONGEST_MS = 30000;
const MOST_PAGES = 10; // of a thousand events each: more would take a browser seconds to mark

/** Events: those of the journal, as far back as it was fetched, and those of each new document. */
export class Events {
  #path;
  #known = new Map();
  #since = Infinity; // from when on the journal was fetched, in epoch seconds

  constructor(path) {
    this.#path = path;
  }

  /** Fetch the journal from an instant on, if it is not known; a document has only the newest events. Returns whether it was fetched. */
  async load(now, since = now - LEAST_SECONDS) {
    if (since >= this.#since) return false;
    const seconds = Math.min(LONGEST, Math.max(LEAST_SECONDS, Math.ceil(now - since)));
    try {
      let next = "";
      for (let page = 0; next !== null && page < MOST_PAGES; page++) {
        const before = next && `&before=${encodeURIComponent(next)}`;
        const answer = await fetch(`${this.#path}/journal?seconds=${seconds}${before}`, { signal: AbortSignal.timeout(LONGEST_MS) });
        if (!answer.ok) return false;
        const journal = await answer.json();
        this.add(journal.events);
        next = journal.next;
      }
      this.#since = now - seconds;
      return true;
    } catch {
      return false; // only the events of documents are shown
    }
  }

  /** Add events; returns whether any is new. A repeated event replaces its earlier entry. */
  add(events) {
    let isNew = false;
    for (const event of events ?? []) {
      // Ids begin again when the exporter does.
      const key = `${event.since} ${event.kind} ${event.workers}`;
      if (this.#known.get(key)?.count >= event.count) continue;
      this.#known.set(key, event);
      isNew = true;
    }
    return isNew;
  }

  /** When the last reload before an instant was, in epoch seconds; null if none is known. */
  reloaded(until) {
    const times = [...this.#known.values()].filter(({ kind, time }) => kind === "reload" && time < until).map(({ time }) => time);
    return times.length ? Math.max(...times) : null;
  }

  /** The events between two instants in epoch seconds, newest first: by default of the last hour. */
  list(from = Date.now() / 1000 - LEAST_SECONDS, until = Infinity) {
    const within = [...this.#known.values()].filter((event) => from < event.time && event.time <= until);
    return within.sort((one, other) => other.time - one.time || other.id - one.id);
  }
}

/** The time of which events are listed: what charts show, but for a range up to now at least the last hour. */
export function listedSpan({ range, step, span: [from, until] }, now) {
  if (range.until) return [from, until];
  return [Math.min(step ? from : now, now - LEAST_SECONDS), Infinity];
}

export function listed() {
  const list = el("ol", { class: "events" });
  const deploy = el("p", { class: "said" });
  const none = el("p", { class: "hint" });
  const more = el("p", { class: "hint" });
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of events" }, list, more);
  const node = panel("Events", "newest first; charts mark them, several that are close together as the worst of them", deploy, none, scroll);
  return {
    node,
    /** What the last reload changed, while it is judged and where it made something worse. */
    now({ deploy: judged = null }) {
      say(deploy, judged && (!judged.is_over || judged.status === "worse") ? judged.sentence : "");
      deploy.hidden = !deploy.textContent;
    },
    /** events: newest first; [from, until]: the time that they are of. */
    happened(events, [from, until]) {
      none.hidden = events.length > 0;
      say(none, `Nothing happened ${until === Infinity ? "since" : "between"} ${until === Infinity ? clock(from) : between(from, until).replace(" to ", " and ")}.`);
      const left = events.length - MOST_LISTED;
      more.hidden = left <= 0;
      say(more, `${many(left, "earlier event")} left out: zoom into a chart to list them.`);
      const known = events.map((event) => `${event.time} ${event.id} ${event.count}`).join();
      refill(list, known, () => events.slice(0, MOST_LISTED).map(one));
    },
  };
}

function one(event) {
  const sign = el("span", { class: "sign", "data-tone": tone(event.kind), "aria-hidden": "true" }, "▼");
  const time = el("time", { datetime: new Date(event.time * 1000).toISOString() }, clock(event.time));
  const times = event.count > 1 ? ` (${event.count} times since ${clock(event.since)})` : "";
  const evidence = event.evidence ? el("span", { class: "why" }, " ", ...marked(event.evidence)) : null;
  return el("li", { "data-kind": event.kind }, sign, time, el("span", {}, el("b", {}, ...marked(event.title)), times, evidence));
}
