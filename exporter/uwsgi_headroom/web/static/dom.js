// Elements, made without text ever being read as HTML: names, paths and findings come from elsewhere.

/** An element. Attributes that are functions listen to the event of their name; null and false leave one out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** Write text where it differs: what stays the same costs no layout. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute where it differs, or take it away. */
export function mark(node, name, value) {
  if (value === null || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Do this in a frame of its own, when the next one is drawn: both in one would take longer than a frame may. */
export const afterFrame = (act) => requestAnimationFrame(() => setTimeout(act));

/** A panel of the page: a title, a sentence beside it that explains, and a body. */
export function panel(title, explanation, ...body) {
  const heading = el("h2", {}, title);
  const hint = el("p", { class: "hint" }, explanation);
  return el("section", { class: "panel", "aria-label": title }, el("div", { class: "title" }, heading, hint), ...body);
}

/** The same, to be folded; it begins so on a phone, where it would be far to scroll past. */
export function folding(title, explanation, ...body) {
  const head = el("summary", { class: "title" }, el("h2", {}, title), " ", el("span", { class: "hint" }, explanation));
  const node = el("details", { class: "panel" }, head, ...body);
  node.open = matchMedia("(min-width: 48rem)").matches;
  return node;
}

/** Text whose parts between backticks are to be typed: its nodes. */
export const marked = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

/** The same as plain text. */
export const unmarked = (text) => text.replaceAll("`", "");
