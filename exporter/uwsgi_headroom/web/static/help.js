// Handles the keys, and lists keys and gestures in a help dialog.

import { el } from "./dom.js";

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
