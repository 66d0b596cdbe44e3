"""Follows the event loops of workers with coroutines: what holds the one thread of each, and for how long.

The thread of a healthy loop waits in `epoll_wait` for all its requests at once, or computes for one for a moment. A
call that is not made for coroutines blocks the thread anywhere else: in `connect`, in `flock`, in a sleep. A call that
only computes shows in a thread that runs in sample after sample, while no request is completed and the thread never
gives up its CPU (`voluntary_ctxt_switches`): a merely busy loop does both again and again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from msgspec import Struct, field

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits.schedules import read_schedule
from uwsgi_headroom.kernel.waits.thread_wait import Decision, Wait, remember
from uwsgi_headroom.record import Blocker, LoopUse
from uwsgi_headroom.stats.server import Worker

COMPUTES_SECONDS = 1.0
"""A thread that uses so many CPU seconds, and makes no progress, is held by one call."""

_LONGEST_SECONDS = 60.0
"""For how long the longest hold is remembered."""

_LOOKS = 20
"""How many looks at the threads beside the loops are remembered."""

_REMEMBERED = 100
"""How many samples of a held loop are remembered: beyond, old ones count for less."""

_NO_HOLD: frozenset[str] = frozenset({"idle", "other", "unknown"})
"""What no call of the application is known to hold: uWSGI's own waits, and what the kernel's facts do not decide."""


class _Loop(Struct):
    """What is known of one loop. looked_at: the monotonic time of the last look. since: that of the last progress: it
    waited for events, or a request was completed. ran: CPU seconds of the thread by then; wakes: how often it was put
    on a CPU; blocked: whether it was seen to be blocked since. longest: the seconds of the longest hold, and when that
    was seen."""

    looked_at: float
    since: float
    ran: float = 0.0
    requests: int | None = None
    switches: int = 0
    wakes: int = 0
    blocked: bool = False
    held: bool = False
    longest: tuple[float, float] = (0.0, float("-inf"))
    holds: Counter[Blocker] = field(default_factory=Counter)


class Loops:
    """The event loops of one server, by the PID of the worker."""

    def __init__(self) -> None:
        self._loops: dict[int, _Loop] = {}

    def __bool__(self) -> bool:
        return bool(self._loops)

    def choose(self, workers: Iterable[Worker], most: int) -> list[Worker]:
        """The workers to look at next, `most` at most: those whose last look is the longest ago."""
        looks = {pid: loop.looked_at for pid, loop in self._loops.items()}
        return sorted(workers, key=lambda worker: looks.get(worker.pid or 0, float("-inf")))[:most]

    def note(self, worker: Worker, wait: Wait, decision: Decision, now: float) -> None:
        """Note what the thread of a worker was seen to do."""
        pid = worker.pid or 0
        loop = self._loops.setdefault(pid, _Loop(now, now))
        loop.looked_at = now
        goes_on, loop.requests = worker.requests != loop.requests, worker.requests
        runs = decision.result == "running"
        if runs:
            words = procfs.read_status("voluntary_ctxt_switches", f"/proc/{pid}/task/{pid}/status")
            switches = int(words[0]) if words else 0
            goes_on |= switches != loop.switches and not loop.blocked
            loop.switches = switches
        is_free = decision.result in _NO_HOLD or bool(wait.gap) or wait.epoll is not None
        nanoseconds, _, wakes = read_schedule(pid, pid)
        ran = nanoseconds / 1e9
        goes_on |= worker.requests is None and not runs and wakes != loop.wakes  # of requests that nobody counts
        loop.wakes = wakes
        if goes_on or is_free:
            loop.since, loop.ran, loop.blocked = now, ran, False
        loop.held = ran - loop.ran >= COMPUTES_SECONDS if runs else not is_free
        loop.blocked |= loop.held and not runs
        if loop.held and decision.result != "idle":
            if now - loop.since >= loop.longest[0] or now - loop.longest[1] > _LONGEST_SECONDS:
                loop.longest = now - loop.since, now
            how: Literal["", "connection", "file"] = (
                "connection" if decision.connecting else "file" if wait.file else ""
            )
            remember(loop.holds, Blocker(decision.state, decision.address, how), _REMEMBERED)

    def rest(self, active: Collection[int], now: float) -> None:
        """Note that the workers other than these, by PID, serve no request."""
        for pid, loop in self._loops.items():
            if pid not in active:
                loop.looked_at = loop.since = now
                loop.blocked = loop.held = False

    def forget_ended(self, pids: Collection[int]) -> None:
        """Forget the workers that are not among these living ones."""
        for pid in [pid for pid in self._loops if pid not in pids]:
            del self._loops[pid]

    def describe(self, workers: Iterable[Worker]) -> dict[int, LoopUse]:
        """The loops that are held now, or were before, by worker id."""
        uses = {}
        for worker in workers:
            loop = self._loops.get(worker.pid or 0)
            if loop and loop.holds:
                (hold, _), *_ = loop.holds.most_common(1)
                seconds, seen_at = loop.longest
                is_recent = loop.looked_at - seen_at <= _LONGEST_SECONDS
                uses[worker.worker_id] = LoopUse(hold, loop.held, seconds if is_recent else 0.0)
        return uses


class Lookups:
    """How many of the threads beside the event loops of one server look up names, as those of gevent's pool do."""

    def __init__(self) -> None:
        self._looks = deque[tuple[int, int]](maxlen=_LOOKS)

    def note(self, results: Sequence[str]) -> None:
        """Add what the threads beside one loop were seen to wait for."""
        self._looks.append((results.count("dns"), len(results)))

    @property
    def mean(self) -> tuple[float, float]:
        """How many do, and how many there are, on average; 0 before the first look."""
        number = len(self._looks) or 1
        return sum(each for each, _ in self._looks) / number, sum(every for _, every in self._looks) / number
