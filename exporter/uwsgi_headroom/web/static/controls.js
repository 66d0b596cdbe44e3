// The page's controls, keys with their help, and the choices that a copied URL brings along.

import { el } from "./dom.js";

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

/** Whether such a button is on. */
export const isOn = (button) => button.getAttribute("aria-pressed") === "true";

/** A button that is on or off. texts: of both states. */
export function toggle(texts, change, isPressed = false) {
  const button = el("button", {
    type: "button",
    "aria-pressed": String(isPressed),
    click: () => {
      const pressed = !isOn(button);
      button.setAttribute("aria-pressed", String(pressed));
      button.textContent = texts[Number(pressed)];
      change(pressed);
    },
  }, texts[Number(isPressed)]);
  return button;
}

/** A button that shows the result of its action for two seconds. */
export function action(name, act) {
  const button = el("button", {
    type: "button",
    click: async () => {
      button.textContent = await act();
      setTimeout(() => (button.textContent = name), 2000);
    },
  }, name);
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

/** The value chosen for a key, or null. */
export const recall = (key) => chosen.get(key);

/** Write a choice into the URL; null removes it. */
export function remember(key, value) {
  if (value === null || value === "") chosen.delete(key);
  else chosen.set(key, value);
  history.replaceState(null, "", location.pathname + query());
}

/** All choices, as the query of a URL. */
export const query = () => (chosen.size ? `?${chosen}` : "");
