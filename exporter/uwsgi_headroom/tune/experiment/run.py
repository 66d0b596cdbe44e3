"""Runs one setup under one load: starts the server, loads it, samples it, and ends everything again.

The figures of a uWSGI over the measured time come from the exporter's own sampling code, in this process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from uwsgi_headroom.check.watching import judge
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents import schema
from uwsgi_headroom.kernel.facts import read_table
from uwsgi_headroom.record import TrackedConnections
from uwsgi_headroom.source import Unix
from uwsgi_headroom.tune.experiment.results import Observed, Outcome
from uwsgi_headroom.tune.experiment.server import Setup, running
from uwsgi_headroom.tune.loads.load_tools import Load, find_tool, loading
from uwsgi_headroom.tune.processes.guarded import CHECK_SECONDS, CpuMeter, RunError, watching_memory
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.words.formats import duration

_TABLE_FULL = 0.75
"""The part of the table in use from which dropped packets are blamed on it: some entries may have expired since."""

_TABLE_ROOM = 0.5
"""The part of the table that is free before a run is repeated."""

MOST_SECONDS = 150.0
"""How long a run waits at most for room in the kernel's table of tracked connections. When that is full, clients wait
while the CPUs are idle: a load of many short connections then measures the table, not the server. Entries of closed
connections stay for two minutes, as `nf_conntrack_tcp_timeout_time_wait` says."""

BESIDE_SECONDS = 2.5
"""What a run takes beside its load, as long as none was seen: start, end, late answers."""

LEAST_SECONDS = 1.0
"""The shortest time to watch a server, however late it begins."""

PREFIX = "headroom-tune-"  # short: the path of a UNIX socket holds 107 bytes


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
        return seconds_of(self.load)


def seconds_of(load: Load) -> float:
    """Return about how long a run with this load takes, with the start and the end of the server."""
    return load.warm_up + load.seconds + BESIDE_SECONDS


def run_once(planned: Planned, directory: Path | None = None, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run a setup under a load, and leave no process.

    A failure that can be expected is `Outcome.error`: the port is taken, the server does not start or ends too early,
    a tool is missing. Raises OSError if the disk is full.

    A run in which the kernel's table of tracked connections was full is repeated when there is room again, once.

    directory: of the run, where the server's log stays; None for a temporary one, which is removed. say: receives a
    line if the run has to wait.
    """
    before = read_table()
    outcome = _attempt(planned, directory)
    if table := overfull_since(before):
        longest = duration(MOST_SECONDS)
        say(f"  {_describe_overfull(table)} It is repeated when there is room again, in {longest} at most.")
        wait_for_room()
        before = read_table()
        outcome = _attempt(planned, directory)
        if table := overfull_since(before):
            outcome = _failed(planned, f"{_describe_overfull(table)} Raise net.netfilter.nf_conntrack_max.")
    return outcome


def overfull_since(before: TrackedConnections | None) -> TrackedConnections | None:
    """Return the table if it was full since an earlier reading, so that packets were dropped; else None."""
    after = read_table()
    if before and after and after.dropped > before.dropped and after.entries >= _TABLE_FULL * after.most:
        return after
    return None


def wait_for_room() -> None:
    """Return when enough of the table is free, or after `MOST_SECONDS`."""
    end = time.monotonic() + MOST_SECONDS
    while (table := read_table()) and table.entries > (1 - _TABLE_ROOM) * table.most and time.monotonic() < end:
        time.sleep(1.0)


def _describe_overfull(table: TrackedConnections) -> str:
    return f"The kernel dropped packets of this run: its table of {table.most:,} tracked connections was full."


def _attempt(planned: Planned, directory: Path | None) -> Outcome:
    try:
        if directory is not None:
            directory = directory.absolute()
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _run(planned, directory)
        with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
            return _run(planned, Path(name), temporary=Path(name))
    except RunError as error:
        return _failed(planned, str(error))


def _failed(planned: Planned, error: str) -> Outcome:
    return Outcome(setup=planned.setup.name, load=planned.label, number=planned.number, answers=None, error=error)


def _run(planned: Planned, directory: Path, temporary: Path | None = None) -> Outcome:
    setup, load = planned.setup, planned.load
    with running(setup, directory, temporary) as server:
        tool = find_tool(load, server.port, directory)
        server.wait_until_ready(load.paths[0])
        with (
            watching_memory(server.guarded.pids) as memory,
            loading(tool, load, server.guarded.refuse_if_ended, directory, temporary) as applied,
        ):
            end = applied.wait_for_begin() + load.seconds
            meter = CpuMeter((server.guarded.process.pid, applied.guarded.process.pid))

            def check() -> None:
                applied.refuse_if_failed()
                if applied.is_running:  # later, its CPU time is unknown
                    meter.read()

            # On a busy machine this process is late: it stops watching when the load ends, not as much later.
            observed = observe(setup.name, server.stats, max(LEAST_SECONDS, end - time.monotonic()), check)
            cpus, (server_cpu, clients_cpu) = meter.use()
            answers = applied.answers()
    return Outcome(
        setup=setup.name,
        load=planned.label,
        number=planned.number,
        answers=answers,
        cpus=cpus,
        server_cpu=server_cpu,
        clients_cpu=clients_cpu,
        memory=memory.largest,
        observed=observed,
    )


def observe(name: str, stats: Path | None, seconds: float, check: Callable[[], None]) -> Observed | None:
    """Sample a uWSGI for `seconds`; return its figures, None if they are unknown. Without `stats`, only wait.

    check: called all the time; an exception that it raises ends the wait.
    """
    if stats is None:
        asyncio.run(_wait(asyncio.sleep(seconds), check))
        return None
    return summarise(asyncio.run(_sample(name, stats, seconds, check)))


async def _sample(name: str, stats: Path, seconds: float, check: Callable[[], None]) -> schema.Server:
    fleet = Fleet(
        [ServerConfig(name=name, pattern=str(stats), address=Unix(str(stats)))],
        Settings(windows=(seconds,), cpu_residency=True),
    )
    try:
        (watch,) = fleet.watches()
        return await _wait(judge(watch, fleet.clock, seconds), check)
    finally:
        await fleet.close()


T = TypeVar("T")


async def _wait(work: Coroutine[Any, Any, T], check: Callable[[], None]) -> T:
    task = asyncio.create_task(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=CHECK_SECONDS)
            check()
        return task.result()
    finally:
        task.cancel()


def summarise(server: schema.Server) -> Observed | None:
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
