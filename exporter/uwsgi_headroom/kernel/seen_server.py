"""Makes the snapshot of a uWSGI without its stats, from what the kernel shows of its processes.

A worker is a process that waits for requests (`request_sets`); its busy threads are those that neither wait in such a
set nor for the lock in front of it. What only uWSGI counts is None: requests, exceptions, harakiris, respawns.

Which processes are of one uWSGI follows from what no other user can have: they are the process that the operator named,
or one that waits on the socket that the operator named, with its ancestors and its children that were forked from it
and run the same program image (`Generation`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from uwsgi_headroom.errors import Reason, SourceError
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import Asks, NotYetError
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.kernel.proof import read_start_ticks
from uwsgi_headroom.kernel.request_sets import Found, find_sets
from uwsgi_headroom.kernel.waits.memory import Generation, read_generation
from uwsgi_headroom.kernel.waits.thread_wait import Lock
from uwsgi_headroom.kernel.waits.worker_threads import HiddenError, SeenThread, WorkerThreads, list_threads
from uwsgi_headroom.record import Options
from uwsgi_headroom.source.address import Process
from uwsgi_headroom.stats.server import AppSocket, Snapshot, State, Worker

LIST_SECONDS = 1.0
"""How often the processes are listed, and the descriptors of those that have just begun."""

SETTLED_SECONDS = 4.0
"""A process that is this old, and was seen twice alike, has begun all of its threads."""

_AT_ONCE = 16
"""So many processes are asked about at once, a millisecond each."""

_MOST_ANCESTORS = 8

_LEARNT = 3
"""So many more looks must speak for the lock of `thunder-lock` than against it."""

Key = tuple[int, int]
"""A process: its PID, and its start in ticks since boot, which tells processes of one PID apart."""


class _Seen(Struct):
    """What is known of one process. is_settled: whether it has begun all of its threads."""

    found: Found
    is_settled: bool = False


class _Slot(Struct):
    """The place of a worker, which its successor takes. started: epoch seconds."""

    key: Key
    started: float
    found: Found
    runs: bool = True


class SeenServer:
    """Looks at one server again and again. threads: those of its workers, which `WaitSampler` looks at as well."""

    def __init__(
        self, address: Process, threads: WorkerThreads, asks: Asks, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = address
        self._threads, self._asks, self._clock = threads, asks, clock
        self._root: Key | None = None
        self._seen: dict[Key, _Seen] = {}
        self._slots: list[_Slot] = []
        self._listed_at = float("-inf")
        self._accept_locks: Counter[Lock] = Counter()
        self._several = 0  # looks at which several threads waited in sets at once

    def look(self, options: Options) -> Snapshot:
        """The server now. options: its own, as far as they are known. Raises SourceError, or NotYetError if an answer
        of the reader process is not there yet."""
        if self._root is None:
            self._root = self._find_root()
        root = self._root
        if read_start_ticks(root[0]) != root[1]:
            raise _error("not_found", f"process {root[0]} has ended")
        now = self._clock()
        if now - self._listed_at >= LIST_SECONDS:
            self._list(root)
            self._listed_at = now
        busy, thunder = self._count_busy(options)
        names = {name for slot in self._slots for _, name in slot.found.names}
        return Snapshot(
            version="",
            pid=root[0],
            listen_queue=None,
            signal_queue=None,
            workers=tuple(_make_worker(place, slot, busy) for place, slot in enumerate(self._slots, 1)),
            sockets=tuple(AppSocket(name, None, None) for name in sorted(names)),
            locks=None if thunder is None else {"thunder": 0} if thunder else {},
            caches=(),
            spoolers=(),
            crons=(),
            legions=(),
            custom_metrics={},
            source="kernel",
        )

    def _find_root(self) -> Key:
        """The first process of the server: the master, or the worker that started the others."""
        pid = self._address.pid
        with suppress(ValueError):
            generation = _read_generation(pid)
            for _ in range(_MOST_ANCESTORS):
                stat = procfs.read_process_stat(pid)
                if stat is None or stat.parent <= 1 or _read_generation(stat.parent) != generation:
                    break
                pid = stat.parent
        start = read_start_ticks(pid)
        if start < 0:
            raise _error("not_found", f"there is no process {pid}, or /proc hides it")
        return pid, start

    def _list(self, root: Key) -> None:
        """Find the workers. Raises NotYetError or SourceError if nothing is known of them yet."""
        pids = [root[0], *list_children(root[0])]
        generation = _read_generation(root[0])
        keys = [(pid, start) for pid in pids if (start := read_start_ticks(pid)) >= 0]
        keys = [key for key in keys if _read_generation(key[0]) == generation]
        self._seen = {key: self._seen[key] for key in keys if key in self._seen}
        open_keys = [key for key in keys if key not in self._seen or not self._seen[key].is_settled]
        try:
            for place in range(0, len(open_keys), _AT_ONCE):
                some = open_keys[place : place + _AT_ONCE]
                for key, found in zip(some, self._asks.ask(find_sets, tuple(pid for pid, _ in some)), strict=True):
                    self._note(key, found)
        except NotYetError:
            if not self._slots:
                raise
        except OSError as error:  # the reader process pauses
            if not self._slots:
                raise _error("timeout", str(error)) from None
        workers = _choose_workers(root, [(key, self._seen[key].found) for key in keys if key in self._seen])
        self._fill_slots(workers)
        if not self._slots:
            whys = [each.found.why for each in self._seen.values() if each.found.why]
            raise _error("permission" if whys else "not_uwsgi", whys[0] if whys else _NO_WORKER.format(root[0]))

    def _note(self, key: Key, found: Found) -> None:
        before = self._seen.get(key)
        started = procfs.read_start(key[0])
        is_old = started is not None and time.time() - started >= SETTLED_SECONDS
        is_same = before is not None and before.found.sets == found.sets
        self._seen[key] = _Seen(found, is_settled=is_old and (is_same or not found.sets))

    def _fill_slots(self, workers: Sequence[tuple[Key, Found]]) -> None:
        """Keep each worker in its slot, and put new ones into the slots of those that have ended."""
        living = dict(workers)
        for slot in self._slots:
            slot.runs = slot.key in living
            if slot.runs:
                slot.found = living.pop(slot.key)
        free = [slot for slot in self._slots if not slot.runs]
        for key, found in sorted(living.items(), key=lambda item: (item[0][1], item[0][0])):
            started = procfs.read_start(key[0]) or 0.0
            if free:
                slot = free.pop(0)
                slot.key, slot.started, slot.found, slot.runs = key, started, found, True
            else:
                self._slots.append(_Slot(key, started, found))

    def _count_busy(self, options: Options) -> tuple[dict[Key, int], bool | None]:
        """The busy threads of each worker where they are known, and whether `thunder-lock` is on."""
        looked: list[tuple[_Slot, list[SeenThread]]] = []
        try:
            for slot in self._slots:
                seen = self._look_at(slot, options) if slot.runs else None
                if seen is not None:
                    looked.append((slot, seen))
            every = self._threads.complete([each for _, seen in looked for each in seen])
        except HiddenError:
            return {}, options.thunder_lock
        for each in every:
            each.by.fresh[each.thread] = each
            if each.wait.epoll is not None and each.wait.result is None:
                each.by.threads.leave_out(each.thread, each.wait.epoll, each.by.process.epolls.idle)
        in_sets = sum(each.wait.result == "idle" and each.wait.epoll is not None for each in every)
        in_front = sum(each.wait.result == "idle" and each.wait.epoll is None for each in every)
        waiting = Counter([each.wait.lock for each in every if each.wait.lock is not None])
        thunder = self._learn_lock(options, in_sets, in_front, waiting)
        idle = Counter(each.by.process.pid for each in every if self._is_idle(each, thunder))
        if thunder is None and waiting:
            return {}, None
        return {slot.key: max(0, len(slot.found.sets) - idle[slot.key[0]]) for slot, _ in looked}, thunder

    def _look_at(self, slot: _Slot, options: Options) -> list[SeenThread] | None:
        """What each thread of a worker waits for; None if that is not known yet. Raises HiddenError."""
        pid, worker = slot.key[0], _make_worker(1, slot, {})
        at = self._threads.find(worker, pid, slot.started, options)
        if at is None or not at.process.memory.known:
            return None
        at.process.epolls.idle.update(slot.found.sets)
        at.fresh.clear()
        return [each for thread in list_threads(pid) for each in self._threads.look(at, thread)]

    def _is_idle(self, seen: SeenThread, thunder: bool | None) -> bool:
        lock = seen.wait.lock
        return seen.wait.result == "idle" or bool(thunder and lock and self._accept_locks[lock] >= _LEARNT)

    def _learn_lock(self, options: Options, in_sets: int, in_front: int, waiting: Counter[Lock]) -> bool | None:
        """Learn which lock is that of `thunder-lock`: it lets one thread of all workers into a set."""
        self._several += in_sets > 1
        if in_sets == 1 and not in_front and len(waiting) == 1:
            self._accept_locks.update(waiting)
        if options.thunder_lock is not None or options.complete:
            return bool(options.thunder_lock)
        if in_front or self._several >= _LEARNT:
            return False
        return True if max(self._accept_locks.values(), default=0) >= _LEARNT else None


def _choose_workers(root: Key, processes: Sequence[tuple[Key, Found]]) -> list[tuple[Key, Found]]:
    """Those of the processes of one uWSGI that are workers, the oldest first.

    In the sets of a master's workers is the socket of uWSGI's signals, which the master holds as well. A process beside
    them that waits on another socket is a router. Without a master, the first process is a worker, and the others wait
    on the same sockets.
    """
    first = dict(processes).get(root) or Found()
    waiting = [(key, found) for key, found in processes if found.sets]
    others = [(key, found) for key, found in waiting if key != root]
    of_master = [(key, found) for key, found in others if found.others & first.held]
    if not of_master:
        is_worker = first.sets and not _holds_pair(first)
        of_master = [(key, found) for key, found in waiting if is_worker and found.waits & first.waits]
    chosen: dict[Key, Found] = {}
    for key, found in sorted(of_master, key=lambda each: each[0][1]):
        # A process that was forked from a worker has its sets, but not its threads.
        if not found.others or all(found.others != other.others for other in chosen.values()):
            chosen[key] = found
    return list(chosen.items())


def _holds_pair(found: Found) -> bool:
    """Whether a set holds one of two connected sockets that the process made, as the set of a master does."""
    return any({inode - 1, inode + 1} & found.held for inode in found.others & found.held - found.pipes)


def _make_worker(place: int, slot: _Slot, busy: dict[Key, int]) -> Worker:
    number = busy.get(slot.key) if slot.runs else 0
    state: State = "gone" if not slot.runs else "busy" if number else "idle"
    return Worker(
        worker_id=place,
        pid=slot.key[0] if slot.runs else None,
        state=state,
        accepting=slot.runs,
        threads=len(slot.found.sets),
        busy_threads=number,
        requests=None,
        requests_since_spawn=None,
        static_requests=None,
        running_time=None,
        exceptions=None,
        harakiris=None,
        respawns=None,
        signals=None,
        transmitted_bytes=None,
        resident_bytes=None,
        last_spawn=int(slot.started) or None,
        serving=dict.fromkeys(range(number or 0)),
        thread_requests=(),
        apps=(),
    )


_NO_WORKER = "process {} is no uWSGI with workers: none of its processes waits for requests as uWSGI's do"


def _error(reason: Reason, message: str) -> SourceError:
    return SourceError(reason, message)


def _read_generation(pid: int) -> Generation | None:
    """Which program image a process runs; None if that is hidden, or if it has ended."""
    try:
        return read_generation(pid)
    except (OSError, ValueError):
        return None
