"""Measures one setting of a real uWSGI under one load: the truth, and what the exporter's analysis sees."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from tests.support import real_uwsgi
from tools.bench.clients import Plan, finish, prefix, running
from tools.bench.exporters import cpu_seconds
from tools.bench.window import serving, watch
from tools.environments import ROOT
from uwsgi_headroom.analysis.what_if import Measured, Setting, measure_server
from uwsgi_headroom.numbers import percentile

WARM_UP_SECONDS = 2.0


@dataclass(frozen=True)
class Truth:
    """What uWSGI's own log and the clients say of the completed requests. Times in seconds.

    service, service_p95: in service, from the log; total: from connecting to the end of the response.
    other_programs: CPUs that all other programs used, the clients among them; clients: those of the clients.
    """

    throughput: float
    service: float
    service_p95: float
    total: float
    failed: int
    other_programs: float
    clients: float


def measure(setting: Setting, plan: Plan, seconds: float) -> tuple[Truth, Measured]:
    """Run a load for some seconds after a warm-up. plan: without the server's socket."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_server(setting))
        load = stack.enter_context(running(replace(plan, sockets=((str(server.directory / "web"), 1.0),)), prefix()))
        time.sleep(WARM_UP_SECONDS)
        log = server.directory / "requests"
        start, began, used = log.stat().st_size, time.monotonic(), cpu_seconds(load.pid)
        (figures,) = asyncio.run(watch([server.stats], seconds))
        end, used = time.monotonic(), cpu_seconds(load.pid) - used
        lines = log.read_bytes()[start:].split()
        seen = finish(load)
    times = [int(line) / 1e6 for line in lines if line.isdigit()]
    totals = [answer.ended - answer.began for answer in seen.answers if began <= answer.ended <= end]
    other_programs = (figures.cpu.others or 0.0) if figures.cpu else 0.0
    truth = Truth(
        throughput=len(times) / (end - began),
        service=sum(times) / len(times),
        service_p95=percentile(sorted(times), 0.95),
        total=sum(totals) / len(totals),
        failed=seen.failed,
        other_programs=other_programs,
        clients=used / (end - began),
    )
    return truth, measure_server(figures)


def _server(setting: Setting) -> AbstractContextManager[real_uwsgi.Uwsgi]:
    """Runs the demo's application."""
    options = ["--module", "app.api:app", "--pythonpath", str(ROOT), "--http-socket", "{directory}/web"]
    options += ["--req-logger", "file:{directory}/requests", "--logformat", "%(micros)"]
    return serving(setting.processes, setting.threads, *options)
