"""Runs one case: a real uWSGI, its clients and backends, and the exporter, each as a process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.support import real_uwsgi
from tools.bench import exporters
from tools.bench.clients import Kind, Plan, running
from tools.bench.waits.app import COLUMNS, row_struct
from tools.bench.waits.cases import Case
from tools.environments import ROOT

APP = Path(__file__).with_name("app.py")
WARM_UP_SECONDS = 5.0

_RUNNING = "uwsgi_worker_running_time_seconds_total"


@dataclass(frozen=True)
class Result:
    """A case's figures, as mean numbers of threads: `true` by the application (the interpreter lock: what is left of
    uWSGI's running time), `measured` by the exporter (states,
    `redis` for the backend of that name, and `total`). busy: threads in service by uWSGI's document, on average.
    disagreement: of a single sample, on average. cost: CPU seconds per second of the whole exporter."""

    case: Case
    true: dict[str, float]
    measured: dict[str, float]
    busy: float
    throughput: float
    disagreement: float
    cost: float


def run(case: Case, seconds: float, binary: str | None = None) -> Result:
    """Run a case for some seconds, after a warm-up."""
    with contextlib.ExitStack() as stack:
        records = stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-"))
        ports = [real_uwsgi.free_port(), real_uwsgi.free_port()]
        os.environ |= {"BENCH_RECORDS": records, "BENCH_BACKENDS": ",".join(map(str, ports))}
        backends = subprocess.Popen([sys.executable, "-m", "tools.bench.waits.backends", *map(str, ports)], cwd=ROOT)
        stack.callback(backends.wait)
        stack.callback(backends.kill)
        if case.pinned:
            _pin(backends.pid, {0})
        options = ["--processes", str(case.workers), "--disable-logging", *case.options]
        options += ["--threads", str(case.threads)] if case.threads > 1 else []
        server = stack.enter_context(real_uwsgi.uwsgi(*options, app=APP, binary=binary))
        if case.pinned:
            _pin(server.pid, {1})
        kinds = tuple(Kind(1.0, f"/?{plan}") for plan in case.plans)
        load = Plan(((server.http, 1.0),), kinds, clients=case.clients, pause=case.pause, slow=case.slow)
        stack.enter_context(running(load, ("taskset", "-c", "0") if case.pinned else ()))
        command = exporters.OURS[exporters.EVERYTHING]
        command += f" --backends postgres=127.0.0.1:{ports[0]} --backends redis=127.0.0.1:{ports[1]}"
        command += "" if case.read_pollfds else " --read-pollfds false"
        exporter = stack.enter_context(exporters.running("ours", command, server.stats))
        if case.pinned:
            _pin(exporter.process.pid, {0})
        time.sleep(WARM_UP_SECONDS)
        before = _Instant.read(Path(records), exporter)
        time.sleep(seconds)
        return _compare(case, before, _Instant.read(Path(records), exporter))


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
        real_uwsgi.wait_until(lambda: exporter.samples() > samples, what="a sample")
        return cls(time.monotonic(), _read_truth(records), _read_metrics(exporter), exporter.cpu_seconds())


def _compare(case: Case, before: _Instant, after: _Instant) -> Result:
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
        case,
        truth,
        {**measured, "redis": redis, "total": sum(measured.values())},
        metrics["busy"] / metrics["uwsgi_exporter_observed_seconds_total"],
        requests,
        metrics["uwsgi_wait_disagreement_thread_seconds_total"] / observed,
        (after.cpu - before.cpu) / seconds,
    )


def _read_truth(records: Path) -> dict[str, float]:
    by_process = read_records(records).values()
    return {name: sum(record[name] for record in by_process) for name in COLUMNS}


def read_records(records: Path) -> dict[int, dict[str, float]]:
    """The application's record of each process: seconds in each state, and requests."""
    by_process = {}
    for file in records.glob("record-*"):
        rows = list(row_struct.iter_unpack(file.read_bytes()))
        by_process[int(file.name.partition("-")[2])] = {
            name: sum(row[column] for row in rows) for column, name in enumerate(COLUMNS)
        }
    return by_process


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
    """Pin a process, its threads and its children to CPUs."""
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, cpus)
