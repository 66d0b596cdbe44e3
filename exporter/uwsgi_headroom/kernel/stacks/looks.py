"""Looks at the busy threads of a server: in which line of code each is, and what it waits for there.

For each thread the kernel's word for what it waits for is read before and after the stack. If the two differ, the stack
may belong to either, and the thread is looked at again at once. (To drop such looks would take most from short states:
threads that compute for 3 ms were seen a fifth too rarely.) A thread that runs is kept: its lines change all the time,
and each of them is one that it was in. What could not be read counts as such, so no line gets the share of another.

The memory may be that of a process that never answers (see `waits.memory`), so a look runs in another thread; it does
not touch the files that are kept open here (`procfs.KEPT`).
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.namespaces import read_pid_numbers, shares_network_namespace
from uwsgi_headroom.kernel.stacks.application import choose_frame
from uwsgi_headroom.kernel.stacks.reader import StackReader, TornError
from uwsgi_headroom.kernel.stacks.runtime import NoRuntimeError, Runtime, find_runtime
from uwsgi_headroom.kernel.waits.memory import Patient, read_pieces
from uwsgi_headroom.kernel.waits.memory_map import Generation, read_generation
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.kernel.waits.run_delays import RunDelays
from uwsgi_headroom.kernel.waits.sampler import explain_doubt
from uwsgi_headroom.kernel.waits.system_calls import Calls, find_calls
from uwsgi_headroom.kernel.waits.thread_wait import GAP_SOCKET, Decisions, Wait
from uwsgi_headroom.kernel.waits.worker_threads import (
    LookedAt,
    RefusedError,
    Seen,
    WorkerThreads,
    list_threads,
    no_right,
)
from uwsgi_headroom.record import Options, State
from uwsgi_headroom.stats.server import Snapshot

MOST_LINES = 1000
"""How many different lines are counted. Beyond, a look at a new one counts as not read."""

MOST_SECONDS = 0.1
"""How long one look may take. Threads that are left are not looked at: their order is random."""

_TRIES = 3
"""How often a stack is read that is torn, and a thread is looked at that goes on meanwhile."""

_MOST_WORKERS = 1024
_MOST_ADDRESSES = 20  # of one line


class Line(NamedTuple):
    """A line of code that a thread is in. callee: the function of a library that the line has called, such as `psycopg2
    execute`; empty if it called none. All are empty, and the line 0, for a thread that runs no Python code."""

    function: str = ""
    file: str = ""
    line: int = 0
    callee: str = ""


OUTSIDE = Line()


@dataclass(frozen=True, slots=True)
class LineUse:
    """How the threads that were seen in a line spend their time. looks: at such threads; states: the same by what they
    wait for; addresses: the same by backend or name server, as far as those are known."""

    line: Line
    looks: float
    states: Mapping[State, float]
    addresses: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CodeUse:
    """In which lines the busy threads of a server were. off: why nothing is known, as a sentence for an operator.

    looks: at the server. threads: looks at busy threads that were kept; lines: where, most looks first; unread: how
    many of them have no line, because the stack was torn, or is none of CPython's. changed: looks that were dropped,
    because the thread waited for something else after its stack was read. seconds: of CPU time, for all looks."""

    off: str | None = None
    looks: int = 0
    threads: float = 0.0
    lines: tuple[LineUse, ...] = ()
    unread: float = 0.0
    changed: int = 0
    seconds: float = 0.0


class _Sight(NamedTuple):
    """A thread, what it waits for, and its line; None if that could not be read."""

    seen: Seen
    line: Line | None


@dataclass(slots=True)
class _Worker:
    """The stacks of one worker process. ids: of its threads, as they know them, by those that they have here."""

    reader: StackReader
    ids: Mapping[int, int]


class CodeLooks:
    """Looks at one server again and again, and counts. prefixes: those of the application's files (`application`)."""

    def __init__(
        self,
        prefixes: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._prefixes = prefixes
        self._clock = clock
        self._chance = chance or random.Random()  # noqa: S311 - the order of threads, no secret
        calls = find_calls()
        self._knows_calls = calls is not None and calls.tried
        self._threads = WorkerThreads(calls or Calls({}, False), read_pollfds=True, chance=self._chance, clock=clock)
        self._decisions = Decisions(Peers(clock))
        self._memory = Patient(clock)
        self._delays = RunDelays()
        self._runtimes: dict[Generation, Runtime] = {}
        self._workers: dict[int, _Worker] = {}
        self._off: str | None = None  # why the last look saw nothing
        self._never: str | None = None  # why no look at a busy thread will see anything
        self._looks = 0
        self._by_line: dict[Line, dict[State, float]] = {}
        self._addresses: dict[Line, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._unread = 0.0
        self._changed = 0
        self._seconds = 0.0

    def look(self, snapshot: Snapshot, facts: HostFacts) -> float:
        """Look at all request threads once; returns the CPU seconds that it took. facts: about the processes of this
        document. Never raises because of what it reads."""
        began, self._off = time.thread_time(), self._find_doubt(snapshot, facts)
        cost = 0.0
        if self._off is None:
            local = {
                worker.pid: pid for worker in snapshot.workers if worker.pid and (pid := facts.local_pid(worker.pid))
            }
            try:
                found = self._memory.ask(partial(self._look_at_all, snapshot, facts, local))
            except NoRuntimeError as error:
                self._never = self._off = str(error)
                found = None
            except RefusedError as error:
                self._off, found = str(error), None
            else:
                if found is None:
                    self._off = _REFUSED if self._memory.refused else _SILENT
            if found is not None:
                sights, changed, cost = found
                self._looks += 1
                self._changed += changed
                self._count(snapshot, facts.master_pid or 0, sights)
        cost += time.thread_time() - began
        self._seconds += cost
        return cost

    def report(self) -> CodeUse:
        """What was counted so far."""
        lines = [
            LineUse(line, sum(states.values()), dict(states), dict(self._addresses.get(line, {})))
            for line, states in self._by_line.items()
        ]
        return CodeUse(
            off=self._never or (None if self._looks else self._off or _NOT_YET),
            looks=self._looks,
            threads=sum(use.looks for use in lines) + self._unread,
            lines=tuple(sorted(lines, key=lambda use: -use.looks)),
            unread=self._unread,
            changed=self._changed,
            seconds=self._seconds,
        )

    def _find_doubt(self, snapshot: Snapshot, facts: HostFacts) -> str | None:
        if facts.off:
            return facts.off
        if not self._knows_calls:
            return _UNTRIED
        return explain_doubt(snapshot, facts.setup.concurrency_kind if facts.setup else None)

    def _look_at_all(
        self, snapshot: Snapshot, facts: HostFacts, local: Mapping[int, int]
    ) -> tuple[list[_Sight], int, float]:
        """The busy threads of all workers, how many looks were dropped, and the CPU seconds of this thread. Raises
        RefusedError, RefusedToReadError or NoRuntimeError."""
        began, end = time.thread_time(), self._clock() + MOST_SECONDS
        for pid in self._threads.forget_ended(local.values()):
            self._workers.pop(pid, None)
        options = facts.setup.options if facts.setup else Options()
        sights: list[_Sight] = []
        changed = 0
        workers = [worker for worker in snapshot.workers if worker.pid in local][:_MOST_WORKERS]
        for worker in self._chance.sample(workers, len(workers)):
            if self._clock() > end:
                break
            process = facts.processes.get(worker.pid or 0)
            at = self._threads.find(worker, local[worker.pid or 0], process.start_time if process else None, options)
            if at is None:
                continue
            at.process.is_equal = True  # its memory may be read at once: this thread may wait for it
            for sight in self._look_at_worker(at, end):
                if sight is None:
                    changed += 1
                else:
                    sights.append(sight)
        return sights, changed, time.thread_time() - began

    def _look_at_worker(self, at: LookedAt, end: float) -> Iterator[_Sight | None]:
        """The busy threads of a worker; None for a look that is dropped."""
        states: dict[int, int] = {}
        for thread in self._chance.sample(at.threads.threads, len(at.threads.threads)):
            for _ in range(_TRIES):
                before = self._read_call(at, thread)
                known = at.lasting.get(before)
                if not before or (known and known.result == "idle"):
                    break
                if self._clock() > end:
                    return
                line: Line | None = None
                with suppress(TornError, OSError, ValueError):
                    states = states or self._find_states(at.process.pid)
                    line = self._read_line(at.process.pid, thread, states)
                if self._read_call(at, thread) == before:
                    yield _Sight(Seen(at, thread, self._classify(at, thread, before)), line)
                    break
            else:
                yield None

    def _classify(self, at: LookedAt, thread: int, line: bytes) -> Wait:
        try:
            return self._threads.classify(at, thread, line)
        except (OSError, ValueError):
            return Wait("unknown")

    def _read_call(self, at: LookedAt, thread: int) -> bytes:
        """What the kernel says that a thread waits for; empty if it has ended. Raises RefusedError."""
        try:
            return procfs.read_line(f"/proc/{at.process.pid}/task/{thread}/syscall")
        except PermissionError:
            if procfs.read_state(at.process.pid) in (b"Z", b"X", b""):
                return b""
            raise no_right() from None
        except OSError:
            at.threads.list_again()
            return b""

    def _find_states(self, pid: int) -> dict[int, int]:
        """CPython's state of each thread of a process, by the thread's id here. Raises OSError, TornError,
        RefusedToReadError or NoRuntimeError."""
        worker = self._workers.get(pid)
        if worker is None:
            generation = read_generation(pid)
            runtime = self._runtimes.get(generation)
            if runtime is None:
                self._runtimes.clear()  # of the program before a reload
                runtime = self._runtimes[generation] = find_runtime(pid)
            worker = self._workers[pid] = _Worker(StackReader(runtime, partial(read_pieces, pid)), {})
        try:
            states = worker.reader.find_threads(worker.ids)
        except TornError:
            del self._workers[pid]  # in case that another program has the number by now
            raise
        if not states or len(states) < len(worker.ids):
            worker.ids = _list_own_ids(pid)  # a thread has begun, or has no Python
            states = worker.reader.find_threads(worker.ids)
        return {worker.ids[own]: state for own, state in states.items()}

    def _read_line(self, pid: int, thread: int, states: Mapping[int, int]) -> Line | None:
        """The line that a thread is in. Raises RefusedToReadError, or TornError if that cannot be read."""
        state = states.get(thread)
        if state is None:
            return None
        reader = self._workers[pid].reader
        for _ in range(_TRIES):
            with suppress(TornError):
                choice = choose_frame(reader.walk(state), self._prefixes)
                if choice is None:
                    return OUTSIDE
                code = choice.frame.code
                return Line(code.function, code.file, reader.find_line(choice.frame), choice.callee)
        raise TornError

    def _count(self, snapshot: Snapshot, master_pid: int, sights: Collection[_Sight]) -> None:
        """Add a look's threads to the sums, without those that are idle."""
        elsewhere = None if shares_network_namespace(master_pid) else master_pid
        processes = {sight.seen.by.process.pid: sight.seen.by.process for sight in sights}.values()
        waits = [sight.seen.wait for sight in sights]
        self._decisions.learn(
            waits, lambda: [each for process in processes for each in process.sockets], elsewhere=elsewhere
        )
        certain = 0.0
        for seen, line in sights:
            for part, decision in self._decisions.decide(seen.wait):
                if decision.result == "idle" or (seen.wait.epoll is not None and line == OUTSIDE):
                    seen.by.note_idle(seen)
                    continue
                if seen.wait.epoll is not None and decision.gap == GAP_SOCKET and line is None:
                    continue  # uWSGI's own, of an idle thread, or the application's
                certain += part if seen.wait.lock is None else 0.0
                if self._threads.is_idle(seen.wait, snapshot):
                    continue
                if decision.result == "running":
                    waiting = self._delays.part_waiting(seen.by.process.pid, seen.thread)
                    self._add(line, "cpu_wait", "", waiting)
                    self._add(line, "cpu", "", 1 - waiting)
                else:
                    self._add(line, decision.result, decision.address, part)
        self._threads.learn([sight.seen for sight in sights], certain, snapshot, are_all=True)
        with suppress(RefusedError):
            self._threads.look_at_strangers({sight.seen.by.process.pid: sight.seen.by for sight in sights}.values())

    def _add(self, line: Line | None, state: State, address: str, part: float) -> None:
        if line is None or (line not in self._by_line and len(self._by_line) >= MOST_LINES):
            self._unread += part
            return
        if part:
            self._by_line.setdefault(line, defaultdict(float))[state] += part
        addresses = self._addresses[line]
        if address and (address in addresses or len(addresses) < _MOST_ADDRESSES):
            addresses[address] += part


def _list_own_ids(pid: int) -> dict[int, int]:
    """The ids here of a process's threads, by those that the process knows."""
    threads = list_threads(pid)
    if len(read_pid_numbers(pid)) <= 1:
        return {thread: thread for thread in threads}
    own: dict[int, int] = {}
    for thread in threads:
        with suppress(OSError, ValueError):
            status = procfs.read_file(f"/proc/{pid}/task/{thread}/status")
            own[int(status.partition(b"\nNSpid:")[2].split(b"\n", 1)[0].split()[-1])] = thread
    return own


_REFUSED = (
    "the memory of uWSGI's workers may not be read: allow the system call process_vm_readv (docs/code.md), and see "
    "which right it takes (docs/waits.md#rights)"
)
_SILENT = "the memory of a worker is not readable: it answers too late, or not at all"
_NOT_YET = "no thread was looked at yet"
_UNTRIED = "the system calls of this machine's architecture were never tried"
