// The lines of code in which requests spend their time, and what they do there, in the colours of the wait states.

import { el, panel, say } from "./dom.js";
import * as format from "./format.js";
import { WAITS } from "./words.js";

const MOST_LINES = 10;
const LEAST_PART = 0.2; // of a line's time, from which on a state is named
const LEAST_REST = 0.005;
const TITLE = "Where in the code";

export function code() {
  const list = el("ol", { class: "code" });
  const rest = el("p", { class: "hint" });
  const node = panel(TITLE, "", list, rest);
  const hint = node.querySelector(".hint");
  node.hidden = true;
  let rows = new Map();
  return {
    node,
    now({ code: known }) {
      node.hidden = !known;
      if (!known) return;
      const lines = known.lines.slice(0, MOST_LINES);
      rows = new Map(lines.map((line) => [key(line), rows.get(key(line)) ?? row(line)]));
      const ordered = [...rows.values()];
      if (ordered.length !== list.children.length || ordered.some((each, at) => each.node !== list.children[at])) {
        list.replaceChildren(...ordered.map((each) => each.node));
      }
      for (const line of lines) rows.get(key(line)).show(line, lines[0].share);
      say(hint, known.why === null ? explained(known) : "");
      say(rest, known.why === null ? left(known, lines) : `Not known: ${known.why}.`);
      rest.hidden = !rest.textContent;
    },
  };
}

const explained = (known) =>
  `the mean time of a request in service, by line; ${format.many(Math.round(known.threads), "sample")} of busy threads in ${format.duration(known.seconds)}`;

/** What is not in the lines that are shown. */
function left(known, lines) {
  if (!known.threads) return "No thread was busy.";
  const shown = lines.reduce((sum, line) => sum + line.share, 0);
  const parts = [[1 - shown - known.unread, "in other lines"], [known.unread, "not readable"], [known.changed, "dropped"]];
  return parts.filter(([part]) => part > LEAST_REST).map(([part, what]) => `${format.percent(part)} ${what}`).join(", ");
}

/** A line and its states: a row with others has other segments. */
const key = (line) => JSON.stringify([line.function, line.file, line.line, line.callee, line.states.map((each) => each.state)]);

function row(line) {
  const [amount, doing] = [el("b", {}), el("span", { class: "hint" })];
  const place = el("bdi", { title: line.file || null }, named(line));
  const parts = line.states.map(({ state }) => segment(state));
  const bar = el("div", { class: "parts", "aria-hidden": "true" }, ...parts); // the words beside it say the same
  const show = (now, largest) => {
    say(amount, `${now.per_request === null ? "" : `${format.duration(now.per_request)}, `}${format.percent(now.share)}`);
    say(doing, inWords(now));
    bar.style.setProperty("width", `${((100 * now.share) / largest).toFixed(1)}%`);
    now.states.forEach((each, at) => parts[at].style.setProperty("--part", (each.share / now.share).toFixed(4)));
  };
  return { node: el("li", {}, el("div", {}, place, " ", amount, " ", doing), bar), show };
}

function named(line) {
  if (!line.line) return "outside of Python code";
  return `${line.function} (${line.file.split("/").slice(-2).join("/")}:${line.line})${line.callee ? `, in ${line.callee}` : ""}`;
}

function segment(state) {
  const node = el("div", { class: state === "unknown" ? "part hatched" : "part" });
  const colour = `wait-${state.replaceAll("_", "-")}`;
  node.style.setProperty("--swatch", `var(--${colour})`);
  node.style.setProperty("--on-swatch", `var(--on-${colour})`);
  return node;
}

/** What the threads in a line mostly do, with the address that they wait for. */
function inWords({ states, share, addresses }) {
  const address = (state) => (addresses.length && (state === "backend" || state === "dns") ? ` ${addresses[0]}` : "");
  return states.filter((each) => each.share >= LEAST_PART * share).map(({ state }) => `${WAITS[state][0]}${address(state)}`).join(", ");
}
