"""Runs one setup under one load: starts the server, loads it, samples it, and ends everything again.

This project's own figures of a uWSGI over the measured time: the same sampling code as the exporter, in process.

Runs the program that applies a load, and reads its output while the server is watched.

The kernel's table of tracked connections, which firewalls and containers need.

When it is full, the kernel drops packets that begin a connection. Clients try again after a second and more, while the
CPUs are idle: a load of many short connections then measures that, not the server. Entries of closed connections stay
for two minutes, as `nf_conntrack_tcp_timeout_time_wait` says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uwsgi_headroom.check.watching import judge
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents import schema
from uwsgi_headroom.source import Unix
from uwsgi_headroom.tune.experiment.results import Observed, Outcome
from uwsgi_headroom.tune.experiment.server import Setup, running
from uwsgi_headroom.tune.loads.load import Answers, Load
from uwsgi_headroom.tune.loads.load_tools import LoadTool, find_tool
from uwsgi_headroom.tune.processes.guarded import Guarded, RunError, guarded
from uwsgi_headroom.tune.processes.usage import CpuMeter, watching_memory
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.words.formats import duration

FULL = 0.75
"""The part of the table in use from which dropped packets are blamed on it: some entries may have expired since."""

ROOM = 0.5
"""The part of the table that is free before a run is repeated."""

MOST_SECONDS = 150.0
"""How long a run waits for room at most."""


@dataclass(frozen=True, slots=True)
class ConnectionTable:
    """entries: tracked now. most: that there can be. dropped: packets since the kernel started, also for other
    reasons."""

    entries: int
    most: int
    dropped: int


def read_table(proc: Path = Path("/proc")) -> ConnectionTable | None:
    """Return the table of this network namespace, None if connections are not tracked or this is not known."""
    with contextlib.suppress(OSError, ValueError):
        most = int((proc / "sys/net/netfilter/nf_conntrack_max").read_text())
        head, *lines = (proc / "net/stat/nf_conntrack").read_text().splitlines()
        rows = [dict(zip(head.split(), line.split(), strict=False)) for line in lines]  # one for each CPU
        if rows and most:
            entries = max(int(row.get("entries", "0"), 16) for row in rows)  # each has that of all CPUs
            return ConnectionTable(entries, most, sum(int(row.get("drop", "0"), 16) for row in rows))
    return None


def overfull_since(before: ConnectionTable | None) -> ConnectionTable | None:
    """Return the table if it was full since an earlier reading, so that packets were dropped; else None."""
    after = read_table()
    if before and after and after.dropped > before.dropped and after.entries >= FULL * after.most:
        return after
    return None


def wait_for_room() -> None:
    """Return when enough of the table is free, or after `MOST_SECONDS`."""
    end = time.monotonic() + MOST_SECONDS
    while (table := read_table()) and table.entries > (1 - ROOM) * table.most and time.monotonic() < end:
        time.sleep(1.0)


CHECK_SECONDS = 0.2
"""How often the processes of a run are checked while it is measured."""


def observe(name: str, stats: Path | None, seconds: float, check: Callable[[], None]) -> Observed | None:
    """Sample a uWSGI for `seconds`; return its figures, None if they are unknown. Without `stats`, only wait.

    check: called all the time; an exception that it raises ends the wait.
    """
    return asyncio.run(_observe(name, stats, seconds, check))


async def _observe(name: str, stats: Path | None, seconds: float, check: Callable[[], None]) -> Observed | None:
    if stats is None:
        await _wait(asyncio.create_task(asyncio.sleep(seconds)), check)
        return None
    fleet = Fleet(
        [ServerConfig(name=name, pattern=str(stats), address=Unix(str(stats)))],
        Settings(windows=(seconds,), cpu_residency=True),
    )
    try:
        (watch,) = fleet.watches()
        judging = asyncio.create_task(judge(watch, fleet.clock, seconds))
        await _wait(judging, check)
        return summarise(judging.result())
    finally:
        await fleet.close()


async def _wait(
    task: asyncio.Task[object] | asyncio.Task[None] | asyncio.Task[schema.Server], check: Callable[[], None]
) -> None:
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=CHECK_SECONDS)
            check()
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


_LATE_SECONDS = 60.0
"""How much longer than planned a load tool may take: on a busy machine, starting Python alone takes seconds."""


@dataclass
class Loading:
    """A load in the making. check: raises `RunError` if the server has ended."""

    tool: LoadTool
    guarded: Guarded
    _pipe: int
    _check: Callable[[], None]
    _longest: float
    _output: bytearray = field(default_factory=bytearray)

    def wait_for_begin(self) -> None:
        """Return when the measured time begins. Raises `RunError` if the server or the tool ends before."""
        if self.tool.warm_up is not None:
            return  # its process has just been started, after that of the warm-up
        self._read(lambda: b"begin\n" in self._output)
        if b"begin\n" not in self._output:
            self.refuse_if_failed()
            raise RunError(f"{self.tool.name} ended before the measured time{self.guarded.last_words()}")

    @property
    def is_running(self) -> bool:
        """Whether the tool has not ended yet."""
        return self.guarded.process.poll() is None

    def refuse_if_failed(self) -> None:
        """Raise `RunError` if the server has ended, or the tool without a result."""
        self._check()
        if self.guarded.process.poll():
            self.guarded.refuse_if_ended()

    def wait(self) -> None:
        """Wait for the end of the tool. Raises `RunError` if it fails."""
        self._read(lambda: False)
        self.guarded.process.wait(_LATE_SECONDS)
        self.refuse_if_failed()

    def answers(self) -> Answers:
        """Wait for the end of the load and return what its clients saw. Raises `RunError`."""
        self.wait()
        try:
            return self.tool.parse(self._output.partition(b"begin\n")[2 if self.tool.warm_up is None else 0].decode())
        except ValueError as error:
            raise RunError(
                f"The output of {self.tool.name} cannot be read: {error}{self.guarded.last_words()}"
            ) from error

    def _read(self, enough: Callable[[], bool]) -> None:
        """Read the output until there is enough of it, or to its end."""
        give_up_at = time.monotonic() + self._longest + _LATE_SECONDS
        while not enough():
            ready, _, _ = select.select([self._pipe], [], [], CHECK_SECONDS)
            if ready:
                received = os.read(self._pipe, 1 << 16)
                if not received:
                    return
                self._output += received
            self._check()
            if time.monotonic() > give_up_at:
                raise RunError(f"{self.tool.name} did not end in time{self.guarded.last_words()}")


@contextlib.contextmanager
def loading(
    tool: LoadTool, load: Load, check: Callable[[], None], directory: Path, temporary: Path | None = None
) -> Iterator[Loading]:
    """Warm up the server, then run the measured load during the block.

    check: raises `RunError` if the server has ended. directory: for the tool's log. temporary: as for `guarded`.
    """

    @contextlib.contextmanager
    def started(command: Sequence[str]) -> Iterator[Loading]:
        reading, writing = os.pipe()
        log, longest = directory / "clients.log", load.warm_up + load.seconds + load.timeout
        with (
            os.fdopen(reading, "rb"),
            os.fdopen(writing, "wb") as output,
            guarded(tool.name, command, log=log, temporary=temporary, output=output) as process,
        ):
            output.close()  # the end of the output is the end of the tool
            yield Loading(tool, process, reading, check, longest)

    if tool.warm_up is not None:
        with started(tool.warm_up) as warming:
            warming.wait()
    with started(tool.measured) as measured:
        yield measured


BESIDE_SECONDS = 2.5
"""What a run takes beside its load, as long as none was seen: start, end, late answers."""

PREFIX = "headroom-tune-"  # short: the path of a UNIX socket holds 107 bytes


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of an experiment: a setup under a load. label: the load's name, unique in the experiment. number: of the
    repetition, from 0."""

    setup: Setup
    load: Load
    label: str
    number: int

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
        say(f"  {_overfull(table)} It is repeated when there is room again, in {duration(MOST_SECONDS)} at most.")
        wait_for_room()
        before = read_table()
        outcome = _attempt(planned, directory)
        if table := overfull_since(before):
            outcome = _failed(planned, f"{_overfull(table)} Raise net.netfilter.nf_conntrack_max.")
    return outcome


def _overfull(table: ConnectionTable) -> str:
    return f"The kernel dropped packets of this run: its table of {table.most:,} tracked connections was full."


def _attempt(planned: Planned, directory: Path | None) -> Outcome:
    try:
        if directory is not None:
            directory = directory.absolute()
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _run(planned, directory)
        with _temporary() as place:
            return _run(planned, place, temporary=place)
    except RunError as error:
        return _failed(planned, str(error))


def _failed(planned: Planned, error: str) -> Outcome:
    return Outcome(setup=planned.setup.name, load=planned.label, number=planned.number, answers=None, error=error)


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(planned: Planned, directory: Path, temporary: Path | None = None) -> Outcome:
    setup, load = planned.setup, planned.load
    with running(setup, directory, temporary) as server:
        tool = find_tool(load, server.port, directory)
        server.wait_until_ready(load.paths[0])
        with (
            watching_memory(server.guarded.pids) as memory,
            loading(tool, load, server.guarded.refuse_if_ended, directory, temporary) as applied,
        ):
            applied.wait_for_begin()
            meter = CpuMeter((server.guarded.process.pid, applied.guarded.process.pid))

            def check() -> None:
                applied.refuse_if_failed()
                if applied.is_running:  # later, its CPU time is unknown
                    meter.read()

            observed = observe(setup.name, server.stats, load.seconds, check)
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
