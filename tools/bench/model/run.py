"""Measures one setting of a real uWSGI under one load: the truth, and what the exporter's analysis sees."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bench.exporters import cpu_seconds
from tools.bench.model.clients import Plan
from tools.environments import ROOT
from tools.support import real_uwsgi
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.what_if import Measured, Setting
from uwsgi_headroom.analysis.what_if.measured import measure_server
from uwsgi_headroom.check.watching import judge
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.fleet import Fleet

CPUS = "0,1"
"""uWSGI, its clients and the exporter share these."""

WARM_UP_SECONDS = 2.0
NICE = -5
"""uWSGI and its clients come before other programs of the machine; takes root."""


@dataclass(frozen=True)
class Truth:
    """What uWSGI's own log and the clients say of the completed requests. Times in seconds.

    service, service_p95: in service, from the log; total, total_p95: from connecting to the end of the response.
    other_programs: CPUs that all other programs used, the clients among them; clients: those of the clients.
    """

    throughput: float
    service: float
    service_p95: float
    total: float
    total_p95: float
    failed: int
    other_programs: float
    clients: float


def measure(setting: Setting, plan: Plan, seconds: float) -> tuple[Truth, Measured]:
    """Run a load for some seconds after a warm-up."""
    with _server(setting) as running, _clients(running, plan) as load:
        time.sleep(WARM_UP_SECONDS)
        log = running.directory / "requests"
        start, began, used = log.stat().st_size, time.monotonic(), cpu_seconds(load.pid)
        figures = asyncio.run(_watch(running.stats, seconds))
        end, used = time.monotonic(), cpu_seconds(load.pid) - used
        lines = log.read_bytes()[start:].split()
        output, _ = load.communicate(b"", timeout=20)
    times = [int(line) / 1e6 for line in lines if line.isdigit()]
    answers = json.loads(output)
    totals = [length for at, length in answers["done"] if began <= at + length <= end]
    other_programs = (figures.cpu.others or 0.0) if figures.cpu else 0.0
    truth = Truth(
        throughput=len(times) / (end - began),
        service=sum(times) / len(times),
        service_p95=percentile(sorted(times), 0.95),
        total=sum(totals) / len(totals),
        total_p95=percentile(sorted(totals), 0.95),
        failed=answers["failed"],
        other_programs=other_programs,
        clients=used / (end - began),
    )
    return truth, measure_server(figures)


@contextlib.contextmanager
def _server(setting: Setting) -> Iterator[real_uwsgi.Uwsgi]:
    """Runs the demo's application."""
    options = ["--master", "--enable-threads", "--need-app", "--module", "app.api:app", "--pythonpath"]
    options += [str(ROOT), "--processes", str(setting.processes), "--listen", "1000"]
    options += ["--threads", str(setting.threads)] if setting.threads > 1 else []
    options += ["--http-socket", "{directory}/web", "--stats", "{directory}/stats"]
    options += ["--req-logger", "file:{directory}/requests", "--logformat", "%(micros)"]
    with tempfile.TemporaryDirectory(prefix="headroom-") as directory:
        binary = real_uwsgi.wrapped(Path(directory), real_uwsgi.uwsgi_binary(), " ".join(prefix()))
        with real_uwsgi.bare(*options, binary=binary) as running:
            real_uwsgi.wait_until(lambda: b'"accepting":0' not in running.document(), what="the workers to accept")
            yield running


@contextlib.contextmanager
def _clients(running: real_uwsgi.Uwsgi, plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the clients; they end with their standard input and print what they measured."""
    command = [*prefix(), sys.executable, "-m", "tools.bench.model.clients"]
    process = subprocess.Popen(
        [*command, str(running.directory / "web"), plan.as_json()],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def prefix() -> list[str]:
    nice = ["nice", "-n", str(NICE)] if os.geteuid() == 0 else []
    return ["taskset", "-c", CPUS, *nice]


async def _watch(stats: str, seconds: float) -> Figures:
    """The figures of a window, as `check` computes them."""
    fleet = Fleet([ServerConfig(name="bench", pattern=stats, address=Unix(stats))], Settings(windows=(seconds,)))
    fleet.refresh()
    (watch,) = fleet.watches()
    await judge(watch, fleet.clock, seconds)
    assert watch.reading is not None
    (figures,) = watch.figures(watch.reading, (seconds,))
    return figures
