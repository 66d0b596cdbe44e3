// The panels of an emperor and of a router: tables.

import { el, panel } from "./dom.js";
import * as format from "./format.js";
import { Table } from "./table.js";

const yes = (value) => (value === null ? format.NOT_KNOWN : value ? "yes" : "no");
const column = (head, value, text = format.count, left = false, title = null) => ({ head, left, title, value, text: (row) => text(value(row)) });
const plain = (value) => value ?? format.NOT_KNOWN;

export function emperor() {
  const pages = new Map(); // the server of each master's PID
  const vassals = new Table("Vassals", [
    column("Vassal", (vassal) => vassal.name, plain, true),
    { head: "Page", left: true, title: "the vassal's own page, if the exporter reads its stats", value: (vassal) => pages.get(vassal.pid)?.name ?? null, text: (vassal) => pages.get(vassal.pid)?.name ?? format.NOT_KNOWN, node: (vassal) => el("a", { href: page(pages.get(vassal.pid)) }) },
    column("PID", (vassal) => vassal.pid, String),
    column("Ready", (vassal) => vassal.ready, yes, false, "its workers are started"),
    column("Accepting", (vassal) => vassal.accepting, yes, false, "it accepts requests"),
    column("Loyal", (vassal) => vassal.loyal, yes, false, "it has served a request; a new vassal has not"),
    column("Cursed", (vassal) => vassal.cursed, yes, false, "the emperor is ending it"),
    column("Respawns", (vassal) => vassal.respawns, format.count, false, "how often the emperor restarted it"),
    column("Age", (vassal) => vassal.age, format.duration),
    column("Heartbeat", (vassal) => vassal.heartbeat_age, format.duration, false, "time since the last heartbeat, if the vassal sends any"),
  ], { key: (vassal) => `${vassal.name} ${vassal.pid}`, flag: (vassal) => (vassal.cursed ? "hot" : null) });
  const throttled = new Table("Throttled", [
    column("Vassal", (vassal) => vassal.name, plain, true),
    column("Attempts", (vassal) => vassal.attempts),
    column("Next attempt after", (vassal) => vassal.delay, format.duration),
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
    column("Key", (backend) => backend.key, plain, true),
    column("Backend", (backend) => backend.name, plain, true),
    column("Requests", (backend) => backend.requests),
    column("Sent", (backend) => backend.transmitted_bytes, format.bytes),
    column("Received", (backend) => backend.received_bytes, format.bytes),
    column("Load", (backend) => backend.load),
    column("Weight", (backend) => backend.weight),
    column("Failures", (backend) => backend.failures),
    column("Dead", (backend) => backend.dead, yes),
  ], { key: (backend) => `${backend.key} ${backend.name}`, flag: (backend) => (backend.dead ? "hot" : null) });
  const configured = new Table("Configured backends", [
    column("Backend", (backend) => backend.name, plain, true),
    column("Requests", (backend) => backend.hits),
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
  nodes.forEach((node) => node.classList.add("wide"));
  return { nodes, now: (document) => parts(document).forEach((items, at) => tables[at][2].show(items)) };
}
