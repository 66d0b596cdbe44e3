// The banner: what is wrong, how bad it is and since when, and what to do first. All findings are folded into it, worst first,
// each whole: its figures, its advice, and how long it has held.

import { action, el, mark, marked, refill, say, unmarked } from "./dom.js";
import * as format from "./format.js";
import { harms, lineOf } from "./keys.js";
import { STATES, STATUS } from "./words.js";

const [NONE, LITTLE] = [1.05, 1.15]; // headroom that reads 1.0x, and 1.1x: no status makes it look like any
const LAST_WORDS = 3; // messages of the log of a server that is down
const BEFORE = 60; // seconds: earlier messages are about something else
const ROLL_BACK = "Roll back, if that reload was a deploy";
const NOTHING = "Nothing to change: no finding at today's load";
const SENTENCE_ENDS = /(?<=[.?])\s+(?=[A-Z`])/;

export class Headline {
  #announced = "";
  #command = "";

  /** copy: copies a text, returns whether that worked; open: shows the predictions of other settings. */
  constructor(copy, open) {
    this.chip = el("b", {});
    this.since = el("span", { class: "since" });
    this.verdict = el("p", { class: "verdict", "data-figure": "verdict" });
    this.said = el("p", { class: "said" });
    this.what = el("span", {});
    this.promise = el("span", { class: "promise" });
    this.act = el("p", { class: "act" }, el("b", {}, "DO"), el("span", {}, this.what, this.promise));
    this.link = el("a", {}, "Runbook");
    this.commands = action("Copy commands", async () => ((await copy(this.#command)) ? "Copied" : "Copy commands"));
    this.predict = el("button", { type: "button", click: open }, "What if");
    this.more = el("summary", {});
    this.findings = new Findings();
    this.rest = el("details", { class: "more" }, this.more, this.findings.node);
    this.factor = el("span", { class: "factor", "data-figure": "headroom" });
    this.unit = el("span", { class: "unit" });
    this.figure = el("p", { class: "figure" }, this.factor, " ", this.unit);
    this.age = el("p", { class: "age" });
    this.live = el("p", { class: "unseen", role: "status", "aria-live": "polite" });
    const words = el("div", { class: "words" }, this.verdict, this.said, this.act);
    this.actions = el("div", { class: "controls" }, this.link, this.commands, this.predict);
    this.node = el("section", { class: "headline", "aria-label": "Verdict" }, el("p", { class: "state" }, this.chip, " ", this.since),
      words, this.figure, this.age, this.actions, this.rest, this.live);
  }

  /** trouble: why the figures are not current, or null; silent: seconds without an answer of the exporter, or null. */
  show(document, trouble, silent = null) {
    const { headroom, window, kind, findings } = document;
    const { status, chip, since, title, said, act, promise, runbook, command } = silent === null ? judge(document) : lose(document, silent);
    const isCurrent = kind === "server" && status !== "down" && silent === null;
    mark(this.node, "data-status", status);
    mark(this.node, "data-kind", kind);
    this.figure.hidden = !isCurrent || !(headroom?.factor || headroom?.far?.length || headroom?.other);
    const [left, line] = [room(document), lineOf(document, "headroom")?.parts ?? []];
    const first = left < headroom?.factor ? [format.factor(left), ", until requests wait"] : line;
    const [factor, ...then] = left < NONE ? ["no", " left"] : first;
    mark(this.figure, "data-none", left < LITTLE);
    say(this.factor, factor?.replace("not known", "?").replace("at most", "≤"));
    say(this.unit, `headroom${then.join("")}`);
    say(this.chip, chip);
    say(this.since, since);
    say(this.verdict, unmarked(title));
    say(this.said, unmarked(said));
    this.said.hidden = !said;
    this.act.hidden = !act;
    refill(this.what, act, () => marked(act));
    say(this.promise, promise);
    this.link.hidden = !isOurs(runbook);
    mark(this.link, "href", isOurs(runbook) ? runbook : null);
    this.#command = command;
    this.commands.hidden = !command;
    this.predict.hidden = !isCurrent || !document.workers.length;
    this.actions.hidden = this.link.hidden && this.commands.hidden && this.predict.hidden;
    say(this.more, counted(findings));
    this.rest.hidden = !findings.length || status === "down" || silent !== null;
    this.findings.show(document);
    const note = silent !== null ? "" : trouble ?? (window ? format.shortness(window) : "");
    say(this.age, note);
    mark(this.age, "class", trouble && note ? "age trouble" : "age");
    this.#announce(`${chip} ${trouble ?? ""}`, `${unmarked(title)} ${unmarked(act)}`);
  }

  // A screen reader announces a new verdict, but not a changed figure in the same verdict.
  #announce(what, verdict) {
    const kind = `${what} ${verdict}`.replace(/[\d.:]+/g, "");
    if (kind === this.#announced) return;
    this.#announced = kind;
    say(this.live, `${what} ${verdict}`);
  }
}

/**
 * What the banner says of a document: its status; chip: a sign and a word; since: when it began; title; said: one more
 * sentence; act: what to do first; promise: what that does; runbook; command: lines to copy.
 */
export function judge(document) {
  const { state, status, findings, error, address, events = [], deploy = null } = document;
  const [verdict, act] = [lineOf(document, "verdict"), lineOf(document, "act")];
  const [title, since = ""] = verdict.parts;
  const isDown = state === "down";
  const worst = isDown || status === "warning" || status === "critical" ? (isDown ? error : findings[0]) : null;
  const changed = !isDown && deploy?.status === "worse" ? deploy.sentence : "";
  const felt = isDown ? [`Its stats are read at ${address}.`, error?.harm, lastWords(events)]
    : [worst && (worst.harms?.[0] ?? worst).evidence.split(SENTENCE_ENDS)[0], changed];
  const instead = worst?.runbook && !isDown ? "Follow the runbook" : changed ? ROLL_BACK : status === "ok" && document.window ? NOTHING : "";
  return {
    status: isDown ? "down" : status,
    chip: isDown ? STATES.down.toUpperCase() : STATUS[status].join(" "),
    since: since.trim().replace(/^Since/, "since").replace(/\.$/, ""),
    title: `${title[0].toUpperCase()}${title.slice(1)}${/[.?!]$/.test(title) ? "" : "."}`,
    said: felt.filter(Boolean).join(" "),
    act: act?.parts[0] ?? instead,
    promise: act?.parts[1] ?? "",
    runbook: worst?.runbook ?? null,
    command: worst ? commands(document, { settings: worst.settings, title: worst.title ?? document.verdict, change: worst.change ?? "" }) : "",
  };
}

/** What the log of a server that is down said last; empty if it is not read. */
function lastWords(events) {
  const since = events.find((event) => event.kind === "server_down")?.time ?? 0;
  const logged = events.filter(({ kind, time }) => kind === "log_message" && time >= since - BEFORE).slice(0, LAST_WORDS);
  const words = logged.reverse().map(({ title }) => title.replace(/^uWSGI's log: /, "")).join(" ");
  return words && `Last words of its log: ${words}`;
}

/** What it says while the exporter does not answer: nothing of the server is known then. */
function lose(document, seconds) {
  const then = judge(document);
  const [sign, ...words] = STATES.lost.split(" ");
  return {
    status: "lost",
    chip: `${sign} ${words.join(" ").toUpperCase()}`,
    since: "",
    title: `The exporter has not answered for ${format.duration(seconds)}: these figures are old.`,
    said: `At ${format.clock(document.read_at ?? document.time)} it said: ${then.chip} ${then.title}`,
    act: "See whether the exporter runs, and whether this browser reaches it",
    promise: "",
    runbook: null,
    command: "",
  };
}

/** The settings that a finding advises, as lines of a configuration, and the commands that it names; empty if none. */
function commands({ name, setup }, { title, settings = {}, change }) {
  const lines = Object.entries(settings).map(([option, value]) => `${option} = ${value}${was(setup?.options?.[option])}`);
  lines.push(...change.split("`").filter((text, at) => at % 2 && /\S\s+\S/.test(text)));
  return lines.length ? [`# ${name}: ${unmarked(title)}`, ...lines, ""].join("\n") : "";
}

const was = (option) => (option ? `  # now ${option.value}, in ${option.source}` : "");

/** What is folded: `Why, 1 more cause, 2 notes`. */
function counted(findings) {
  const notes = findings.filter(({ severity }) => severity === "info").length;
  const causes = findings.length - notes;
  const parts = [causes ? "Why" : "", causes > 1 ? format.many(causes - 1, "more cause") : "", notes ? format.many(notes, "note") : ""];
  return parts.filter(Boolean).join(", ");
}

/** The factor by which load can grow until requests wait, or until the first limit. If they wait already, and it is OK,
 * until the first limit. */
function room({ headroom, status }) {
  const { factor, usable } = headroom ?? {};
  const waits = status === "ok" && usable < NONE ? null : usable;
  return Math.min(factor ?? Infinity, waits ?? Infinity);
}

export class Findings {
  #items = [];

  constructor() {
    this.node = el("ol", { class: "findings" });
  }

  show({ findings, time }) {
    const codes = findings.map((finding) => finding.code).join();
    refill(this.node, codes, () => (this.#items = findings.map(() => new Item())).map((item) => item.node));
    findings.forEach((finding, at) => this.#items[at].show(finding, time));
  }
}

class Item {
  constructor() {
    this.chip = el("span", { class: "chip" });
    this.title = el("b", {});
    this.since = el("small", {});
    this.why = el("p", { class: "why" });
    this.what = el("span", {});
    this.change = el("p", { class: "change" }, el("span", { "aria-hidden": "true" }, "→ "), this.what);
    this.link = el("a", {}, "Runbook");
    this.runbook = el("p", {}, this.link);
    const words = el("div", {}, el("p", { class: "finding" }, this.chip, " ", this.title, " ", this.since), this.why);
    this.node = el("li", {}, words, el("div", {}, this.change, this.runbook));
  }

  show(finding, time) {
    mark(this.node, "data-severity", finding.severity);
    say(this.chip, STATUS[finding.severity].join(" "));
    say(this.since, lasting(finding, time));
    const why = [...harms(finding), finding.evidence, finding.meaning].join(" ");
    const texts = [[this.title, finding.title], [this.why, why], [this.what, finding.change]];
    for (const [node, text] of texts) refill(node, text, () => marked(text));
    this.change.hidden = !finding.change;
    this.runbook.hidden = !isOurs(finding.runbook);
    mark(this.link, "href", isOurs(finding.runbook) ? finding.runbook : null);
  }
}

export const lasting = ({ since }, time) => (since ? `for ${format.duration(Math.max(1, time - since))}, since ${format.clock(since)}` : "");

/** Whether a URL leads to a page and not to a script. */
export const isOurs = (address) => typeof address === "string" && /^(\/|https?:\/\/)/.test(address);
