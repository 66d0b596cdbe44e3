// The page's controls: a choice of options, a toggle, a button with feedback.

import { el } from "./dom.js";
import * as format from "./format.js";

/** A choice of one option {name, value}: radio buttons, so that arrow keys work. */
export function choice(legend, options, chosen, change) {
  const inputs = options.map((option) => {
    const id = `${legend}-${option.value}`.replace(/\W+/g, "-");
    const input = el("input", { type: "radio", name: legend, id, value: option.value, change: () => change(option) });
    input.checked = option.value === chosen;
    return [input, el("label", { for: id }, option.name)];
  });
  return el("fieldset", { class: "choice" }, el("legend", {}, legend), ...inputs.flat());
}

/** Show a choice in a node: made again if its options or the chosen one differ, with the focus that it had. */
export function offer(node, legend, options, chosen, change) {
  const shown = JSON.stringify([options.map(({ name }) => name), chosen]);
  if (node.dataset.offered === shown) return;
  const hadFocus = node.contains(document.activeElement);
  node.dataset.offered = shown;
  node.replaceChildren(choice(legend, options, chosen, change));
  if (hadFocus) node.querySelector(":checked").focus();
}

/** The windows that a server's document names. */
export const windowsOf = (document) =>
  document.windows.map((window) => ({ value: window.asked, name: format.duration(window.asked) }));

/** A button that is on or off. */
export function toggle(off, on, change, isOn = false) {
  const button = el("button", {
    type: "button",
    "aria-pressed": String(isOn),
    click: () => {
      const pressed = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(pressed));
      button.textContent = pressed ? on : off;
      change(pressed);
    },
  }, isOn ? on : off);
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
