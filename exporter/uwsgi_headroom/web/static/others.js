// What there is to show of an emperor, and of a router: lists.

import { panel } from "./dom.js";
import * as format from "./format.js";
import { Table } from "./table.js";

const yes = (value) => (value === null ? format.NOT_KNOWN : value ? "yes" : "no");
const column = (head, value, text = format.count, left = false) => ({ head, left, value, text: (it) => text(value(it)) });
const plain = (value) => value ?? format.NOT_KNOWN;

export function emperor() {
  const vassals = new Table("Vassals", [
    column("Vassal", (it) => it.name, plain, true),
    column("PID", (it) => it.pid, String),
    column("Ready", (it) => it.ready, yes),
    column("Accepting", (it) => it.accepting, yes),
    column("Loyal", (it) => it.loyal, yes),
    column("Cursed", (it) => it.cursed, yes),
    column("Respawns", (it) => it.respawns),
    column("Age", (it) => it.age, format.duration),
    column("Heartbeat", (it) => it.heartbeat_age, format.duration),
  ], { key: (it) => `${it.name} ${it.pid}`, flag: (it) => (it.cursed ? "hot" : null) });
  const throttled = new Table("Throttled", [
    column("Vassal", (it) => it.name, plain, true),
    column("Attempts", (it) => it.attempts),
    column("Next attempt after", (it) => it.delay, format.duration),
  ], { key: (it) => it.name });
  return lists(
    [["Vassals", "instances this emperor runs", vassals], ["Throttled", "vassals that failed to start", throttled]],
    ({ emperor: it }) => [it.vassals, it.throttled],
  );
}

export function router() {
  const backends = new Table("Backends", [
    column("Key", (it) => it.key, plain, true),
    column("Backend", (it) => it.name, plain, true),
    column("Requests", (it) => it.requests),
    column("Sent", (it) => it.transmitted_bytes, format.bytes),
    column("Received", (it) => it.received_bytes, format.bytes),
    column("Load", (it) => it.load),
    column("Weight", (it) => it.weight),
    column("Failures", (it) => it.failures),
    column("Dead", (it) => it.dead, yes),
  ], { key: (it) => `${it.key} ${it.name}`, flag: (it) => (it.dead ? "hot" : null) });
  const configured = new Table("Configured backends", [
    column("Backend", (it) => it.name, plain, true),
    column("Requests", (it) => it.hits),
  ], { key: (it) => it.name });
  return lists(
    [["Backends", "that subscribed to this router", backends], ["Configured backends", "named in its configuration", configured]],
    ({ router: it }) => [it.subscriptions.flatMap((each) => each.nodes.map((node) => ({ ...node, key: each.key }))), it.static_nodes],
  );
}

function lists(tables, parts) {
  const nodes = tables.map(([title, explanation, table]) => panel(title, explanation, table.node));
  nodes.forEach((it) => it.classList.add("wide"));
  return { nodes, now: (it) => parts(it).forEach((items, at) => tables[at][2].show(items)) };
}
