// Builds elements: text and panels, controls, keys with their help, and the choices that a copied URL brings along. Text is
// never parsed as HTML, and what would hide or turn text around is shown as its escape, because names and paths come from
// monitored servers.

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

/** Make a node's children again if what they show differs: else a selection, or a link's focus, stays. */
export function refill(node, shown, make) {
  if (node.dataset.shown === shown) return;
  node.dataset.shown = shown;
  node.replaceChildren(...make());
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

export const marks = (node, attributes) => Object.entries(attributes).forEach((each) => mark(node, ...each));

/** Act after the next frame: drawing and this work in one frame would take longer than a frame may. */
export const afterFrame = (act) => requestAnimationFrame(() => setTimeout(act));

/** The URL of a server's page; null for no server. */
export const pageOf = (server) => server?.path.replace("/api/v2/servers/", "/servers/") ?? null;

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

/** Show a choice of one option {name, value} in a node: radio buttons, so that arrow keys work. It is made again if its
 * options or the chosen one differ, with the focus that it had. */
export function offer(node, legend, options, chosen, change) {
  const shown = JSON.stringify([options.map(({ name }) => name), chosen]);
  if (node.dataset.offered === shown) return;
  const hadFocus = node.contains(document.activeElement);
  node.dataset.offered = shown;
  const inputs = options.map((option) => {
    const id = `${legend}-${option.value}`.replace(/\W+/g, "-");
    const input = el("input", { type: "radio", name: legend, id, value: option.value, change: () => change(option) });
    input.checked = option.value === chosen;
    return [input, el("label", { for: id }, option.name)];
  });
  node.replaceChildren(el("fieldset", { class: "choice" }, el("legend", {}, legend), ...inputs.flat()));
  if (hadFocus) node.querySelector(":checked").focus();
}

export const isOn = (button) => button.getAttribute("aria-pressed") === "true";

/** A button that is on or off. texts: of both states. */
export function toggle(texts, change, isPressed = false) {
  const click = () => {
    const pressed = !isOn(button);
    mark(button, "aria-pressed", String(pressed));
    say(button, texts[Number(pressed)]);
    change(pressed);
  };
  const button = el("button", { type: "button", "aria-pressed": String(isPressed), click }, texts[Number(isPressed)]);
  return button;
}

/** A button that shows the result of its action for two seconds. */
export function action(name, act) {
  const click = async () => {
    say(button, await act());
    setTimeout(() => say(button, name), 2000);
  };
  const button = el("button", { type: "button", click }, name);
  return button;
}

/** keys: [key, what it does, act]; more: [gesture, what it does]. Returns the button that opens the dialog. */
export function help(keys, more = []) {
  const rows = [...keys, ["?", "this help"], ...more].map(([key, words]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, words)]);
  const close = el("form", { method: "dialog" }, el("button", {}, "Close"));
  const dialog = el("dialog", { class: "help", "aria-label": "Help" }, el("h2", {}, "Keys and gestures"), el("dl", {}, ...rows.flat()), close);
  const open = () => {
    if (!dialog.isConnected) document.body.append(dialog);
    if (!dialog.open) dialog.showModal();
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=radio]), textarea, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const [, , act] = event.key === "?" ? ["?", "", open] : (keys.find(([key]) => key === event.key) ?? []);
    if (!act) return;
    event.preventDefault();
    act();
  });
  return el("button", { type: "button", "aria-label": "Help", title: "Keys and gestures (?)", click: open }, "?");
}

const chosen = new URLSearchParams(location.search);
export const recall = (key) => chosen.get(key);

/** Write a choice into the URL; null removes it. */
export function remember(key, value) {
  if (value === null || value === "") chosen.delete(key);
  else chosen.set(key, value);
  history.replaceState(null, "", location.pathname + query());
}

export const query = () => (chosen.size ? `?${chosen}` : ""); // all choices, as the query of a URL
