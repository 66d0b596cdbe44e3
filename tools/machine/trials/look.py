"""Prints the JSON of `check`, from standard input, as lines for grep."""

import json
import sys

document = json.load(sys.stdin)
server = (document.get("servers") or [document])[0]
host, waits = server["host"] or {}, server["waits"]
states = {each["state"]: each["threads"] for each in waits["states"]} if waits else {}
known = {"busy": server["threads"]["busy"], "cpu": server["cpu"], "queue": server["sockets"][0]["measurable"]}
print("status", server["status"])
for each in server["findings"]:
    print(each["code"], each["title"], each["evidence"], each["change"])
print("cpus", host.get("cpus"), host.get("limited_by"))
print("memory", (host.get("memory") or {}).get("limited_by"))
print("knows", *(name for name, value in {**known, "waits": states.get("sleep")}.items() if value))
for name, threads in states.items():
    print("waits", name, round(100 * threads / max(sum(states.values()), 0.1)), "%")
for each in server["unknown"]:
    print("unknown", each["what"], each["why"])
