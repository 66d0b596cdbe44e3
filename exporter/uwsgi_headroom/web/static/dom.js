// Builds elements. Text is never parsed as HTML, and what would hide or turn text around is shown as its escape, because
// names and paths come from monitored servers.

import { STATUS } from "./words.js";

const HIDDEN = /(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const SPOKEN = new Set(["title", "aria-label"]);
const escaped = (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`;

/** A text in which every character that would not be seen is its escape, such as `\u202e`. */
export const visible = (text) => String(text).replace(HIDDEN, escaped);

/** Make an element. An attribute that is a function listens to the event of its name; null and false omit one. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else mark(node, name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null).map((child) => (child instanceof Node ? child : visible(child))));
  return node;
}

/** Set a node's text if it differs: unchanged text costs no layout. */
export function say(node, text) {
  const shown = visible(text ?? "");
  if (node.textContent !== shown) node.textContent = shown;
}

/** Set an attribute if it differs; null and false remove it. */
export function mark(node, name, value) {
  if (value === null || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const shown = SPOKEN.has(name) ? visible(value) : String(value);
  if (node.getAttribute(name) !== shown) node.setAttribute(name, shown);
}

/** Act after the next frame: drawing and this work in one frame would take longer than a frame may. */
export const afterFrame = (act) => requestAnimationFrame(() => setTimeout(act));

/** A panel of the page: a title, an explanation beside the title, and a body. */
export function panel(title, explanation, ...body) {
  const heading = el("h2", {}, title);
  const hint = el("p", { class: "hint" }, explanation);
  return el("section", { class: "panel", "aria-label": title }, el("div", { class: "title" }, heading, hint), ...body);
}

/** A panel that folds. It starts folded on a phone, to shorten the page. */
export function folding(title, explanation, ...body) {
  const head = el("summary", { class: "title" }, el("h2", {}, title), " ", el("span", { class: "hint" }, explanation));
  const node = el("details", { class: "panel" }, head, ...body);
  node.open = matchMedia("(min-width: 48rem)").matches;
  return node;
}

/** The nodes of a text; its parts between backticks become code. */
export const marked = (text) => visible(text).split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

/** A text without its backticks. */
export const unmarked = (text) => text.replaceAll("`", "");

const SHORT = 9; // letters: longer figures are smaller, so that they fit in one line

/** A figure with its name, and a note below it. */
export class Tile {
  constructor() {
    this.name = el("dt", {});
    this.figure = el("b", {});
    this.note = el("small", {});
    this.node = el("div", {}, this.name, el("dd", {}, this.figure, this.note));
  }

  /** Show a line of a document: its first part is the figure, the others are the note, of at most so many parts in all.
   * Null: there is none. A sign says the same as a colour. */
  show(line, most = Infinity) {
    const [figure, ...rest] = line?.parts.slice(0, most) ?? ["\u2013"];
    if (line) say(this.name, `${line.label[0].toUpperCase()}${line.label.slice(1)}`);
    this.node.hidden = !this.name.textContent; // a figure that was never known has no name
    mark(this.figure, "data-figure", line?.code ?? null);
    say(this.figure, figure);
    mark(this.figure, "data-long", figure.length > SHORT);
    say(this.note, rest.join("").replace(/^[ ,;:]+/, ""));
    const tone = line?.tone in WARNS ? line.tone : null;
    mark(this.node, "data-tone", tone);
    mark(this.figure, "data-sign", tone ? `${STATUS[tone][0]} ` : null);
  }
}

const WARNS = { warning: 1, critical: 1 };
