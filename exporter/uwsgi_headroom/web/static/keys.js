// The key figures: four below the banner, which say whether users are hurt, and a panel of all others. Their texts are the
// lines of the document, which the exporter composes for every face.

import { el, panel, Tile } from "./dom.js";

const FELT = [["users_wait"], ["served"], ["objective", "response"], ["queue"]]; // of each, the first that there is
const MOST_PARTS = 4; // the panel has the others
const ELSEWHERE = ["verdict", "act", "time", "stuck", "outside", "unknown", "identity", "users_wait", "served"];

/** The first line with one of these codes, or null. */
export const lineOf = ({ lines }, ...codes) => codes.map((code) => lines.find((line) => line.code === code)).find(Boolean) ?? null;

/** The text of the line with a code; empty without one. */
export const textOf = (document, code) => lineOf(document, code)?.parts.join("") ?? "";

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

/** The panel of all other figures. */
export function figures() {
  const list = el("dl", { class: "keys many" });
  const node = panel("Figures", "over the window; 19 of 20 percentiles are in the range behind each", list);
  node.classList.add("wide");
  let tiles = [];
  return {
    node,
    apart: true,
    now(document) {
      const shown = document.lines.filter(({ code }) => !ELSEWHERE.includes(code));
      if (tiles.length !== shown.length) {
        tiles = shown.map(() => new Tile());
        list.replaceChildren(...tiles.map((tile) => tile.node));
      }
      tiles.forEach((tile, at) => tile.show(shown[at]));
    },
  };
}
