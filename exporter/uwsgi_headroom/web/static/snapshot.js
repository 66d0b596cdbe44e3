// Writes the page as text, for the incident channel.

import { el, visible } from "./dom.js";
import { harms } from "./findings.js";
import { shortness } from "./headline.js";
import * as format from "./format.js";

/** Describe a server as text. url: of the page; trouble: why the figures are not current, or null. */
export function text(document, url, trouble = null) {
  const { name, version, lines, window, findings, time, read_at: read } = document;
  const of = window ? `, ${shortness(window) || `over ${format.duration(window.seconds)}`}` : "";
  const written = [`${name} (uWSGI${version ? ` ${version}` : ""})${of}`, trouble && `NOT CURRENT: ${trouble}`];
  written.push(...lines.filter(({ code }) => code !== "unknown").map(({ label, parts }) => `${label.padEnd(13)}${parts.join("")}`));
  findings.forEach((finding, at) => {
    written.push(`${at + 1}. ${[`${finding.severity.toUpperCase()}:`, finding.title, ...harms(finding), finding.evidence, since(finding)].filter(Boolean).join(" ")}`);
    if (finding.change) written.push(`   -> ${finding.change}`);
  });
  written.push(`${format.utc(read ?? time)}  ${url}`);
  return visible(`${written.filter(Boolean).join("\n")}\n`);
}

const since = ({ since: instant }) => (instant ? `(since ${format.utc(instant)})` : "");

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
