// Writes the page as text, for the incident channel.

import * as format from "./format.js";
import { amount, short, shortness } from "./headline.js";
import { el, visible } from "./dom.js";
import { harms } from "./findings.js";
import { line } from "./identity.js";
import * as objective from "./objective.js";
import * as percentiles from "./percentiles.js";
import * as routes from "./routes.js";
import { destinations, parts } from "./waits.js";
import { LIMITS, STATUS } from "./words.js";

/** Describe a server as text. url: of the page; trouble: why the figures are not current, or null. */
export function text(document, url, trouble = null) {
  const { flow, threads, window, sockets, findings } = document;
  const word = document.state === "down" ? "DOWN" : STATUS[document.status][1];
  const lines = [`${document.name} (uWSGI${document.version ? ` ${document.version}` : ""}): ${word}`, document.verdict];
  if (line(document)) lines.push(line(document));
  if (trouble) lines.push(`NOT CURRENT: ${trouble}`);
  if (document.error?.change) lines.push(`   -> ${document.error.change}`);
  if (document.headroom?.factor) lines.push(`Headroom ${document.headroom.is_upper_bound ? "at most " : ""}${amount(document.headroom)}, first limit ${LIMITS[document.headroom.first]} (${limits(document)})`);
  else if (document.headroom?.other) lines.push(`Headroom not known: ${document.headroom.other.why}`);
  if (flow) {
    lines.push(
      `Throughput ${format.rate(flow.throughput)} of ${format.duration(flow.response_time)} each; concurrency ${format.mean(flow.observed)} of ${format.meanThreads(threads?.mean ?? threads?.available)} threads, ${format.count(threads?.busy)} busy now`,
    );
  }
  lines.push(...[percentiles.line(document), objective.line(document), time(document), routes.line(document)].filter(Boolean));
  for (const socket of sockets) lines.push(queue(socket));
  if (window) lines.push(short(window) ? shortness(window) : `Figures over ${format.duration(window.seconds)}.`);
  findings.forEach((finding, at) => {
    lines.push(`${at + 1}. ${[`${finding.severity.toUpperCase()}:`, finding.title, ...harms(finding), finding.evidence, since(finding)].filter(Boolean).join(" ")}`);
    if (finding.change) lines.push(`   -> ${finding.change}`);
  });
  lines.push(`${format.utc(document.read_at ?? document.time)}  ${url}`);
  return visible(`${lines.join("\n")}\n`);
}

const limits = ({ headroom }) =>
  Object.entries(headroom.by_limit)
    .filter(([, value]) => value !== null)
    .sort((a, b) => a[1] - b[1])
    .map(([limit, value]) => `${LIMITS[limit]} ${format.factor(value)}`)
    .join(", ");

/** What a mean request spends its time on, the longest part first. */
function time(document) {
  const longest = parts(document).sort((a, b) => b.seconds - a.seconds);
  if (!longest.length) return "";
  const whole = longest.reduce((sum, part) => sum + part.seconds, 0);
  return `Where the ${format.duration(whole)} go: ${longest.map((part) => `${part.name} ${format.duration(part.seconds)}`).join(", ")}${destinations(document).map((text) => `; ${text}`).join("")}`;
}

const since = ({ since: instant }) => (instant ? `(since ${format.utc(instant)})` : "");

const queue = (socket) =>
  socket.measurable
    ? `Queue ${socket.name}: ${format.count(socket.queue)} / ${format.count(socket.limit)}${socket.queue >= socket.limit ? " (full)" : ""}, ${format.mean(socket.mean_queue)} on average`
    : `Queue ${socket.name}: not measurable (${socket.reason})`;

/** Copy a snapshot to the clipboard; if that fails, show the text to copy. Returns whether the text was copied. */
export async function copy(snapshot) {
  try {
    await navigator.clipboard.writeText(snapshot);
    return true;
  } catch {
    const area = el("textarea", { readonly: true, rows: 16, "aria-label": "Snapshot" });
    area.value = snapshot;
    const close = el("form", { method: "dialog" }, el("button", {}, "Close"));
    const dialog = el("dialog", { close: () => dialog.remove() }, el("p", {}, "Copy this text:"), area, close);
    document.body.append(dialog);
    dialog.showModal();
    area.select();
    const copied = document.execCommand("copy"); // deprecated, but the only way over plain HTTP
    if (copied) dialog.close();
    return copied;
  }
}
