"""Makes the snapshot of a uWSGI without its stats, from what the kernel shows of its processes.

A worker is a process that waits for requests (`request_sets`); its busy threads are those that neither wait in such a
set nor for the lock in front of it. What only uWSGI counts is None: requests, exceptions, harakiris, respawns.

Which processes are of one uWSGI follows from what no other user can have: they are the process that the operator named,
or one that waits on the socket named, with its ancestors and its children that were forked from it and run the same
program image (`Generation`). The program is uWSGI's if it has uWSGI's global variable.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.errors import NotStartedError, SourceError
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import Asks, NotYetError
from uwsgi_headroom.kernel.namespaces import shares_network_namespace
from uwsgi_headroom.kernel.processes import MOST_CHILDREN, list_children
from uwsgi_headroom.kernel.proof import SEARCH_SECONDS, read_start_ticks
from uwsgi_headroom.kernel.request_sets import (
    DENIED,
    RequestSets,
    find_blocked,
    find_listening,
    find_sets,
    list_accepted,
)
from uwsgi_headroom.kernel.waits.memory import Generation, read_generation, read_memory_map
from uwsgi_headroom.kernel.waits.thread_wait import PAUSED, Lock
from uwsgi_headroom.kernel.waits.worker_threads import HiddenError, SeenThread, WorkerThreads, list_threads
from uwsgi_headroom.record import Options, Setup
from uwsgi_headroom.source import ProcessOfApp, SocketOfApp
from uwsgi_headroom.stats.server import AppSocket, Snapshot, State, Worker
from uwsgi_headroom.terminal_text import escape_text

T = TypeVar("T")
Clock = Callable[[], float]
Place = ProcessOfApp | SocketOfApp

LIST_SECONDS = 1.0
"""How often the processes are listed, and the descriptors of those that have just begun."""

SETTLED_SECONDS = 4.0
"""A process that is this old, and was seen twice alike, has begun all of its threads."""

AWAY_SECONDS = 10.0
"""A worker that was not replaced for so long is in cheaper mode's reserve, if options do not say otherwise."""

_AT_ONCE = 8
"""So many processes are asked about at once, a millisecond each, and 40 ms with as many descriptors as are read."""

MOST_THREADS = 4096
"""Of all workers, 10 us each: the exporter does nothing else meanwhile."""

MOST_BLOCKED = 256
"""So many busy threads are asked since when they have not run, once a second, 20 us each."""

_MOST_ANCESTORS, _CLIENTS_SECONDS = 8, 60.0

_LEARNT = 3
"""So many looks must show the lock of `thunder-lock`, or that there is none."""

_MOST_DOUBTS = 20
"""After so many looks in a row that do not show it, the busy threads are unknown."""


class _Key(NamedTuple):
    """A process. start: in ticks since boot, which tells processes of one PID apart."""

    pid: int
    start: int

    @property
    def runs(self) -> bool:
        return read_start_ticks(self.pid) == self.start


class _Slot(Struct):
    """The place of a worker, which its successor takes. started: epoch seconds; away_since: the monotonic time since
    which it has no process, None while it has one; accepted: since when its connections are known, by inode; None if
    they are hidden; accepted_at: when they were listed last; blocked: since when busy threads have not run, the longest
    first."""

    key: _Key
    started: float
    found: RequestSets
    away_since: float | None = None
    accepted: dict[int, float] | None = None
    accepted_at: float = 0.0
    blocked: list[float] = []
    spawns: int = 1
    is_paused: bool = False
    starting: tuple[int, float] | None = None
    """The PID of its next process, which does not wait for requests yet, and when it began, in epoch seconds."""


class SeenServer:
    """Looks at one server again and again. threads: those of its workers, which `WaitSampler` looks at as well;
    reads: whether it may be read what they wait for."""

    def __init__(self, address: Place, threads: WorkerThreads, asks: Asks, clock: Clock, *, reads: bool) -> None:
        self._address = address
        self._threads, self._asks, self._clock, self._reads_threads = threads, asks, clock, reads
        self._last: Snapshot | None = None
        self._root: _Key | None = None
        self._generation: Generation | None = None
        self._generations = 0
        self._seen: dict[_Key, tuple[RequestSets, bool]] = {}  # with whether a process has begun all of its threads
        self._slots: list[_Slot] = []
        self._listed_at = float("-inf")
        self._is_uwsgi = False
        self._accept_locks: Counter[Lock] = Counter()
        self._several = 0  # looks at which several threads waited in sets at once
        self._hung: list[tuple[int, int]] = []  # threads that are not idle, with their process first
        self.clients = 0, 0  # as of `HostFacts`
        self._others = set[_Key]()  # mules, spoolers and the like
        self._clients: dict[int, tuple[float, bool]] = {}  # by inode, with when it was seen last
        self._doubts = 0  # looks in a row that do not show which threads are idle
        self._unsearched: list[int] | None = None  # PIDs
        self._named: list[int] = []  # PIDs of those that hold the socket, or hide whether they do
        self._holders: list[int] = []
        self._inodes: frozenset[int] = frozenset()

    def look(self, setup: Setup) -> Snapshot:
        """The server now. setup: its own, as far as it is known. Raises SourceError, or NotYetError: ask again soon."""
        options = setup.options
        if self._root and not self._root.runs:
            if isinstance(self._address, ProcessOfApp):  # another process may have its PID by now
                raise SourceError("not_found", f"process {self._root.pid} has ended")
            self._root, self._slots, self._listed_at, self._is_uwsgi = None, [], float("-inf"), False
        root = self._root = self._root or self._find_root()
        if options.emperor and not options.names_application:  # what it waits on are its stats
            raise SourceError("not_uwsgi", _NO_WORKERS.format(root.pid))
        now = self._clock()
        if now - self._listed_at >= LIST_SECONDS:
            self._list(root, now)
            self._listed_at = now
            self._list_accepted(now)
        busy, thunder = self._count_busy(options) if self._slots else ({}, None)
        if now == self._listed_at:
            self._list_blocked(busy, now)
        names = {escape_text(name) for slot in self._slots for _, name in slot.found.names}  # no JSON has any byte
        workers = [
            _make_worker(place, slot, busy.get(slot.key), self._find_state(slot, options, now), now)
            for place, slot in enumerate(self._slots, 1)
        ]
        if setup.concurrency_kind == "async" or any(slot.found.loops for slot in self._slots):
            cores = max(options.gevent or 0, options.async_cores or 0, options.asyncio or 0)
            pairs = zip(workers, self._slots, strict=True)
            workers = [_count_cores(worker, slot, cores or None) for worker, slot in pairs]
        threads = options.gevent or options.async_cores or options.threads or (1 if options.complete else None)
        most = min(options.processes or 0, MOST_CHILDREN)  # its file may be edited at any time
        first, more = replace(_RESERVE, threads=threads), range(len(workers), most or 1)
        if workers:
            first, more = workers[0], range(len(workers), most * bool(options.cheaper))
        reserve = replace(first, pid=None, state="never_spawned", accepting=False, busy_threads=0, serving={})
        snapshot = Snapshot(
            pid=root.pid,
            workers=(*workers, *(replace(reserve, worker_id=place + 1, last_spawn=None) for place in more)),
            sockets=tuple([AppSocket(name, None, None) for name in sorted(names)]),
            locks=None if thunder is None else {"thunder": 0} if thunder else {},
            generation=self._generations,
            source="kernel",
        )
        if snapshot != self._last:  # others skip what has not changed
            self._last = snapshot
        return self._last or snapshot

    def find_master(self) -> int | None:
        """The master, if it waits at the socket, and no worker does: so it is uWSGI's own, such as that of its stats.
        Raises SourceError or NotYetError."""
        root = self._root = self._root or self._find_root()
        self._list(root, self._clock())
        master, _ = self._seen.get(root) or (RequestSets(), False)
        is_own = master.waits & self._inodes and not any(slot.found.waits & self._inodes for slot in self._slots)
        return root.pid if is_own and self._slots else None

    def _find_root(self) -> _Key:
        """The first process: the master, or the worker that started the others. Raises SourceError or NotYetError."""
        pid = self._address.pid if isinstance(self._address, ProcessOfApp) else self._find_waiting(self._address)
        generation = _read_generation(pid)
        for _ in range(_MOST_ANCESTORS * (generation is not None)):
            stat = procfs.read_process_stat(pid)
            if stat is None or stat.parent <= 1 or _read_generation(stat.parent) != generation:
                break
            pid = stat.parent
        start = read_start_ticks(pid)
        if start < 0:
            raise SourceError("not_found", f"there is no process {pid}, or /proc hides it")
        return _Key(pid, start)

    def _find_waiting(self, address: SocketOfApp) -> int:
        """A process named like uWSGI's that waits on this socket. All processes of the machine are passed over, some
        at a time. Raises SourceError or NotYetError."""
        if self._unsearched is None:
            self._inodes = self._ask(find_listening, address.place)
            self._unsearched = [*procfs.list_processes()][::-1] if self._inodes else []
            self._named, self._holders = [], []
        end = time.monotonic() + SEARCH_SECONDS
        while self._unsearched:
            if time.monotonic() > end:
                raise NotYetError("the processes of this machine are looked through")
            if _is_named_like_uwsgi(pid := self._unsearched.pop()):
                held = procfs.read_socket_inodes(pid)
                self._named += [pid] * bool(held is None or held & self._inodes)
                self._holders += [pid] * bool(held and held & self._inodes)
        while self._named:
            some = self._named[:_AT_ONCE]
            found = self._ask(find_sets, tuple(some))
            del self._named[:_AT_ONCE]
            if waiting := [pid for pid, each in zip(some, found, strict=True) if each.waits & self._inodes]:
                self._unsearched = None
                return waiting[0]
        self._unsearched = None
        if not self._inodes:
            raise _explain_nobody(str(address.place))
        for pid in reversed(self._holders):  # the oldest first: workers may have ended since
            if self._inodes & (procfs.read_socket_inodes(pid) or set()):
                raise SourceError("refused", _NONE_WAITS.format(pid))
        raise SourceError("not_uwsgi", f"no uWSGI that this user may look at waits for requests at {address.place}")

    def _ask(self, question: Callable[..., T], *arguments: Hashable) -> T:
        """The answer of the reader process. Raises NotYetError, or SourceError if it is asked nothing for a while."""
        try:
            return self._asks.ask(question, *arguments)
        except NotYetError:
            raise
        except OSError as error:
            raise SourceError("timeout", str(error)) from None

    def _list(self, root: _Key, now: float) -> None:
        """Find the workers. Raises NotYetError or SourceError if nothing is known of them yet."""
        generation = _read_generation(root.pid)
        if generation is None and root.runs:
            raise SourceError("permission", DENIED.format(root.pid))
        keys = [_Key(pid, read_start_ticks(pid)) for pid in (root.pid, *list_children(root.pid))]
        keys = [key for key in keys if key.start >= 0 and _read_generation(key.pid) == generation]
        self._seen = {key: self._seen[key] for key in keys if key in self._seen}
        if generation != self._generation:
            self._generation, self._generations, self._seen = generation, self._generations + 1, {}
            self._accept_locks.clear()
            for slot in self._slots:
                slot.spawns = 0
        unsettled = [key for key in keys if key not in self._seen or not self._seen[key][1]]
        try:
            for place in range(0, len(unsettled), _AT_ONCE):
                some = unsettled[place : place + _AT_ONCE]
                for key, found in zip(some, self._ask(find_sets, tuple(key.pid for key in some)), strict=True):
                    self._note(key, found)
        except (NotYetError, SourceError):
            if not self._slots:
                raise
        seen = {key: self._seen[key][0] for key in keys if key in self._seen}
        self._fill_slots(_choose_workers(root, [*seen.items()]), now)
        self._find_starting([key for key, found in seen.items() if key != root and not found.sets])
        if not self._slots:
            self._explain_no_worker(root, generation, seen)

    def _explain_no_worker(self, root: _Key, generation: Generation | None, seen: Mapping[_Key, RequestSets]) -> None:
        """Raises SourceError or NotYetError, unless the server is `cheap`: then its master waits for requests itself,
        and not for readers of its stats alone."""
        for found in seen.values():
            if found.why:
                raise SourceError("permission", found.why)
        with suppress(SourceError):
            self._is_uwsgi = any(region == "uwsgi" for *_, region in self._ask(read_memory_map, root.pid).known)
        if not self._is_uwsgi:
            raise SourceError("not_uwsgi", _NO_WORKER.format(root.pid))
        master, waits = seen.get(root) or RequestSets(), frozenset[int]().union(*(each.waits for each in seen.values()))
        if master.sets and _holds_pair(master) and master.listens <= waits:
            return
        is_emperor = any(_read_generation(pid) not in (None, generation) for pid in list_children(root.pid))
        if is_emperor or any(found.sets for key, found in seen.items() if key != root):
            raise SourceError("not_uwsgi", _NO_WORKERS.format(root.pid))
        raise SourceError("refused", _NONE_WAITS.format(root.pid))

    def _list_accepted(self, now: float) -> None:
        """List the connections that the workers have accepted. They are requests, but for those that are kept open."""
        slots = [slot for slot in self._slots if slot.away_since is None]
        names = tuple(sorted({name for slot in slots for _, name in slot.found.names}))
        try:
            for place in range(0, len(slots), _AT_ONCE):
                some = slots[place : place + _AT_ONCE]
                ages = () if all(slot.accepted_at for slot in some) else ("ages",)
                answer = self._ask(list_accepted, tuple(slot.key.pid for slot in some), names, *ages)
                for slot, inodes in zip(some, answer, strict=True):
                    since = slot.accepted or {}
                    slot.accepted = (
                        None
                        if inodes is None
                        else {
                            inode: since.get(inode, now - age * (age >= LIST_SECONDS) * (not slot.accepted_at))
                            for inode, (age, _) in inodes.items()
                        }
                    )
                    slot.accepted_at = now
                    self._clients |= {inode: (now, left) for inode, (_, left) in (inodes or {}).items()}
        except NotYetError:
            pass  # those of the last second
        except SourceError:
            for slot in slots:
                slot.accepted = None
        self._clients = {inode: each for inode, each in self._clients.items() if now - each[0] < _CLIENTS_SECONDS}
        self.clients = len(self._clients), sum(left for _, left in self._clients.values())

    def _list_blocked(self, busy: Mapping[_Key, int], now: float) -> None:
        """List since when busy threads have not run: so long their requests have lasted at least. Of a worker with
        more of them than busy ones, the others are the application's own, which may be those that wait longest."""
        found: dict[int, list[float]] = {}
        with suppress(NotYetError, SourceError):
            if 0 < len(self._hung) <= MOST_BLOCKED:
                seconds = self._ask(find_blocked, tuple(self._hung))
                for (pid, _), each in zip(self._hung, seconds, strict=True):
                    found.setdefault(pid, []).append(each)
        for slot in self._slots:
            longest = sorted(found.get(slot.key.pid, ()), reverse=True)
            others = max(0, len(longest) - busy.get(slot.key, 0))
            slot.blocked = [now - each for each in longest[others:] if each]

    def _note(self, key: _Key, found: RequestSets) -> None:
        before, started = self._seen.get(key), procfs.read_start(key.pid)
        is_old = started is not None and time.time() - started >= SETTLED_SECONDS
        self._seen[key] = found, is_old and before is not None and before[0].sets == found.sets

    def _fill_slots(self, workers: Sequence[tuple[_Key, RequestSets]], now: float) -> None:
        """Keep each worker in its slot, and put new ones into the slots of those that have ended."""
        living = dict(workers)
        for slot in self._slots:
            if slot.key in living:
                slot.found = living.pop(slot.key)
            elif slot.away_since is None:
                slot.away_since = now
        free = [slot for slot in self._slots if slot.away_since is not None]
        for key, found in sorted(living.items(), key=lambda item: (item[0].start, item[0].pid)):
            started = procfs.read_start(key.pid)
            if started is None:
                continue
            if free:
                slot = free.pop(0)
                slot.spawns += 1
                slot.key, slot.started, slot.found, slot.away_since, slot.accepted = key, started, found, None, None
                slot.starting = None
            else:
                self._slots.append(_Slot(key, started, found))

    def _find_starting(self, silent: Sequence[_Key]) -> None:
        """Find the next processes of workers: children that do not wait for requests, and were not there before these
        ended. Of more than these, some are mules or spoolers, which a full reload begins as well: all are unknown."""
        free = [slot for slot in self._slots if slot.away_since is not None]
        if not free:
            self._others = {*silent}
        young = sorted({*silent} - self._others, key=lambda key: key.start)
        if len(young) > len(free):
            young = []
        for slot, key in zip_longest(free, young):
            slot.starting = key and (key.pid, procfs.read_start(key.pid) or 0.0)

    def _find_state(self, slot: _Slot, options: Options, now: float) -> State:
        """The state of a worker; without a process, whether it ended or is in cheaper mode's reserve."""
        if slot.away_since is None:
            return ("idle", "pause")[slot.is_paused]
        if slot.starting:
            return "starting"
        scales = options.cheaper or options.cheap or options.idle
        is_long = not options.complete and now - slot.away_since >= AWAY_SECONDS
        return "cheap" if scales or is_long else "gone"

    def _count_busy(self, options: Options) -> tuple[dict[_Key, int], bool | None]:
        """The busy threads of each worker where they are known, and whether `thunder-lock` is on. Raises SourceError if
        the program is none of uWSGI's, and NotYetError."""
        looked: list[tuple[_Slot, list[SeenThread]]] = []
        self._hung = []
        try:
            if not self._reads_threads:
                raise HiddenError("waits are off")
            for slot in self._slots:
                if slot.away_since is None:
                    looked.append((slot, self._look_at(slot, options)))
                if sum(len(seen) for _, seen in looked) > MOST_THREADS:
                    raise SourceError(
                        "too_large", f"it has more than {MOST_THREADS:,} threads, which are too many to look at"
                    )
            every = self._threads.complete([each for _, seen in looked for each in seen])
        except HiddenError:
            self._is_uwsgi = self._is_uwsgi or any(_is_named_like_uwsgi(slot.key.pid) for slot in self._slots)
            if not self._is_uwsgi:
                raise SourceError("permission", DENIED.format(self._slots[0].key.pid)) from None
            slots = [slot for slot in self._slots if slot.accepted is not None]  # each connection has a thread
            busy = {slot.key: min(len(slot.found.sets), len(slot.accepted or ())) for slot in slots}
            return busy, options.thunder_lock
        for each in every:
            each.by.fresh[each.thread] = each
            if each.wait.epoll is not None and len(each.wait.sockets) == 1:
                each.by.threads.leave_out(each.thread)
        waiting = Counter([each.wait.lock for each in every if each.wait.lock is not None])
        thunder = self._learn_lock(options, every, waiting)
        unlearnt = waiting and (thunder is None or (thunder and not self._find_accept_lock()))
        self._doubts = self._doubts + 1 if unlearnt else 0
        if unlearnt and self._doubts <= _MOST_DOUBTS:
            raise NotYetError("it is not known yet which lock idle threads wait for")
        if unlearnt:
            return {}, thunder
        accept_lock = self._find_accept_lock() if thunder else None
        hung = [each for each in every if each.wait.result != "idle" and each.wait is not PAUSED]
        paused = {each.thread for each in every if each.wait is PAUSED}
        for slot, _ in looked:  # its main thread gets the signals
            slot.is_paused = slot.key.pid in paused
        self._hung = [(each.by.pid, each.thread) for each in hung if not accept_lock or each.wait.lock != accept_lock]
        idle = Counter(each.by.pid for each in every)
        idle.subtract(pid for pid, _ in self._hung)
        # A worker that ends has fewer threads than sets.
        threads = {slot.key: min(len(slot.found.sets), len(seen)) for slot, seen in looked}
        return {key: max(0, number - idle[key.pid]) for key, number in threads.items()}, thunder

    def _look_at(self, slot: _Slot, options: Options) -> list[SeenThread]:
        """What each thread of a worker waits for. Raises HiddenError, NotYetError, or SourceError for no uWSGI."""
        pid = slot.key.pid
        at = self._threads.find(_make_worker(1, slot, None, "idle", 0.0), pid, slot.started, options)
        if at is None:
            raise NotYetError("the memory map of a worker is not read yet")
        regions = {region for _, _, region in at.memory.known}
        self._is_uwsgi = self._is_uwsgi or "uwsgi" in regions
        if not self._is_uwsgi and slot.key.runs:
            raise SourceError("not_uwsgi", _NO_WORKER.format(pid))
        at.idle_sets.update(slot.found.sets)
        at.fresh.clear()
        wanted = at.threads.threads if at.threads.all_seen else list_threads(pid)
        return [each for thread in wanted for each in self._threads.look(at, thread)]

    def _learn_lock(self, options: Options, every: Sequence[SeenThread], waiting: Counter[Lock]) -> bool | None:
        """Learn whether `thunder-lock` is on, and which lock it is: it lets one thread of all workers into a set."""
        idle = [each.wait for each in every if each.wait.result == "idle"]
        in_sets = sum(wait.epoll is not None for wait in idle)
        self._several += in_sets > 1
        if in_sets == len(idle) == 1 and len(waiting) == 1:
            self._accept_locks.update(dict.fromkeys(waiting, 1))
        if options.thunder_lock is not None or options.complete:
            return bool(options.thunder_lock)
        if len(idle) > in_sets or self._several >= _LEARNT:
            return False
        return True if self._find_accept_lock() else None

    def _find_accept_lock(self) -> Lock | None:
        """The lock of `thunder-lock`; None while it is not known, or if two fit."""
        likely = [lock for lock, times in self._accept_locks.items() if times >= _LEARNT]
        return likely[0] if len(likely) == 1 else None


def _choose_workers(root: _Key, processes: Sequence[tuple[_Key, RequestSets]]) -> list[tuple[_Key, RequestSets]]:
    """Those of the processes of one uWSGI that are workers, the oldest first.

    In the sets of a master's workers is the socket of uWSGI's signals, which the master holds as well. A process beside
    them that waits on another socket is a router. Without a master, the first process is a worker, and the others wait
    on the same sockets.
    """
    first = dict(processes).get(root) or RequestSets()
    waiting = [(key, found) for key, found in processes if found.sets]
    workers = [(key, found) for key, found in waiting if key != root and (found.others - found.pipes) & first.held]
    if not workers and first.sets and not _holds_pair(first):
        workers = [(key, found) for key, found in waiting if found.waits & first.waits]
    chosen: dict[_Key, RequestSets] = {}
    for key, found in sorted(workers, key=lambda each: each[0].start):
        # A process that was forked from a worker has its sets, but not its threads.
        if not found.others or all(found.others != other.others for other in chosen.values()):
            chosen[key] = found
    return list(chosen.items())


def _holds_pair(found: RequestSets) -> bool:
    """Whether a set holds one of two connected sockets that the process made, as the set of a master does."""
    return any({inode - 1, inode + 1} & found.held for inode in found.others & found.held - found.pipes)


def _make_worker(place: int, slot: _Slot, busy: int | None, state: State, now: float) -> Worker:
    runs = slot.away_since is None
    pid, began = (slot.key.pid, slot.started) if runs else slot.starting or (None, slot.started)
    busy = busy if runs else 0
    # With more connections than busy threads, some are kept open, and which ones is unknown. One that was seen once may
    # have ended since then.
    accepted = sorted([at for at in (slot.accepted or {}).values() if at < slot.accepted_at])
    if len(slot.accepted or ()) > (busy or 0):
        accepted = []
    # Both are the latest that the requests may have begun, the oldest first.
    since = [min(each) for each in zip_longest(accepted, slot.blocked[: busy or 0], fillvalue=now)]
    starts = [int(time.time() - (now - at)) for at in since]
    return Worker(
        worker_id=place,
        pid=pid,
        state="busy" if busy else state,
        accepting=runs and state != "pause",
        threads=len(slot.found.sets),
        busy_threads=busy,
        last_spawn=int(began) or None,
        respawns=slot.spawns,
        serving=dict(zip_longest(range(busy or 0), starts)),
    )


def _count_cores(worker: Worker, slot: _Slot, cores: int | None) -> Worker:
    """A worker with coroutines, of which each serves a connection."""
    busy = len(slot.accepted) if slot.accepted is not None and worker.pid else None
    state: State = "busy" if busy else worker.state
    return replace(worker, state=state, threads=cores, busy_threads=busy, serving=dict.fromkeys(range(busy or 0)))


_RESERVE = Worker(
    worker_id=1,
    pid=None,
    state="never_spawned",
    accepting=False,
    threads=None,
    busy_threads=0,
    last_spawn=None,
    serving={},
)

_NO_WORKER = "process {} is no uWSGI whose workers wait for requests"

_NO_WORKERS = "process {} is a router or an emperor of uWSGI, without workers: look at the uWSGI behind it"

_NONE_WAITS = (
    "process {} is a uWSGI of which no worker waits for requests: they load the application, or end before they have, "
    "or it is an Emperor without a vassal"
)


def _explain_nobody(place: str) -> SourceError:
    """Why nothing listens: uWSGI does not run, or does so in another network namespace, as in a container."""
    why = f"nothing listens at {place} in this network namespace"
    change = "Start uWSGI, or, if it is in a container, check `pid:` with its PID, or run uwsgi-headroom there."
    named = filter(_is_named_like_uwsgi, procfs.list_processes(SEARCH_SECONDS))
    if elsewhere := [pid for pid in named if shares_network_namespace(pid) is False]:
        why += "; a uWSGI runs in another one, as in a container"
        change = f"Check `pid:{min(elsewhere)}`: that uWSGI has a network namespace of its own."
    return NotStartedError("refused", why, change)


def _is_named_like_uwsgi(pid: int) -> bool:
    """Whether a process has a name of uWSGI's; since Python 3.14, that of a worker is `uWSGIWorker1Core0`."""
    with suppress(OSError):
        return procfs.read_name(pid).lower().startswith("uwsgi")
    return False


def _read_generation(pid: int) -> Generation | None:
    """Which program image a process runs; None if that is hidden, or if it has ended."""
    with suppress(OSError, ValueError):
        return read_generation(pid)
    return None
