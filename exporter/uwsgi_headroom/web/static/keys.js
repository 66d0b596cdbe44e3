// The lines of the document, which the exporter composes for every face: four figures below the banner, which say whether
// users are hurt, a panel of all others, and the page as text, for the incident channel.

import { el, panel, refill, Tile, visible } from "./dom.js";
import * as format from "./format.js";

const FELT = [["users_wait"], ["served"], ["objective", "response"], ["queue"]]; // of each, the first that there is
const MOST_PARTS = 3; // the panel has the others
const ELSEWHERE = ["verdict", "act", "time", "stuck", "outside", "unknown", "identity", "users_wait", "served"];

/** The first line with one of these codes, or null. */
export const lineOf = ({ lines }, ...codes) => codes.map((code) => lines.find((line) => line.code === code)).find(Boolean) ?? null;

export const textOf = (document, code) => lineOf(document, code)?.parts.join("") ?? "";

/** The lines about what is not known, as sentences; of these things alone, if any are named. */
export const unknowns = ({ lines }, ...things) =>
  lines.filter(({ code, parts }) => code === "unknown" && (!things.length || things.includes(parts[0]))).map(({ parts }) => `Not known: ${parts.join("")}.`);

/** The four figures below the banner. A server that is down has hardly any. */
export class Keys {
  constructor() {
    this.tiles = FELT.map(() => new Tile());
    this.node = el("dl", { class: "keys" }, ...this.tiles.map((tile) => tile.node));
  }

  show(document) {
    this.tiles.forEach((tile, at) => tile.show(lineOf(document, ...FELT[at]), MOST_PARTS));
  }
}

export function figures() {
  const list = el("dl", { class: "keys many" });
  const node = panel("Figures", "over the window; 19 of 20 percentiles are in the range behind each", list);
  let tiles = [];
  return {
    node,
    apart: true,
    now(document) {
      const shown = document.lines.filter(({ code }) => !ELSEWHERE.includes(code));
      refill(list, String(shown.length), () => (tiles = shown.map(() => new Tile())).map((tile) => tile.node));
      tiles.forEach((tile, at) => tile.show(shown[at]));
    },
  };
}

export const harms = ({ harms = [] }) => harms.map(({ evidence }) => evidence);

/** Describe a server as text. url: of the page; trouble: why the figures are not current, or null. */
export function text(document, url, trouble = null) {
  const { name, version, lines, window, findings, time, read_at: read } = document;
  const of = window ? `, ${format.shortness(window) || `over ${format.duration(window.seconds)}`}` : "";
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
