// A table that is sorted by the column whose head is pressed, and rewritten only where it differs.

import { el, mark, say } from "./dom.js";

export class Table {
  #columns;
  #rows = new Map();
  #shown = [];
  #by;
  #down;

  /**
   * columns: {head, value, text, title, left, wraps}: what a row is sorted by, and how it reads; `node` makes what stands in
   * the cell, where that is more than text. key: what tells rows apart; flag: the class of a row.
   */
  constructor(name, columns, { key, flag = () => null, by = 0, down = false }) {
    this.#columns = columns;
    this.key = key;
    this.flag = flag;
    this.#by = by;
    this.#down = down;
    this.heads = columns.map((column, at) => {
      const button = el("button", { type: "button", title: column.title ?? null, click: () => this.#sort(at) }, column.head);
      return el("th", { scope: "col", class: classes(column) }, button);
    });
    this.body = el("tbody");
    const table = el("table", { "aria-label": name }, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.node = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, table);
    this.#label();
  }

  show(items) {
    this.#shown = items;
    const keys = new Set(items.map(this.key));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.#rows.delete(key);
    }
    items.forEach((item) => this.#write(item));
    this.#order();
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
      mark(row.cells[at], "title", column.hover?.(item) || null);
    });
  }

  #order() {
    const { value } = this.#columns[this.#by];
    const sign = this.#down ? -1 : 1;
    const ordered = value === undefined ? this.#shown : [...this.#shown].sort((a, b) => sign * compare(value(a), value(b)));
    ordered.forEach((item, place) => {
      const row = this.#rows.get(this.key(item));
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
    });
  }

  #sort(at) {
    this.#down = this.#by === at ? !this.#down : !this.#columns[at].left;
    this.#by = at;
    this.#label();
    this.#order();
  }

  #label() {
    this.heads.forEach((head, at) =>
      mark(head, "aria-sort", at === this.#by ? (this.#down ? "descending" : "ascending") : null),
    );
  }
}

const classes = (column) => [column.left && "left", column.wraps && "wraps"].filter(Boolean).join(" ") || null;

/** What is not known comes first, and so last where the largest come first. */
function compare(a, b) {
  const [one, other] = [a ?? -Infinity, b ?? -Infinity];
  return one < other ? -1 : one > other ? 1 : 0;
}
