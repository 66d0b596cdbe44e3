"""Runs a group of servers side by side: predicts each from a window, then raises its load around the predictions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.bench.model.run import prefix
from tools.bench.ramp.cases import Case
from tools.bench.ramp.clients import Ramp, Step
from tools.environments import ROOT
from tools.support import real_uwsgi
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.usable import Usable
from uwsgi_headroom.check.watching import judge
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.fleet import Fleet

APP = Path(__file__).with_name("app.py")

AROUND = (0.75, 0.92, 1.08, 1.25)
"""The steps, as multiples of the load at which requests are predicted to wait."""

OVERLOAD, OVERLOAD_SECONDS = 1.15, 40.0
"""The last step, as a multiple of the predicted limit, and its length."""

IGNORED_SECONDS = 8.0
"""The start of each step, in which the queue gets used to the new load."""

WARM_UP_SECONDS = 3.0
LEAST_REQUESTS = 1000
"""A window that a prediction is made from has this many requests, whatever its case's rate."""


@dataclass(frozen=True)
class Predicted:
    """What the window of a case gave. rate: requests per second of the socket that is judged; requests: of the window;
    limit, waiting: requests per second; None if unknown. by: the limits that come first."""

    rate: float
    requests: int
    limit: float | None
    limit_by: str
    waiting: float | None
    waiting_by: str


@dataclass(frozen=True)
class Result:
    """A case: predicted, and each step of the socket that is judged; the last one is the overload."""

    case: Case
    predicted: Predicted
    steps: tuple[Step, ...]
    others: float
    """CPUs that programs used during the steps that are no part of the bench."""


def run(cases: Sequence[Case], step_seconds: float) -> list[Result]:
    """Run a group of cases."""
    seconds = max(LEAST_REQUESTS / (case.rate * case.shares[0]) for case in cases)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(_server(case)) for case in cases]
        loads = [
            _start(case, server, [(case.rate, WARM_UP_SECONDS + seconds + 2)], seed=1)
            for case, server in zip(cases, servers, strict=True)
        ]
        figures = asyncio.run(_watch([server.stats for server in servers], seconds))
        for load in loads:
            _finish(load)
        predicted = [_describe(case, each) for case, each in zip(cases, figures, strict=True)]
        began, before, own = time.monotonic(), _busy_seconds(), _tree_seconds(server.pid for server in servers)
        loads = [
            _start(case, server, _plan(case, each, step_seconds), seed=2)
            for case, server, each in zip(cases, servers, predicted, strict=True)
        ]
        clients = resource.getrusage(resource.RUSAGE_CHILDREN)
        steps = [tuple(_finish(load)[:: len(case.shares)]) for case, load in zip(cases, loads, strict=True)]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = _tree_seconds(server.pid for server in servers) - own
        own += after.ru_utime + after.ru_stime - clients.ru_utime - clients.ru_stime
        others = max(0.0, (_busy_seconds() - before - own) / (time.monotonic() - began))
        return [Result(case, each, of, others) for case, each, of in zip(cases, predicted, steps, strict=True)]


def _busy_seconds() -> float:
    """The CPU seconds of the machine that were not idle."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _tree_seconds(pids: Iterable[int]) -> float:
    """The CPU seconds of these processes and their children."""
    trees = [psutil.Process(pid) for pid in pids]
    every = [process.cpu_times() for tree in trees for process in (tree, *tree.children(recursive=True))]
    return sum(times.user + times.system for times in every)


def _plan(case: Case, predicted: Predicted, seconds: float) -> list[tuple[float, float]]:
    whole = 1 / case.shares[0]
    waiting = predicted.waiting or predicted.rate
    steps = [(whole * part * waiting, seconds + IGNORED_SECONDS) for part in AROUND]
    overload = OVERLOAD * (predicted.limit or 2 * predicted.rate)
    return [*steps, (whole * overload, OVERLOAD_SECONDS)]


def _describe(case: Case, figures: Figures) -> Predicted:
    flow, room, usable = figures.flow, figures.headroom, figures.usable
    rate = (flow.throughput or 0.0) * case.shares[0]
    ceiling = room.by_limit[room.ceiling] if room.ceiling else None
    return Predicted(
        rate=rate,
        requests=flow.requests,
        limit=None if ceiling is None else ceiling * rate,
        limit_by=room.ceiling or "",
        waiting=_waiting(usable, rate),
        waiting_by=usable.first if usable else "",
    )


def _waiting(usable: Usable | None, rate: float) -> float | None:
    return None if usable is None else usable.factor * rate


@contextlib.contextmanager
def _server(case: Case) -> Iterator[real_uwsgi.Uwsgi]:
    options = ["--master", "--enable-threads", "--need-app", "--wsgi-file", str(APP), "--disable-logging"]
    options += ["--processes", str(case.processes), "--listen", "1000", "--stats", "{directory}/stats"]
    options += ["--threads", str(case.threads)] if case.threads > 1 else []
    for place, _ in enumerate(case.shares):
        options += ["--http-socket", f"{{directory}}/web{place}"]
        options += ["--map-socket", f"{place}:{place + 1}"] if len(case.shares) > 1 else []
    with contextlib.ExitStack() as stack:
        command = " ".join(prefix())
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-"))
        binary = real_uwsgi.wrapped(Path(directory), real_uwsgi.uwsgi_binary(), command)
        server = stack.enter_context(real_uwsgi.bare(*options, binary=binary))
        real_uwsgi.wait_until(lambda: b'"accepting":0' not in server.document(), what="the workers to accept")
        yield server


def _start(
    case: Case, server: real_uwsgi.Uwsgi, steps: Sequence[tuple[float, float]], seed: int
) -> subprocess.Popen[bytes]:
    sockets = tuple((str(server.directory / f"web{place}"), share) for place, share in enumerate(case.shares))
    ramp = Ramp(sockets, case.kinds, tuple(steps), IGNORED_SECONDS, seed)
    command = [*prefix(), sys.executable, "-m", "tools.bench.ramp.clients", ramp.as_json()]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def _finish(load: subprocess.Popen[bytes]) -> list[Step]:
    output, _ = load.communicate()
    return [Step(**step) for step in json.loads(output)]


async def _watch(stats: Sequence[str], seconds: float) -> list[Figures]:
    """The figures of a window of each server, as `check` computes them."""
    await asyncio.sleep(WARM_UP_SECONDS)
    configs = [ServerConfig(name=f"bench{place}", pattern=path, address=Unix(path)) for place, path in enumerate(stats)]
    fleet = Fleet(configs, Settings(windows=(seconds,), read_locks=True))
    fleet.refresh()
    watches = {str(watch.address): watch for watch in fleet.watches()}
    ordered = [watches[str(Unix(path))] for path in stats]
    await asyncio.gather(*(judge(watch, fleet.clock, seconds) for watch in ordered))
    return [watch.figures(watch.reading, (seconds,))[0] for watch in ordered if watch.reading]
