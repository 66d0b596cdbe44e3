// The panels of an emperor and of a router: tables.

import { el, panel } from "./dom.js";
import * as format from "./format.js";
import { column, plain, Table } from "./table.js";

const yes = (value) => (value === null ? format.NOT_KNOWN : value ? "yes" : "no");

export function emperor() {
  const pages = new Map(); // the server of each master's PID
  const vassals = new Table("Vassals", [
    column("Vassal", "name", plain, { left: true }),
    column("Page", "pid", (pid) => plain(pages.get(pid)?.name), {
      left: true,
      title: "the vassal's own page, if the exporter reads its stats",
      value: ({ pid }) => pages.get(pid)?.name ?? null,
      node: ({ pid }) => el("a", { href: page(pages.get(pid)) }),
    }),
    column("PID", "pid", String),
    column("Ready", "ready", yes, { title: "its workers are started" }),
    column("Accepting", "accepting", yes, { title: "it accepts requests" }),
    column("Loyal", "loyal", yes, { title: "it has served a request; a new vassal has not" }),
    column("Cursed", "cursed", yes, { title: "the emperor is ending it" }),
    column("Respawns", "respawns", format.count, { title: "how often the emperor restarted it" }),
    column("Age", "age", format.duration),
    column("Heartbeat", "heartbeat_age", format.duration, { title: "time since the last heartbeat, if the vassal sends any" }),
  ], { key: (vassal) => `${vassal.name} ${vassal.pid}`, flag: (vassal) => (vassal.cursed ? "hot" : null) });
  const throttled = new Table("Throttled", [
    column("Vassal", "name", plain, { left: true }),
    column("Attempts", "attempts", format.count),
    column("Next attempt after", "delay", format.duration),
  ], { key: (vassal) => vassal.name });
  let asked = "";
  let asking = null;
  const tables = lists(
    [["Vassals", "uWSGIs this emperor runs", vassals], ["Throttled", "vassals that failed to start: the emperor waits longer before each attempt; uWSGI's log says why they fail", throttled]],
    (document) => [document.emperor.vassals, document.emperor.throttled],
  );
  return {
    ...tables,
    async now(document) {
      const pids = document.emperor.vassals.map((vassal) => vassal.pid).join();
      if (pids !== asked) {
        asked = pids;
        asking = servers().then((known) => {
          // A process of another host may have the same PID.
          const ours = known.filter((server) => server.emperor_pid !== null && server.emperor_pid === document.identity?.pid);
          ours.forEach((server) => pages.set(server.pid, server));
        });
      }
      await asking;
      tables.now(document);
    },
  };
}

/** Every server that the exporter reads; empty if the exporter does not answer. */
async function servers() {
  try {
    const answer = await fetch("/api/v2/servers", { signal: AbortSignal.timeout(10000) });
    return answer.ok ? (await answer.json()).servers : [];
  } catch {
    return [];
  }
}

/** The URL of a server's page. */
const page = (server) => server?.path.replace("/api/v2/servers/", "/servers/") ?? null;

export function router() {
  const backends = new Table("Backends", [
    column("Key", "key", plain, { left: true }),
    column("Backend", "name", plain, { left: true }),
    column("Requests", "requests", format.count),
    column("Sent", "transmitted_bytes", format.bytes),
    column("Received", "received_bytes", format.bytes),
    column("Load", "load", format.count),
    column("Weight", "weight", format.count),
    column("Failures", "failures", format.count),
    column("Dead", "dead", yes),
  ], { key: (backend) => `${backend.key} ${backend.name}`, flag: (backend) => (backend.dead ? "hot" : null) });
  const configured = new Table("Configured backends", [
    column("Backend", "name", plain, { left: true }),
    column("Requests", "hits", format.count),
  ], { key: (backend) => backend.name });
  return lists(
    [["Backends", "that subscribed to this router", backends], ["Configured backends", "named in its configuration", configured]],
    (document) => [
      document.router.subscriptions.flatMap((each) => each.nodes.map((node) => ({ ...node, key: each.key }))),
      document.router.static_nodes,
    ],
  );
}

function lists(tables, parts) {
  const nodes = tables.map(([title, explanation, table]) => panel(title, explanation, table.node));
  return { nodes, now: (document) => parts(document).forEach((items, at) => tables[at][2].show(items)) };
}
