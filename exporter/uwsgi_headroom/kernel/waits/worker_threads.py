"""Looks at the request threads of a server's workers, one at a time, and keeps what it has learnt about each worker.

`WorkerThreads` looks; `RequestThreads` distinguishes the threads of a worker that serve requests from those that its
application has started, which uWSGI does not list.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import DIRECT, Asks, NotYetError, PausedError
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.waits.descriptors import (
    GONE,
    MOST_FDINFO_BYTES,
    CloserLook,
    PollingThread,
    decode_polled,
    look_closer,
)
from uwsgi_headroom.kernel.waits.locks import Word, WorkerLocks, read_semaphores
from uwsgi_headroom.kernel.waits.memory import (
    Generation,
    MemoryMap,
    RefusedToReadError,
    read_generation,
    read_memory_map,
)
from uwsgi_headroom.kernel.waits.system_calls import parse_system_call, read_system_call
from uwsgi_headroom.kernel.waits.thread_wait import (
    GONE_ON,
    IDLE,
    IdleLocks,
    Process,
    Wait,
    classify,
    decide_polled,
    is_lasting,
)
from uwsgi_headroom.record import Options
from uwsgi_headroom.stats.server import Snapshot, Worker

GRANT = (
    "give the exporter CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, which together are close to root (docs/waits.md#rights)"
)
WHO_MAY_KNOW = f"no permission to see what uWSGI's threads wait for: {GRANT}"
_NO_FILE = "this kernel does not say what threads wait for (no /proc/PID/task/TID/syscall)"
_HIDDEN = "the memory map of uWSGI's workers cannot be read"
_UNREADABLE = b"?"

_DEFAULT_SOCKET_TIMEOUT = 4  # of uWSGI, in seconds

_MAP_SECONDS = 1.0
"""The least time between two memory maps of a server: a worker says that it accepts before its program is ready."""

_REFUSED_SECONDS = 60.0
"""For so long nothing is read after the kernel has refused to read memory."""

_LEARNING_SECONDS, _LEARNT_SECONDS = 2.0, 60.0
"""How often locks are learnt if that takes more than the usual time: until they are known, and then."""

_MOST_LASTING = 256
"""How many lines of the kernel are kept for one process."""

_MOST_STRANGE_WORKERS, _MOST_OTHERS = 2, 8
"""How many workers' other threads are looked at per sample, and how many of one that is idle."""


class HiddenError(Exception):
    """The kernel refuses to say what threads wait for; the message is the reason, for an operator. needs_right: whether
    it would tell another user."""

    def __init__(self, reason: str, *, needs_right: bool = False) -> None:
        super().__init__(reason)
        self.needs_right = needs_right


class WaitSetting(Struct, frozen=True):
    """How waits are sampled. backends: the names of backends by address, as `10.0.0.5:5432`, `*:5432` or a path.
    read_pollfds: whether the array of poll(2) may be read from the workers' memory; read_locks: whether the semaphores
    of locks may be."""

    enabled: bool = True
    backends: Mapping[str, str] = field(default_factory=dict)
    read_pollfds: bool = True
    read_locks: bool = False


class LookedAt(Process, kw_only=True):
    """The process of a worker whose request threads are looked at."""

    worker: Worker
    threads: RequestThreads
    locks: WorkerLocks
    fresh: dict[int, SeenThread] = field(default_factory=dict)
    """What its threads wait for, as `SeenServer` saw it a moment ago: each is used once."""
    lasting: dict[bytes, Wait] = field(default_factory=dict)
    """What threads of the process were seen to wait for in calls that say so by themselves, by the kernel's line. The
    threads of a server wait in a few places of its code."""
    idle_at: dict[int, float] = field(default_factory=dict)
    """When each thread was seen idle last, or was asked for first, in monotonic seconds."""

    def note_idle(self, seen: SeenThread) -> None:
        """Record that a thread of this worker waits for a request."""
        self.threads.note_accepting(seen.thread)
        self.idle_at[seen.thread] = time.monotonic()
        if seen.wait.epoll is not None:
            self.idle_sets.add(seen.wait.epoll)


class SeenThread(Struct, frozen=True):
    """What one thread was seen to wait for."""

    by: LookedAt
    thread: int
    wait: Wait


class WorkerThreads:
    """The request threads of the workers of one server."""

    def __init__(
        self,
        setting: WaitSetting,
        chance: random.Random,
        clock: Callable[[], float] = time.monotonic,
        asks: Asks = DIRECT,
    ) -> None:
        self._setting, self._chance, self._clock, self._asks = setting, chance, clock, asks
        self._known: dict[tuple[int, float | None], LookedAt] = {}
        self._maps: dict[Generation, MemoryMap] = {}
        self._idle_locks = IdleLocks()
        self._sees_locks = False
        self._learn_at = float("-inf")
        self._not_before = self._refused_until = float("-inf")
        self.why_not = ""
        """Why the last closer look was not taken, for an operator; empty if it was."""

    def find(self, worker: Worker, pid: int, start_time: float | None, options: Options) -> LookedAt | None:
        """Find the request threads of a worker, whose process began at `start_time`; None if there is no time yet to
        read its memory map. Raises HiddenError."""
        known = self._known.get((pid, start_time))
        if known is None:
            memory = self._read_memory(pid)
            if memory is None:
                return None
            locks = WorkerLocks(is_read=self._setting.read_locks)
            threads = RequestThreads(pid, worker.threads or 1)
            known = self._known[pid, start_time] = LookedAt(
                pid, memory, None, self._setting.read_pollfds, worker=worker, threads=threads, locks=locks
            )
        timeout = options.socket_timeout
        if timeout is None and options.complete:
            timeout = _DEFAULT_SOCKET_TIMEOUT
        if worker.threads and worker.threads != known.threads.number:  # it was still beginning them
            known.threads = RequestThreads(pid, worker.threads)
        known.worker = worker
        known.begin_sample(timeout)
        if not known.threads.all_found:
            known.threads.list_again()
        return known

    def _read_memory(self, pid: int) -> MemoryMap | None:
        try:
            generation = read_generation(pid)
            memory = self._maps.get(generation)
            if memory is None and self._clock() >= self._not_before:
                memory = self._asks.ask(read_memory_map, pid)
                self._not_before = self._clock() + _MAP_SECONDS
                self._maps.clear()  # of the program before a reload
                self._idle_locks = IdleLocks()
                self._maps[generation] = memory
        except NotYetError:
            return None
        except PausedError as error:
            raise HiddenError(str(error)) from None
        except (FileNotFoundError, ProcessLookupError):
            return _NOTHING_KNOWN  # the worker has just ended
        except PermissionError:
            raise HiddenError(WHO_MAY_KNOW, needs_right=True) from None
        except (OSError, ValueError):
            raise HiddenError(_HIDDEN) from None
        return memory

    def look(self, at: LookedAt, thread: int) -> list[SeenThread]:
        """Look at one thread; nothing if it has ended. Raises HiddenError."""
        if fresh := at.fresh.pop(thread, None):
            return [fresh]
        line = self.read_call(at, thread)
        return [SeenThread(at, thread, self.classify(at, thread, line))] if line else []

    def read_call(self, at: LookedAt, thread: int) -> bytes:
        """The kernel's line about what a thread waits for, for `classify`; empty if it has ended. Raises
        HiddenError."""
        pid = at.pid
        try:
            return read_system_call(pid, thread)
        except PermissionError:
            # Its master may not have noticed its end: its files belong to root by now.
            if procfs.read_state(pid) in (b"Z", b"X", b""):
                return b""
            raise HiddenError(WHO_MAY_KNOW, needs_right=True) from None
        except (FileNotFoundError, ProcessLookupError) as error:
            if isinstance(error, FileNotFoundError) and procfs.read_state(pid, thread):
                raise HiddenError(_NO_FILE) from None
            at.threads.list_again()
            return b""
        except OSError:
            return _UNREADABLE

    def look_again(self, seen: Iterable[SeenThread]) -> list[Wait]:
        """What those of these threads that waited for sockets wait for by now; nothing of one that may not be seen."""
        found: list[SeenThread] = []
        with suppress(HiddenError):
            for each in seen:
                if each.wait.sockets:
                    found += self.look(each.by, each.thread)
        return [each.wait for each in self.complete(found)]

    @property
    def may_not_read(self) -> bool:
        """Whether the workers' memory was to be read, and that was refused."""
        return self._clock() < self._refused_until

    def complete(self, seen: Sequence[SeenThread]) -> list[SeenThread]:
        """Look closer at those threads whose call does not say for what they wait."""
        if not any(each.wait.unread or each.wait.polled for each in seen):
            return list(seen)
        polls = [each for each in seen if each.wait.polled is not None and not self.may_not_read]
        sets = list(dict.fromkeys((each.by.pid, each.wait.epoll or 0) for each in seen if each.wait.unread))
        threads = [(each.by.pid, each.thread, *(each.wait.polled or (0, 0, 0))) for each in polls]
        look = self._look_closer(threads, sets) or CloserLook((), [((), 0)] * len(sets), is_refused=False)
        arrays = dict(zip(map(id, polls), look.arrays, strict=False))
        in_sets = dict(zip(sets, look.sets, strict=True))
        return [self._complete(each, arrays.get(id(each)), in_sets) for each in seen]

    def _look_closer(self, threads: Sequence[PollingThread], sets: Sequence[tuple[int, int]]) -> CloserLook | None:
        if not threads and not sets:
            return None
        self.why_not = ""
        try:
            look = self._asks.ask_now(look_closer, time.monotonic(), tuple(threads), tuple(sets))
        except OSError as error:
            self.why_not = str(error) if isinstance(error, PausedError) else ""
            return None
        if look.is_refused:
            self._refused_until = self._clock() + _REFUSED_SECONDS
        return look

    def _complete(
        self, seen: SeenThread, array: bytes | None, in_sets: Mapping[tuple[int, int], tuple[tuple[int, ...], int]]
    ) -> SeenThread:
        process, wait = seen.by, seen.wait
        if wait.unread:
            sockets, size = in_sets[process.pid, wait.epoll or 0]
            process.has_large_set = process.has_large_set or size >= MOST_FDINFO_BYTES
            return replace(seen, wait=replace(wait, sockets=sockets, unread=False))
        if wait.polled is None:
            return seen
        if array == GONE:
            return replace(seen, wait=GONE_ON)
        polled, timeout = (None, None) if array is None else decode_polled(array, wait.polled[1])
        return replace(seen, wait=decide_polled(process, wait, polled, timeout))

    def read_locks(self, workers: Sequence[LookedAt]) -> dict[int, dict[int, Word]]:
        """What is in the locks that these workers remember, by address, by the PID of the worker; without the workers
        whose memory could not be read."""
        if not self._setting.read_locks or self.may_not_read:
            return {}
        try:
            return self._asks.ask_now(read_semaphores, *((each.pid, each.locks.addresses) for each in workers))
        except RefusedToReadError:
            self._refused_until = self._clock() + _REFUSED_SECONDS
        except OSError:
            pass
        return {}

    def classify(self, at: LookedAt, thread: int, line: bytes) -> Wait:
        """What a thread waits for, by the kernel's line about it; unknown if it is no such line."""
        if known := at.lasting.get(line):
            return known
        try:
            call = parse_system_call(line)
            wait = classify(at, thread, call)
        except (OSError, ValueError):
            return Wait("unknown")
        if wait.joins is not None:
            return at.threads.decide_join(wait.joins) or replace(wait, joins=None)
        if is_lasting(wait, call):
            if len(at.lasting) >= _MOST_LASTING:
                at.lasting.clear()
            at.lasting[line] = wait
        return wait

    def look_at_strangers(self, found: Collection[LookedAt]) -> None:
        """Look at a few threads, of two workers at most, that are not known to serve requests: one that waits for a
        request does. Raises HiddenError."""
        for at in self._chance.sample(list(found), min(_MOST_STRANGE_WORKERS, len(found))):
            for thread in at.threads.strangers(self._chance):
                if any(seen.wait.result == "idle" for seen in self.look(at, thread)):
                    at.threads.note_accepting(thread)

    def count_starved(self, at: LookedAt) -> int:
        """The threads of a worker with one request thread that serve none, and want the interpreter lock while that one
        is idle and none runs, of a few. Raises HiddenError."""
        others = self.list_others(at.pid, _MOST_OTHERS)
        seen = [each.wait.result for thread in (at.pid, *others) for each in self.look(at, thread)]
        return seen.count("interpreter_lock") * (seen[:1] == ["idle"] and "running" not in seen)

    @staticmethod
    def list_others(pid: int, most: int) -> list[int]:
        """Threads of a process beside its first one."""
        return [thread for thread in list_threads(pid) if thread != pid][:most]

    def is_idle(self, wait: Wait, snapshot: Snapshot) -> bool:
        """Whether the threads that wait for this wait's lock are idle."""
        return wait.lock is not None and self._idle_locks.is_idle(wait.lock, bool(snapshot.thunder_lock))

    @property
    def needs_all(self) -> bool:
        """Whether the next sample should look at all threads, to learn which locks idle ones wait for."""
        return self._sees_locks and self._clock() >= self._learn_at

    def learn(self, seen: Collection[SeenThread], in_service: float, snapshot: Snapshot, *, are_all: bool) -> None:
        """Learn from a sample which locks idle threads wait for, if it has all threads. in_service: how many of them
        are in service for certain."""
        waiting = Counter(each.wait.lock for each in seen if each.wait.lock is not None)
        self._sees_locks = bool(waiting)
        if not are_all:
            return
        is_learnt = all(self._idle_locks.is_learnt(lock) for lock in waiting)
        self._learn_at = self._clock() + (_LEARNT_SECONDS if is_learnt else _LEARNING_SECONDS)
        busy = sum(worker.busy_threads or 0 for worker in snapshot.workers)
        self._idle_locks.learn(waiting, in_service, busy, presumed_idle=bool(snapshot.thunder_lock))

    def list_with_locks(self) -> list[LookedAt]:
        """The workers in which a lock of the application is known: mostly none."""
        return [at for at in self._known.values() if at.locks.addresses]

    def forget_ended(self, pids: Collection[int]) -> list[int]:
        """Forget workers that are not among these living ones; returns their pids."""
        ended = [key for key in self._known if key[0] not in pids]
        for key in ended:
            del self._known[key]
        return [pid for pid, _ in ended]


_NOTHING_KNOWN = MemoryMap(True, (), ())


_MOST_LISTED = 1024
_MOST_MASKS = 256
_MOST_SKIPPED = 32
_MOST_STRANGERS = 4
"""How many other threads are looked at per sample, to find out whether they serve requests after all."""

_LEAST_BLOCKED = 48
"""A mask of sigfillset(3) has 61 of 64 signals: the threading library keeps two, and two can never be blocked."""


class RequestThreads:
    """The request threads of one worker process, which has `number` of them for its whole life.

    A thread that was seen waiting to accept a request serves requests: the application's own never do. Until all of
    them were seen, the rest is presumed: uWSGI's thread 0 is the process's main thread, and it starts the others at
    once, one after the other, with all signals blocked (core/loop.c). Threads that the application started before, from
    its main thread, have other signal masks; threads that it starts later have higher ids.
    """

    def __init__(self, pid: int, number: int) -> None:
        self._pid = pid
        self.number = number
        self._seen: set[int] = set()
        self._presumed: list[int] = []
        self._others: list[int] = []
        self._chosen: list[int] | None = None
        self._left_out: set[int] = set()
        self._skip = self._skipped = 0
        self._list()

    def list_again(self) -> None:
        """List the threads of the process again: one of them has ended, or uWSGI was still starting them. If that
        happens again and again, most calls do nothing: up to 32 after each list."""
        if self._skipped < self._skip:
            self._skipped += 1
            return
        self._skip, self._skipped = min(2 * self._skip + 1, _MOST_SKIPPED), 0
        self._list()

    def _list(self) -> None:
        threads = sorted(list_threads(self._pid))
        self._seen.intersection_update(threads)
        self._presumed = threads
        if len(threads) > self.number:
            others = (
                thread
                for thread in threads[:_MOST_MASKS]
                if thread != self._pid and thread not in self._left_out and self._blocks_signals(thread)
            )
            self._presumed = [self._pid, *islice(others, self.number - 1)]
        self._others = sorted({*threads}.difference(self._presumed))
        self._chosen = None

    def _blocks_signals(self, thread: int) -> bool:
        masks = procfs.read_status("SigBlk", f"/proc/{self._pid}/task/{thread}/status") or ()
        return any(bin(int(mask, 16)).count("1") >= _LEAST_BLOCKED for mask in masks)

    @property
    def all_found(self) -> bool:
        """Whether every request thread is found, seen or presumed."""
        return len(self.threads) >= self.number

    @property
    def all_seen(self) -> bool:
        """Whether each request thread was seen waiting for a request."""
        return len(self._seen) >= self.number

    @property
    def threads(self) -> list[int]:
        """The ids of the request threads: those that were seen, then presumed ones up to their number."""
        if self._chosen is None:
            presumed = [thread for thread in self._presumed if thread not in self._seen]
            self._chosen = [*self._seen, *presumed][: max(self.number, 0)]
        return self._chosen

    def strangers(self, chance: random.Random) -> list[int]:
        """A few threads that may serve requests although they are not presumed to; none once all were seen."""
        if self.all_seen or not self._others:
            return []
        others = [thread for thread in self._others if thread not in self._seen]
        return chance.sample(others, min(_MOST_STRANGERS, len(others)))

    def leave_out(self, thread: int) -> None:
        """Record that a thread waits in an epoll set of one socket. The first that do are offload threads, which serve
        no request: uWSGI starts these before the others."""
        if thread in {*self._presumed[1:]} - self._seen:
            spare = sum(map(self._blocks_signals, {*self._others[:_MOST_SKIPPED]} - self._left_out))
            if thread in self._presumed[1 : 1 + spare]:
                self._left_out.add(thread)
                self._list()

    def decide_join(self, joined: int) -> Wait | None:
        """What a thread waits for that waits for the end of the thread with the id `joined` in the process's own
        namespace; None if the process has no such thread. A worker that ends waits like that for its threads, in the
        main thread, until each has served its last request (uWSGI's `wait_for_threads`): that serves none itself. The
        application waits like that for threads of its own."""
        found = list_own_ids(self._pid).get(joined)
        if found is None:
            return None
        return IDLE if found in self.threads else Wait("other")

    def note_accepting(self, thread: int) -> None:
        """Record that a thread waits to accept a request."""
        if thread not in self._seen:
            self._seen.add(thread)
            self._chosen = None


def list_threads(pid: int) -> list[int]:
    """The threads of a process, 1,024 at most; none if it has ended."""
    try:
        with os.scandir(f"/proc/{pid}/task") as folder:
            return [int(entry.name) for entry in islice(folder, _MOST_LISTED)]
    except OSError:
        return []


def list_own_ids(pid: int) -> dict[int, int]:
    """The ids here of a process's threads, by those in its own namespace."""
    threads = list_threads(pid)
    if len(read_pid_numbers(pid)) <= 1:
        return {thread: thread for thread in threads}
    own: dict[int, int] = {}
    for thread in threads:
        if numbers := procfs.read_status("NSpid", f"/proc/{pid}/task/{thread}/status"):
            own[int(numbers[-1])] = thread
    return own
