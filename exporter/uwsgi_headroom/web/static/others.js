// What there is to show of an emperor, and of a router: lists.

import { panel } from "./dom.js";
import * as format from "./format.js";
import { Table } from "./table.js";

const yes = (value) => (value === null ? format.NOT_KNOWN : value ? "yes" : "no");
const column = (head, value, text = format.count, left = false) => ({ head, left, value, text: (row) => text(value(row)) });
const plain = (value) => value ?? format.NOT_KNOWN;

export function emperor() {
  const vassals = new Table("Vassals", [
    column("Vassal", (vassal) => vassal.name, plain, true),
    column("PID", (vassal) => vassal.pid, String),
    column("Ready", (vassal) => vassal.ready, yes),
    column("Accepting", (vassal) => vassal.accepting, yes),
    column("Loyal", (vassal) => vassal.loyal, yes),
    column("Cursed", (vassal) => vassal.cursed, yes),
    column("Respawns", (vassal) => vassal.respawns),
    column("Age", (vassal) => vassal.age, format.duration),
    column("Heartbeat", (vassal) => vassal.heartbeat_age, format.duration),
  ], { key: (vassal) => `${vassal.name} ${vassal.pid}`, flag: (vassal) => (vassal.cursed ? "hot" : null) });
  const throttled = new Table("Throttled", [
    column("Vassal", (vassal) => vassal.name, plain, true),
    column("Attempts", (vassal) => vassal.attempts),
    column("Next attempt after", (vassal) => vassal.delay, format.duration),
  ], { key: (vassal) => vassal.name });
  return lists(
    [["Vassals", "instances this emperor runs", vassals], ["Throttled", "vassals that failed to start", throttled]],
    (document) => [document.emperor.vassals, document.emperor.throttled],
  );
}

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
