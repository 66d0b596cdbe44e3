"""Finds the processes of workers whose PIDs are those of another PID namespace.

The PIDs in a stats document are those of uWSGI's own PID namespace. If that is below ours, each of its processes has a
PID here as well, and `NSpid` in proc_pid_status(5) lists both. Only children of the proven master are searched, and
only those that are as deep as the master: a child in a namespace of its own may have any number there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TypeVar

import psutil
from msgspec.structs import replace

from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.processes import WorkerProcess, list_children
from uwsgi_headroom.stats.server import Snapshot, Worker

T = TypeVar("T")

SPAWN_SECONDS = 5.0
"""How far the start of a process may be from `last_spawn`: uWSGI writes whole seconds, of a clock that it reads about
once a second."""


class WorkersHere:
    """The PIDs here of one server's workers. depth: how many PID namespaces the master is in, as seen from here; with
    1, its PIDs are ours."""

    def __init__(self, master_pid: int = 0, depth: int = 1) -> None:
        self.master_pid = master_pid
        self.depth = depth
        self._numbers: dict[int, int | None] = {}  # by PID here, the PID in the master's namespace
        self._here: dict[int, int] = {}
        self._renamed: dict[int, tuple[WorkerProcess, WorkerProcess]] = {}
        self._snapshots: tuple[Snapshot, Snapshot] | None = None  # the last one, theirs and ours
        self._facts: tuple[HostFacts, HostFacts] | None = None  # the last ones, ours and theirs

    def translate(self, snapshot: Snapshot, *, again: bool) -> Snapshot:
        """The snapshot with the PIDs of its workers here; None for a worker that is no child of the master. again:
        whether to read also those that are known: a PID may be reused."""
        if self.depth == 1:
            return snapshot
        self._find([worker.pid for worker in snapshot.workers if worker.pid], again)
        if self._snapshots is None or self._snapshots[0] is not snapshot:
            workers = [replace(worker, pid=self._here.get(worker.pid or 0)) for worker in snapshot.workers]
            here = replace(snapshot, pid=self.master_pid, workers=tuple(workers))
            self._snapshots = snapshot, here
        return self._snapshots[1]

    def translate_back(self, facts: HostFacts) -> HostFacts:
        """The facts by the PIDs of the stats document; the same object for the same facts."""
        if self.depth == 1:
            return facts
        if self._facts and self._facts[0] is facts:
            return self._facts[1]
        theirs = {here: number for number, here in self._here.items()}
        memory = facts.memory
        if memory and memory.worker:
            memory = replace(memory, worker=replace(memory.worker, unique=_rename(memory.worker.unique, theirs)))
        processes = {
            theirs[pid]: self._rename_process(process, theirs[pid])
            for pid, process in facts.processes.items()
            if pid in theirs
        }
        self._renamed = {pid: self._renamed[pid] for pid in processes}
        translated = replace(
            facts, processes=processes, threads=_rename(facts.threads, theirs), memory=memory, local_pids={**self._here}
        )
        self._facts = facts, translated
        return translated

    def _rename_process(self, process: WorkerProcess, pid: int) -> WorkerProcess:
        """The same object for the same process at rest, which lets others skip it."""
        known = self._renamed.get(pid)
        if known is None or known[0] is not process:
            known = self._renamed[pid] = process, replace(process, pid=pid)
        return known[1]

    def are_serving(self, snapshot: Snapshot) -> bool | None:
        """Whether at least half of the workers in the document are children of the master that began when the document
        says; None if the document has no living worker.

        Most containers count from 1, so equal PIDs alone prove little: the program that listens on a socket may be a
        relay, process 1 of its own container.
        """
        living = [worker for worker in snapshot.workers if worker.pid and worker.last_spawn]
        if not living:
            return None
        if self.depth > 1:
            self._find([worker.pid for worker in living if worker.pid], again=True)
        began = [self._began(worker) for worker in living]
        return 2 * sum(began) >= len(living)

    def _began(self, worker: Worker) -> bool:
        pid = worker.pid if self.depth == 1 else self._here.get(worker.pid or 0)
        try:
            process = psutil.Process(pid or 0)
            return process.ppid() == self.master_pid and (
                abs(process.create_time() - (worker.last_spawn or 0)) <= SPAWN_SECONDS
            )
        except (psutil.Error, OSError, ValueError, OverflowError):
            return False

    def _find(self, pids: Collection[int], again: bool) -> None:
        if again:
            self._numbers = {}
        elif all(pid in self._here for pid in pids):
            return
        children = list_children(self.master_pid)
        self._numbers = {child: self._numbers.get(child) or self._read_number(child) for child in children}
        self._snapshots = self._facts = None
        # Two children have one number only if uWSGI puts them into different namespaces of one depth.
        times = Counter(self._numbers.values())
        self._here = {
            number: child for child, number in self._numbers.items() if number and number in pids and times[number] == 1
        }

    def _read_number(self, pid: int) -> int | None:
        numbers = read_pid_numbers(pid)
        return numbers[-1] if len(numbers) == self.depth else None


def _rename(by_pid: Mapping[int, T], names: Mapping[int, int]) -> dict[int, T]:
    return {names[pid]: value for pid, value in by_pid.items() if pid in names}
