"""Looks at the busy threads of a server: in which line of code each is, and what it waits for there.

For each thread the kernel's word for what it waits for is read before and after the stack. If the two differ, the stack
may belong to either, and the thread is looked at again at once. (To drop such looks would take most from short states:
threads that compute for 3 ms were seen a fifth too rarely.) A thread that runs is kept: its lines change all the time,
and it was in each of them. What could not be read counts as such, so no line gets the share of another.

The memory may be that of a process that never answers (see `waits.memory`), so a look is a question for `aside`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple

from msgspec import Struct, field

from uwsgi_headroom.code_look import OUTSIDE, CodeLook, CodeSight, Line
from uwsgi_headroom.config.defaults import LIBRARY_FILES
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.namespaces import find_elsewhere
from uwsgi_headroom.kernel.stacks.layout import NoRuntimeError, Runtime, find_runtime
from uwsgi_headroom.kernel.stacks.reader import Frame, StackReader, TornError
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.kernel.waits.memory import Generation, RefusedToReadError, read_generation, read_pieces
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.kernel.waits.sampler import explain_doubt
from uwsgi_headroom.kernel.waits.schedules import RunDelays
from uwsgi_headroom.kernel.waits.thread_wait import GAP_SOCKET, Decisions
from uwsgi_headroom.kernel.waits.worker_threads import HiddenError, LookedAt, SeenThread, WorkerThreads, list_own_ids
from uwsgi_headroom.record import UNKNOWN, State
from uwsgi_headroom.stats.server import Snapshot

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/([^/]+?)(?:\.py)?(?:/|$)")
_LIBRARY = re.compile(LIBRARY_FILES)


def choose_frame(frames: Iterable[Frame], prefixes: Sequence[str] = ()) -> tuple[Frame, str] | None:
    """The application's frame of a stack, whose frames are given from the top, and the library's function that it has
    called, such as `psycopg2 execute`, empty if it has called none, or one in C; None for an empty stack. No more
    frames are asked for than it takes.

    The rule: the first frame from the top, which is the function called last, that is of no library. A library's file
    is in `site-packages` or `dist-packages`, or in CPython's own folder (`lib/python3.11`), or no file at all (`<frozen
    ...>`, `<string>`). With a list of prefixes, the application's frames are those whose file begins with one of them,
    and no others: for an application that is installed like a library. In a stack without a frame of the application's,
    the frame at the top is chosen.
    """
    top: Frame | None = None
    above: Frame | None = None
    for frame in frames:
        if is_application(frame.code.file, prefixes):
            return frame, _describe(above) if above else ""
        top, above = top or frame, frame
    return (top, "") if top else None


def is_application(file: str, prefixes: Sequence[str] = ()) -> bool:
    return file.startswith(tuple(prefixes)) if prefixes else not _LIBRARY.match(file)


def _describe(frame: Frame) -> str:
    package = _PACKAGES.match(frame.code.file)
    path = frame.code.file.removesuffix(".py").removesuffix("/__init__")
    return f"{package[1] if package else path.rpartition('/')[2]} {frame.code.function}"


MOST_SECONDS = 0.1
"""How long one look may take. Threads that are left are not looked at: their order is random."""

_TRIES = 3
"""How often a stack is read that is torn, and a thread is looked at that goes on meanwhile."""

_MOST_WORKERS = 1024

_CONTENDED_SECONDS = 10.0
"""For so long a function counts as one in which threads wait for a lock."""

_MOST_CONTENDED = 20
"""Of such functions of a worker."""


class _Sight(NamedTuple):
    """A thread, what it waits for, and where it is: see `CodeSight`."""

    seen: SeenThread
    line: Line | None
    inside: Line | None


class _Worker(Struct):
    """The stacks of one worker process. ids: of its threads, as they know them, by those that they have here.
    contended: the functions in which threads wait for a lock, by the first two fields of their code, and until when
    they count as such."""

    reader: StackReader
    ids: Mapping[int, int]
    contended: dict[tuple[str, str], float] = field(default_factory=dict)


class CodeLooks:
    """Looks at one server again and again, in the child process. prefixes: those of the application's files
    (`application`)."""

    def __init__(self, prefixes: Sequence[str] = ()) -> None:
        self._prefixes = prefixes
        self._chance = random.Random()  # noqa: S311 - the order of threads, no secret
        self._threads = WorkerThreads(WaitSetting(), self._chance)
        self._decisions = Decisions(Peers())
        self._delays = RunDelays()
        self._runtimes: dict[Generation, Runtime] = {}
        self._workers: dict[int, _Worker] = {}
        self._never: str | None = None  # why the code of these workers cannot be read
        self._of: Collection[int] = ()

    def look(self, snapshot: Snapshot, facts: HostFacts) -> CodeLook:
        """Look at all request threads once. facts: about the processes of this document. Never raises because of what
        it reads."""
        began = time.thread_time()
        if off := facts.off or explain_doubt(snapshot, (facts.setup or UNKNOWN).concurrency_kind):
            return CodeLook(off=off)
        local = {worker.pid: pid for worker in snapshot.workers if worker.pid and (pid := facts.local_pid(worker.pid))}
        if self._never and not local.keys().isdisjoint(self._of):
            return CodeLook(off=self._never)
        try:
            sights, changed = self._look_at_all(snapshot, facts, local)
        except NoRuntimeError as error:
            self._never, self._of = str(error), frozenset(local)  # until a reload has replaced all of them
            return CodeLook(off=self._never)
        except HiddenError as error:
            return CodeLook(off=str(error))
        except RefusedToReadError:
            return CodeLook(off=_REFUSED)
        busy = tuple(self._leave_out_idle(snapshot, facts.master_pid or 0, sights))
        self._note_contended(busy, {seen.by.worker.worker_id: seen.by.pid for seen, *_ in sights})
        return CodeLook(None, busy, changed, time.thread_time() - began)

    def _look_at_all(self, snapshot: Snapshot, facts: HostFacts, local: Mapping[int, int]) -> tuple[list[_Sight], int]:
        """The busy threads of all workers, and how many looks were dropped. Raises HiddenError, RefusedToReadError or
        NoRuntimeError."""
        end = time.monotonic() + MOST_SECONDS
        for pid in self._threads.forget_ended(local.values()):
            self._workers.pop(pid, None)
        options = (facts.setup or UNKNOWN).options
        sights: list[_Sight] = []
        changed = 0
        workers = [worker for worker in snapshot.workers if worker.pid in local][:_MOST_WORKERS]
        for worker in self._chance.sample(workers, len(workers)):
            if time.monotonic() > end:
                break
            process = facts.processes.get(worker.pid or 0)
            at = self._threads.find(worker, local[worker.pid or 0], process.start_time if process else None, options)
            if at is None:
                continue
            looks = list(self._look_at_worker(at, end))
            changed += looks.count(None)
            sights += filter(None, looks)
        return sights, changed

    def _look_at_worker(self, at: LookedAt, end: float) -> Iterator[_Sight | None]:
        """The busy threads of a worker; None for a look that is dropped."""
        states: dict[int, int] = {}
        for thread in self._chance.sample(at.threads.threads, len(at.threads.threads)):
            for _ in range(_TRIES):
                before = self._threads.read_call(at, thread)
                known = at.lasting.get(before)
                if not before or (known and known.result == "idle"):
                    break
                if time.monotonic() > end:
                    return
                place: tuple[Line | None, Line | None] = None, None
                with suppress(TornError, OSError, ValueError):
                    states = states or self._find_states(at.pid)
                    place = self._read_place(at.pid, thread, states)
                if self._threads.read_call(at, thread) == before:
                    wait = self._threads.classify(at, thread, before)
                    (seen,) = self._threads.complete([SeenThread(at, thread, wait)])
                    yield _Sight(seen, *place)
                    break
            else:
                yield None

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
            worker.ids = list_own_ids(pid)  # a thread has begun, or has no Python
            states = worker.reader.find_threads(worker.ids)
        return {worker.ids[own]: state for own, state in states.items()}

    def _read_place(self, pid: int, thread: int, states: Mapping[int, int]) -> tuple[Line | None, Line | None]:
        """Where a thread is: `CodeSight.line` and `inside`. Raises RefusedToReadError, or TornError if that cannot be
        read."""
        state = states.get(thread)
        if state is None:
            return None, None
        worker = self._workers[pid]
        reader = worker.reader
        for _ in range(_TRIES):
            with suppress(TornError):
                frames = reader.walk(state)
                choice = choose_frame(frames, self._prefixes)
                if choice is None:
                    return OUTSIDE, None
                frame, callee = choice
                line = _line_of(reader, frame, callee)
                if not worker.contended:
                    return line, None
                around = (each for each in chain((frame,), frames) if each.code[:2] in worker.contended)
                inside = next(around, None)
                return line, inside and _line_of(reader, inside)
        raise TornError

    def _note_contended(self, sights: Collection[CodeSight], pids: Mapping[int, int]) -> None:
        """Record in which functions threads wait for a lock. pids: of the workers, by id."""
        now = time.monotonic()
        for worker in self._workers.values():
            for name in [name for name, until in worker.contended.items() if until < now]:
                del worker.contended[name]
        for sight in sights:
            worker_of = self._workers.get(pids.get(sight.worker_id, 0))
            if sight.state == "lock" and sight.line and sight.line != OUTSIDE and worker_of:
                name = sight.line.function, sight.line.file
                if name in worker_of.contended or len(worker_of.contended) < _MOST_CONTENDED:
                    worker_of.contended[name] = now + _CONTENDED_SECONDS

    def _leave_out_idle(self, snapshot: Snapshot, master_pid: int, sights: Collection[_Sight]) -> Iterator[CodeSight]:
        workers = {sight.seen.by.pid: sight.seen.by for sight in sights}.values()
        waits = [sight.seen.wait for sight in sights]
        self._decisions.learn(
            waits,
            lambda: [each for worker in workers for each in worker.sockets],
            lambda: self._threads.look_again(sight.seen for sight in sights),
            elsewhere=find_elsewhere(master_pid),
        )
        certain = 0.0
        for seen, line, inside in sights:
            worker_id, thread = seen.by.worker.worker_id, seen.thread
            for part, decision in self._decisions.decide(seen.wait):
                if decision.result == "idle" or (seen.wait.epoll is not None and line == OUTSIDE):
                    seen.by.note_idle(seen)
                    continue
                if seen.wait.epoll is not None and decision.gap == GAP_SOCKET and line is None:
                    continue  # uWSGI's own, of an idle thread, or the application's
                certain += part if seen.wait.lock is None else 0.0
                if self._threads.is_idle(seen.wait, snapshot):
                    continue
                parts: dict[State, float] = {decision.state: part}
                if decision.result == "running":
                    waiting = self._delays.part_waiting(seen.by.pid, thread)
                    parts = {"cpu_wait": waiting, "cpu": 1 - waiting}
                for state, number in parts.items():
                    if number:
                        yield CodeSight(worker_id, thread, line, state, decision.address, number, inside)
        self._threads.learn([sight.seen for sight in sights], certain, snapshot, are_all=True)
        with suppress(HiddenError):
            self._threads.look_at_strangers(workers)


def _line_of(reader: StackReader, frame: Frame, callee: str = "") -> Line:
    """Raises TornError."""
    return Line(frame.code.function, frame.code.file, reader.find_line(frame), callee)


_REFUSED = (
    "the memory of uWSGI's workers may not be read: allow the system call process_vm_readv (docs/waits.md), and see "
    "which right it takes (docs/waits.md#rights)"
)


@lru_cache(256)
def _looks_at(_server: int, prefixes: tuple[str, ...]) -> CodeLooks:
    """What was learnt of a server by earlier looks."""
    return CodeLooks(prefixes)


def look(server: int, prefixes: tuple[str, ...], snapshot: Snapshot, facts: HostFacts) -> CodeLook:
    """Look at a server, as `CodeLooks.look`; a question for `aside`. server: any number, the same for each look at one
    server, so that what was learnt of it is kept."""
    return _looks_at(server, prefixes).look(snapshot, facts)
