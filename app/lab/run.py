"""Runs one setup under one load: starts the server, loads it, samples it, and ends everything again.

The figures of a uWSGI over the measured time come from the exporter's own sampling code, in this process; the clients
have a process of their own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.lab.clients import Answers, Load
from app.lab.results import Observed, Outcome, Setup
from tools.environments import ROOT
from uwsgi_headroom.check.watching import judge
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents import schema
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cpus import parse_stat
from uwsgi_headroom.source import Unix
from uwsgi_headroom.tune.server import RunError, Server, running
from uwsgi_headroom.watch.fleet import Fleet

BESIDE_SECONDS = 2.5
"""What a run takes beside its load: start, end, late answers."""

LEAST_SECONDS = 1.0
"""The shortest time to watch a server, however late it begins."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of an experiment: a setup under a load."""

    setup: Setup
    load: Load
    label: str
    """The load's name, unique in the experiment."""
    number: int
    """Of the repetition, from 0."""

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        return self.load.warm_up + self.load.seconds + BESIDE_SECONDS


def run_once(planned: Planned, say: Callable[[str], None] = print) -> Outcome:
    """Runs a setup under a load; a failure is the outcome's error."""
    try:
        with tempfile.TemporaryDirectory(prefix="headroom-lab-", ignore_cleanup_errors=True) as name:
            return _run(planned, Path(name))
    except RunError as error:
        text = "\n".join([str(error), *error.details])
        return Outcome(setup=planned.setup.name, load=planned.label, number=planned.number, answers=None, error=text)


@dataclass(frozen=True, slots=True)
class _Cpu:
    """CPU seconds since the start."""

    server: float
    machine: tuple[dict[int, float], dict[int, float]]

    @classmethod
    def read(cls, server: Server) -> _Cpu:
        return cls(server.read_cpu(), parse_stat(procfs.read_file("/proc/stat")))

    def busy_since(self, before: _Cpu) -> tuple[float, ...]:
        """The busy part of each CPU of the machine."""
        (idle, used), (old_idle, old_used) = self.machine, before.machine
        parts = [(used[cpu] - old_used[cpu], idle[cpu] - old_idle[cpu]) for cpu in sorted(used)]
        return tuple(busy / (busy + rest) if busy + rest else 0.0 for busy, rest in parts)


def _run(planned: Planned, directory: Path) -> Outcome:
    setup, load = planned.setup, planned.load
    environment = {**os.environ, **setup.environment}
    with running(setup.name, setup.command, directory, environment) as server:
        server.wait_until_ready(load.paths[0])
        with _loading(load, server.address[1]) as clients:
            begun = _read_line(clients)
            before = _Cpu.read(server)
            observed = _observe(setup, server, max(LEAST_SECONDS, load.seconds - 0.2))
            memory, after = server.read_memory(), _Cpu.read(server)
            ended = _read_line(clients)
            answers = msgspec.json.decode(clients.stdout.readline() if clients.stdout else b"", type=Answers)
    seconds = ended[0] - begun[0]
    return Outcome(
        setup=setup.name,
        load=planned.label,
        number=planned.number,
        answers=answers,
        cpus=after.busy_since(before),
        server_cpu=(after.server - before.server) / seconds,
        clients_cpu=(ended[1] - begun[1]) / seconds,
        memory=int(memory) or None,
        observed=observed,
    )


@contextmanager
def _loading(load: Load, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "app.lab.clients", msgspec.json.encode(load).decode(), str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _read_line(clients: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Reads the time and the CPU seconds of the clients at the beginning or the end of the measured time."""
    assert clients.stdout
    words = clients.stdout.readline().split()
    if len(words) != 3:
        raise RunError("The clients ended before the end of the load.")
    return float(words[1]), float(words[2])


def _observe(setup: Setup, server: Server, seconds: float) -> Observed | None:
    """Samples a uWSGI; returns its figures, None for others, of which only the end is awaited."""
    if not setup.is_uwsgi:
        return asyncio.run(asyncio.sleep(seconds))
    return summarise(asyncio.run(_sample(setup.name, server.directory / "stats", seconds)))


async def _sample(name: str, stats: Path, seconds: float) -> schema.ServerDocument:
    fleet = Fleet(
        [ServerConfig(name=name, pattern=str(stats), address=Unix(str(stats)))],
        Settings(windows=(seconds,), cpu_residency=True),
    )
    try:
        (watch,) = fleet.watches()
        return await judge(watch, fleet.clock, seconds)
    finally:
        await fleet.close()


def summarise(server: schema.ServerDocument) -> Observed | None:
    """Return what an outcome keeps of a server's document; None if the document has no figures."""
    flow, balance, waits, headroom = server.flow, server.balance, server.waits, server.headroom
    if flow is None or flow.throughput is None:
        return None
    loads = [worker.interpreter_load for worker in server.workers if worker.interpreter_load is not None]
    concurrency = flow.observed if flow.observed is not None else flow.littles_law
    return Observed(
        throughput=flow.throughput,
        response_time=flow.response_time,
        concurrency=concurrency or 0.0,
        shares={worker.worker_id: worker.share for worker in server.workers if worker.share is not None},
        hot_ratio=balance.hot_ratio if balance else None,
        cost=balance.cost if balance else None,
        interpreter_load=max(loads, default=None),
        interpreter_waits={
            worker.worker_id: worker.lock_waiters for worker in server.workers if worker.lock_waiters is not None
        },
        waits={state.state: state.threads for state in waits.states} if waits else {},
        residency={worker.worker_id: worker.residency for worker in server.workers if worker.residency},
        headroom=headroom.factor if headroom else None,
        limit=headroom.first if headroom else None,
        verdict=server.verdict,
    )
