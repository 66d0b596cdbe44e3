// A table that sorts by the column whose heading is clicked, and rewrites only cells that differ.

import { afterFrame, el, mark, recall, remember, say } from "./dom.js";
import { isMissing, NOT_KNOWN } from "./format.js";

const AT_ONCE = 24; // rows that are new: more in one frame would take longer than a frame may

export class Table {
  #columns;
  #rows = new Map();
  #shown = [];
  #absent = new Set();
  #by;
  #down;
  #remembered;
  #most;

  /**
   * columns: {head, value, text, title, left, wraps, kind, hint, tone, part, node, optional}: rows sort by `value`, a cell
   * shows `text`, `hint` is its title, `tone` says how urgent it is; `part` is the length of a bar behind the text, from 0
   * to 1; `node` makes the element of a cell that is more than text; `kind` is a class; an optional column is shown only
   * if a `value` is known. key: identifies a row; flag: the class of a row. by: the column to sort by; null for the order
   * in which rows are given. remembered: the key of the page's URL that holds the order. none: shown if there are no rows.
   * most: rows, until the reader asks for as many more.
   */
  constructor(name, columns, { key, flag = () => null, by = 0, down = false, remembered = null, none = "none", most = Infinity }) {
    this.#columns = columns;
    this.#most = most;
    this.key = key;
    this.flag = flag;
    [this.#by, this.#down] = [by, down];
    this.#remembered = remembered;
    if (remembered) this.#recall(recall(remembered) ?? "");
    this.none = el("p", { class: "hint" }, none);
    this.more = el("button", { type: "button", hidden: true, click: () => this.#grow(most) });
    this.heads = columns.map((column, at) => {
      const button = el("button", { type: "button", title: column.title ?? null, click: () => this.#sort(at) }, column.head);
      return el("th", { scope: "col", class: classes(column) }, button);
    });
    this.body = el("tbody");
    const table = el("table", { "aria-label": name }, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.node = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${name}` }, table, this.none, this.more);
    this.#label();
  }

  show(items) {
    this.#shown = items;
    this.#absent = new Set(this.#columns.filter(({ optional, value }) => optional && items.every((item) => isMissing(value(item)))));
    this.#columns.forEach((column, at) => mark(this.heads[at], "hidden", this.#absent.has(column)));
    this.none.hidden = items.length > 0;
    this.#draw();
  }

  #draw() {
    const wanted = this.#ordered().slice(0, this.#most);
    let added = 0;
    const items = wanted.filter((item) => this.#rows.has(this.key(item)) || added++ < AT_ONCE);
    const keys = new Set(items.map(this.key));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.#rows.delete(key);
    }
    items.forEach((item, place) => {
      const row = this.#write(item);
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
    });
    const isPart = added > AT_ONCE;
    if (isPart) afterFrame(() => this.#draw());
    mark(this.node, "aria-busy", isPart);
    const rest = this.#shown.length - wanted.length;
    this.more.hidden = !rest;
    say(this.more, `Show more: ${rest} left`);
  }

  #grow(by) {
    this.#most += by;
    this.#draw();
  }

  #write(item) {
    const key = this.key(item);
    let row = this.#rows.get(key);
    if (!row) {
      row = el("tr", {}, ...this.#columns.map((column) => el("td", { class: classes(column), "data-head": column.head })));
      this.#columns.forEach((column, at) => column.node && row.cells[at].append(column.node(item)));
      this.#rows.set(key, row);
    }
    mark(row, "class", this.flag(item));
    this.#columns.forEach((column, at) => {
      say(column.node ? row.cells[at].firstChild : row.cells[at], column.text(item));
      if (column.optional) mark(row.cells[at], "hidden", this.#absent.has(column));
      if (column.part) row.cells[at].style.setProperty("--part", Math.min(1, column.part(item) ?? 0).toFixed(3));
      if (column.tone) mark(row.cells[at], "data-tone", column.tone(item));
      if (column.hint) mark(row.cells[at], "title", column.hint(item));
    });
    return row;
  }

  #ordered() {
    const value = this.#columns[this.#by]?.value;
    const sign = this.#down ? -1 : 1;
    return value === undefined ? this.#shown : [...this.#shown].sort((a, b) => compare(value(a), value(b), sign));
  }

  #sort(at) {
    this.#down = this.#by === at ? !this.#down : !this.#columns[at].left;
    this.#by = at;
    if (this.#remembered) remember(this.#remembered, (this.#down ? "-" : "") + this.#columns[at].head);
    this.#label();
    this.#draw();
  }

  #recall(order) {
    const at = this.#columns.findIndex((column) => column.head === order.replace(/^-/, ""));
    if (at >= 0) [this.#by, this.#down] = [at, order.startsWith("-")];
  }

  #label() {
    const order = this.#down ? "descending" : "ascending";
    this.heads.forEach((head, at) => mark(head, "aria-sort", at === this.#by ? order : null));
  }
}

/** A column of one field of its rows. write: its text; more: what else a column may have. */
export const column = (head, field, write, more = {}) => ({ head, value: (row) => row[field], text: (row) => write(row[field]), ...more });

export const plain = (value) => value ?? NOT_KNOWN;
const classes = (column) => [column.left && "left", column.wraps && "wraps", column.part && "bar", column.kind].filter(Boolean).join(" ") || null;
export const NATURAL = new Intl.Collator("en", { numeric: true }); // 2 before 10

/** Compare ascending (sign 1) or descending (-1); unknown values come last either way. */
function compare(one, other, sign) {
  const [missing, unknown] = [one, other].map(isMissing);
  if (missing || unknown) return missing - unknown;
  return sign * (typeof one === "string" ? NATURAL.compare(one, other) : one - other);
}
