"""Splits what a hot worker costs into its parts, to see how much of it is the interpreter lock.

`python3 -m tools.bench.waits.hot_worker` runs a uWSGI of two workers with eight threads each. `map-socket` gives each
worker a socket of its own, and most clients use the first. Each request takes 10 ms of CPU and 20 ms of sleep.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tools.bench import exporters, table
from tools.bench.clients import Kind, Plan, running
from tools.bench.scraper import Scraper
from tools.bench.waits.run import APP, WARM_UP_SECONDS, read_records
from tools.support import real_uwsgi

SECONDS = 60
KIND = Kind(1.0, "/?cpu:10,sleep:20")
CLIENTS = (7, 1)
"""Clients of the hot worker, and of the other one."""


def main() -> None:
    with contextlib.ExitStack() as stack:
        records = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-")))
        os.environ |= {"BENCH_RECORDS": str(records), "BENCH_BACKENDS": "1,1"}
        ports = [real_uwsgi.free_port(), real_uwsgi.free_port()]
        options = ["--processes", "2", "--threads", "8", "--disable-logging", "--map-socket", "2:1", "--map-socket"]
        options += ["3:2", "--http-socket", f"127.0.0.1:{ports[0]}", "--http-socket", f"127.0.0.1:{ports[1]}"]
        server = stack.enter_context(real_uwsgi.uwsgi(*options, app=APP))
        for port, clients in zip(ports, CLIENTS, strict=True):
            stack.enter_context(running(Plan(((port, 1.0),), (KIND,), clients=clients)))
        command = f"{exporters.OURS[exporters.EVERYTHING]} --window {SECONDS}s"
        exporter = stack.enter_context(exporters.running("ours", command, server.stats))
        time.sleep(WARM_UP_SECONDS)
        before = read_records(records)
        time.sleep(SECONDS)
        after = read_records(records)
        document = _read_server(exporter.scraper)
    workers = {worker["pid"]: worker for worker in document["workers"]}
    truth = {pid: {name: value - before[pid][name] for name, value in record.items()} for pid, record in after.items()}
    print(_table(workers, truth))
    print(f"\nVerdict: {document['verdict']}\n\n{SECONDS} s. {table.machine()}")


def _read_server(scraper: Scraper) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{scraper.port}/api/v1/servers") as answer:
        path = json.load(answer)["servers"][0]["path"]
    with urllib.request.urlopen(f"http://127.0.0.1:{scraper.port}{path}") as answer:
        return json.load(answer)


def _table(workers: dict[int, Any], truth: dict[int, dict[str, float]]) -> str:
    hot, calm = sorted(truth, key=lambda pid: -truth[pid]["requests"])
    rows = [_row(name, workers[pid], truth[pid]) for name, pid in (("hot", hot), ("calm", calm))]
    difference = [first - second for first, second in zip(rows[0][1:], rows[1][1:], strict=True)]
    head = (
        "worker | share | interpreter load | response time, ms | interpreter lock, ms (measured) | interpreter lock, "
        "ms (application) | waits for a CPU, ms (application) | CPU, ms (application) | sleep, ms (application)"
    )
    cells = [
        [name, f"{share:.0%}", f"{load:.2f}", *(f"{value:.1f}" for value in rest)] for name, share, load, *rest in rows
    ]
    cells.append(["difference", "", "", *(f"{value:.1f}" for value in difference[2:])])
    return table.render_table(head, [" | ".join(row) for row in cells])


def _row(name: str, worker: Any, record: dict[str, float]) -> tuple[Any, ...]:
    each = 1e3 / record["requests"]
    return (
        name,
        worker["share"],
        worker["interpreter_load"],
        worker["response_time"] * 1e3,
        worker["lock_waiters"] / worker["throughput"] * 1e3,
        *(record[state] * each for state in ("interpreter_lock", "cpu_wait", "cpu", "sleep")),
    )


if __name__ == "__main__":
    main()
