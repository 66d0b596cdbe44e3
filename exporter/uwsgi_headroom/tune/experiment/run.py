"""Runs one setup under one load: starts the server, loads it, samples it, and ends everything again."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.tune.experiment.connection_table import (
    MOST_SECONDS,
    ConnectionTable,
    overfull_since,
    read_table,
    wait_for_room,
)
from uwsgi_headroom.tune.experiment.loading import loading
from uwsgi_headroom.tune.experiment.observe import observe
from uwsgi_headroom.tune.experiment.outcome import Outcome
from uwsgi_headroom.tune.experiment.server import running
from uwsgi_headroom.tune.experiment.setup import Setup
from uwsgi_headroom.tune.loads.load import Load
from uwsgi_headroom.tune.loads.load_tools import find_tool
from uwsgi_headroom.tune.processes.guarded import RunError
from uwsgi_headroom.tune.processes.usage import CpuMeter, watching_memory
from uwsgi_headroom.words.formats import duration

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
