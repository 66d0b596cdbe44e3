// The server's setup: which server it is, the options that advice depends on, and where each is set.

import { el, folding, say } from "./dom.js";
import { NOT_KNOWN } from "./format.js";
import { line } from "./identity.js";

const KINDS = { single: "one request at a time in each worker", threads: "one request on each thread", async: "many requests on one thread (async)" };

export function setup() {
  const which = el("p", { class: "which" });
  const sentence = el("p", { class: "hint" });
  const list = el("dl", { class: "options" });
  let shown = "";
  return {
    node: folding("Setup", "options that advice depends on, and where each is set", which, list, sentence),
    now(server) {
      say(which, [server.address, line(server)].filter(Boolean).join(" · "));
      const text = JSON.stringify([server.setup, server.thunder_lock]);
      if (text === shown) return;
      shown = text;
      say(sentence, describe(server));
      list.replaceChildren(...Object.entries(server.setup?.options ?? {}).map(option));
    },
  };
}

const option = ([name, { value, source }]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("b", {}, written(value)), " ", el("small", {}, source)));

const written = (value) => (Array.isArray(value) ? value.join(" ") : value === true ? "on" : value === false ? "off" : String(value));

function describe({ setup: known, thunder_lock: lock }) {
  if (!known) return "Not known: the configuration is not visible to the exporter.";
  return [
    `Concurrency: ${KINDS[known.concurrency_kind] ?? NOT_KNOWN}.`,
    lock === null ? "" : `Thunder lock: ${lock ? "on" : "off"}.`,
    known.mapped ? "Workers take requests from some sockets only (map-socket)." : "",
    known.somaxconn === null ? "" : `net.core.somaxconn: ${known.somaxconn}.`,
    known.options_changed ? "A configuration file has changed since a running worker started: uWSGI still uses the earlier options." : "",
    known.options_complete ? "" : "Parts of the configuration cannot be read, so more options may be set.",
  ].filter(Boolean).join(" ");
}
