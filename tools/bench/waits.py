"""Compares what the exporter says that threads wait for with the application's own record of it.

Prints the table, misses included. The exit status is 0 whatever was measured.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.support.real_uwsgi import free_port, sized, uwsgi, wait_until
from tools.bench import exporters, table
from tools.bench.waits_app import COLUMNS, row_struct
from tools.environments import ROOT
from tools.scenarios.scenario import Load
from tools.scenarios.servers import loaded


@dataclass(frozen=True)
class Case:
    """A server and its load. plans: what a request does, one of them at random (`waits_app`). pause: seconds
    between two requests of a client. late: seconds until it reads the answer. pinned: on a CPU of its own."""

    name: str
    workers: int
    threads: int
    clients: int
    plans: tuple[str, ...]
    pause: float = 0.0
    late: float = 0.0
    read_pollfds: bool = True
    pinned: bool = False
    options: tuple[str, ...] = ()


MIX = ("cpu:4,sleep:30", "postgres:50", "redis:20,sleep:10", "cpu:8,postgres:25")

CASES = (
    Case("2x8 nearly idle, mixed", 2, 8, 2, MIX, pause=0.2),
    Case("2x8 half full, mixed", 2, 8, 8, MIX),
    Case("2x8 overloaded, mixed", 2, 8, 24, MIX),
    Case("8x1 half full, mixed", 8, 1, 4, MIX),
    Case("8x1 overloaded, mixed", 8, 1, 12, MIX),
    Case("1x16 half full, mixed", 1, 16, 8, MIX),
    Case("1x16 overloaded, mixed", 1, 16, 24, MIX),
    Case("1x16 lock, on a CPU of its own", 1, 16, 12, ("cpu:10,sleep:20",), pinned=True),
    Case("1x16 lock, mostly computing, on a CPU of its own", 1, 16, 8, ("cpu:20",), pinned=True),
    Case("2x8 computing", 2, 8, 12, ("cpu:10,sleep:30",)),
    Case("8x1 computing", 8, 1, 8, ("cpu:10,sleep:30",)),
    Case("2x8 sleeping", 2, 8, 10, ("sleep:60",)),
    Case("2x8 two backends", 2, 8, 10, ("postgres:50", "redis:50", "postgres:30,redis:30")),
    Case("2x8 one backend, time-out", 2, 8, 10, ("postgres-timeout:50",)),
    Case("2x8 two backends, time-outs", 2, 8, 10, ("postgres-timeout:50", "redis-timeout:50")),
    Case("2x8 the same, no --read-pollfds", 2, 8, 10, ("postgres-timeout:50", "redis-timeout:50"), read_pollfds=False),
    Case("2x8 a connection for each query", 2, 8, 10, ("postgres-new:50",)),
    Case("2x8 a connection for each query, time-out", 2, 8, 10, ("postgres-new-timeout:50",)),
    Case("2x8 lock of the application", 2, 8, 10, ("lock:20",)),
    Case("2x8 fsync", 2, 8, 6, ("fsync:1",)),
    Case("2x8 slow clients", 2, 8, 8, ("client:64",), late=0.3),
    Case("2x8 half full, mixed, thunder-lock", 2, 8, 8, MIX, options=("--thunder-lock",)),
    Case("8x1 half full, mixed, thunder-lock", 8, 1, 4, MIX, options=("--thunder-lock",)),
)


APP = Path(__file__).with_name("waits_app.py")
WARM_UP_SECONDS = 5.0

_RUNNING = "uwsgi_worker_running_time_seconds_total"


@dataclass(frozen=True)
class Result:
    """A case's figures, as mean numbers of threads: `true` by the application (the interpreter lock: what is left of
    uWSGI's running time), `measured` by the exporter (states,
    `redis` for the backend of that name, and `total`). busy: threads in service by uWSGI's document, on average.
    disagreement: of a single sample, on average. cost: CPU seconds per second of the whole exporter."""

    true: dict[str, float]
    measured: dict[str, float]
    busy: float
    throughput: float
    disagreement: float
    cost: float


def run(case: Case, seconds: float) -> Result:
    with contextlib.ExitStack() as stack:
        records = stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-"))
        ports = [free_port(), free_port()]
        os.environ |= {"BENCH_RECORDS": records, "BENCH_BACKENDS": ",".join(map(str, ports))}
        backends = subprocess.Popen([sys.executable, "-m", "tools.bench.waits_app", *map(str, ports)], cwd=ROOT)
        stack.callback(backends.wait)
        stack.callback(backends.kill)
        pin = _pin if case.pinned else lambda *_: None
        pin(backends.pid, {0})
        options = [*sized(case.workers, case.threads), "--disable-logging", *case.options]
        server = stack.enter_context(uwsgi(*options, app=APP))
        pin(server.pid, {1})
        load = Load(
            clients=case.clients,
            path=f"/?{'|'.join(case.plans)}",
            think_ms=1e3 * case.pause,
            late_ms=1e3 * case.late,
        )
        pinned = ("taskset", "-c", "0") if case.pinned else ()
        stack.enter_context(loaded([(load, ("127.0.0.1", server.http))], *pinned))
        command = exporters.OURS[exporters.EVERYTHING]
        command += f" --backends postgres=127.0.0.1:{ports[0]} --backends redis=127.0.0.1:{ports[1]}"
        command += "" if case.read_pollfds else " --no-read-pollfds"
        exporter = stack.enter_context(exporters.running("ours", command, server.stats))
        pin(exporter.process.pid, {0})
        time.sleep(WARM_UP_SECONDS)
        before = _Instant.read(Path(records), exporter)
        time.sleep(seconds)
        return _compare(before, _Instant.read(Path(records), exporter))


@dataclass(frozen=True)
class _Instant:
    at: float
    truth: dict[str, float]
    metrics: dict[str, float]
    cpu: float

    @classmethod
    def read(cls, records: Path, exporter: exporters.Exporter) -> _Instant:
        """The state of both sides right after a sample of the exporter."""
        samples = exporter.samples()
        wait_until(lambda: exporter.samples() > samples, what="a sample")
        return cls(time.monotonic(), _read_truth(records), _read_metrics(exporter), exporter.cpu_seconds())


def _compare(before: _Instant, after: _Instant) -> Result:
    metrics = {name: value - before.metrics.get(name, 0.0) for name, value in after.metrics.items()}
    observed = metrics["uwsgi_wait_observed_seconds_total"]
    seconds = after.at - before.at
    measured = {
        name.removeprefix("uwsgi_wait_thread_seconds_total "): value / observed
        for name, value in metrics.items()
        if name.startswith("uwsgi_wait_thread_seconds_total ")
    }
    truth = {name: (value - before.truth.get(name, 0.0)) / seconds for name, value in after.truth.items()}
    requests = truth.pop("requests", 0.0)
    # The application does not see the waits before it is called and between its parts, but uWSGI's running time does.
    running = metrics[_RUNNING] / seconds
    others = sum(value for state, value in truth.items() if state not in ("redis", "interpreter_lock"))
    truth["interpreter_lock"] = max(0.0, running - others)
    redis = metrics.get("uwsgi_backend_wait_thread_seconds_total redis", 0.0) / observed
    return Result(
        truth,
        {**measured, "redis": redis, "total": sum(measured.values())},
        metrics["busy"] / metrics["uwsgi_exporter_observed_seconds_total"],
        requests,
        metrics["uwsgi_wait_disagreement_thread_seconds_total"] / observed,
        (after.cpu - before.cpu) / seconds,
    )


def _read_truth(records: Path) -> dict[str, float]:
    rows = [row for file in records.glob("record-*") for row in row_struct.iter_unpack(file.read_bytes())]
    return {name: sum(row[column] for row in rows) for column, name in enumerate(COLUMNS)}


def _read_metrics(exporter: exporters.Exporter) -> dict[str, float]:
    """Counters without labels by name, those of a state or backend by name and label, and the busy thread seconds."""
    totals = {"busy": 0.0, _RUNNING: 0.0}
    for family in text_string_to_metric_families(exporter.scraper.scrape().body.decode()):
        for sample in family.samples:
            if sample.name == "uwsgi_worker_busy_thread_seconds_total":
                totals["busy"] += sample.value
            elif sample.name == _RUNNING:
                totals[_RUNNING] += sample.value
            elif sample.name.startswith(("uwsgi_wait_", "uwsgi_backend_wait_", "uwsgi_exporter_observed_")):
                part = sample.labels.get("state") or sample.labels.get("backend")
                totals[f"{sample.name} {part}" if part else sample.name] = sample.value
    return totals


def _pin(pid: int, cpus: set[int]) -> None:
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, cpus)


RELATIVE, ABSOLUTE, TOTAL = 0.10, 0.2, 0.03
"""A state is right within a tenth or a fifth of a thread; the sum within 3 % of the observed concurrency."""

STATES = COLUMNS[:-1]


def report(results: Mapping[str, Result]) -> str:
    head = ["case", *STATES, "unknown", "sum / in service", "requests/s", "CPU of the exporter", "off in a sample"]
    rows = [_row(name, result) for name, result in results.items()]
    cells = [cell for row in rows for cell in row.split(" | ") if " / " in cell]
    right = sum("✗" not in cell for cell in cells)
    return f"{table.render_table(' | '.join(head), rows)}\n\n{right} of {len(cells)} figures and sums are right."


def _row(name: str, result: Result) -> str:
    total, busy = result.measured["total"], result.busy
    cells = [_cell(result.true.get(state, 0.0), result.measured.get(state, 0.0)) for state in STATES]
    cells += [f"{result.measured.get('unknown', 0.0):.2f}", _mark(total, busy, max(TOTAL * busy, 0.05))]
    cells += [f"{result.throughput:.0f}", f"{result.cost:.2%}", f"{result.disagreement:.2f}"]
    return " | ".join([name, *cells])


def _cell(true: float, measured: float) -> str:
    return _mark(true, measured, max(ABSOLUTE, RELATIVE * true)) if max(true, measured) >= 0.05 else ""


def _mark(one: float, other: float, tolerance: float) -> str:
    return f"{one:.2f} / {other:.2f}{'' if abs(one - other) <= tolerance else ' ✗'}"


def main() -> None:
    options = table.parse_options("waits", __doc__, 20)
    results: dict[str, Result] = {}
    for case in CASES:
        if options.only in case.name:
            results[case.name] = run(case, options.seconds)
            print(_row(case.name, results[case.name]), flush=True)
    print(f"\n{report(results)}\n\n{table.machine()}")


if __name__ == "__main__":
    main()
