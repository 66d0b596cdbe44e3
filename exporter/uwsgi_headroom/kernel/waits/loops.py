"""Follows the event loops of workers with coroutines: what holds the one thread of each, and for how long.

The thread of a healthy loop waits in `epoll_wait` for all of its requests at once, or computes for one of them for a
moment. A call that is not made for coroutines blocks the thread anywhere else: in `connect`, in `flock`, in a sleep. A
call that only computes shows in a thread that runs in sample after sample, while no request is completed and the
thread never gives up its CPU (`voluntary_ctxt_switches`): a loop that is merely busy does both again and again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits.thread_wait import Decision, Wait
from uwsgi_headroom.record import LoopHold, LoopUse, State
from uwsgi_headroom.stats.server import Worker

COMPUTES_SECONDS = 1.0
"""A thread that runs for so long, and makes no progress, is held by one call."""

_REMEMBERED = 100
"""How many samples of a held loop are remembered: beyond, old ones count for less."""

_NO_HOLD: frozenset[str] = frozenset({"idle", "other", "unknown"})
"""What no call of the application is known to hold: uWSGI's own waits, and what the kernel's facts do not decide."""

_SWITCHES = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


@dataclass(slots=True)
class _Loop:
    """What is known of one loop. looked_at: the monotonic time of the last look. since: that of the last progress: it
    waited for events, or a request was completed. blocked: whether it was seen to be blocked since."""

    looked_at: float
    since: float
    requests: int | None = None
    switches: int | None = None
    blocked: bool = False
    held: bool = False
    holds: Counter[LoopHold] = field(default_factory=Counter)


class Loops:
    """The event loops of one server, by the pid of the worker."""

    def __init__(self) -> None:
        self._loops: dict[int, _Loop] = {}

    def __bool__(self) -> bool:
        return bool(self._loops)

    def choose(self, workers: Iterable[Worker], most: int) -> list[Worker]:
        """The workers to look at next, `most` at most: those whose last look is the longest ago."""
        return sorted(workers, key=lambda worker: self._last_look(worker.pid))[:most]

    def _last_look(self, pid: int | None) -> float:
        loop = self._loops.get(pid or 0)
        return loop.looked_at if loop else float("-inf")

    def note(self, worker: Worker, wait: Wait, decision: Decision, now: float, *, waits_for_cpu: bool) -> None:
        """Note what the thread of a worker was seen to do. waits_for_cpu: whether it mostly waited for a CPU since the
        last look."""
        pid = worker.pid or 0
        loop = self._loops.setdefault(pid, _Loop(now, now, worker.requests))
        loop.looked_at = now
        if worker.requests != loop.requests:
            loop.since, loop.blocked, loop.requests = now, False, worker.requests
        if decision.result == "running":
            switches = read_switches(pid)
            goes_on = switches is None or switches != loop.switches or waits_for_cpu
            if goes_on and not loop.blocked:
                loop.since = now
            loop.switches = switches
            loop.held = now - loop.since >= COMPUTES_SECONDS
        elif decision.result in _NO_HOLD or wait.gap or wait.epoll is not None:
            loop.since, loop.blocked, loop.held = now, False, False
        else:
            loop.blocked = loop.held = True
        if loop.held:
            _remember(loop.holds, _describe(wait, decision))

    def rest(self, active: Collection[int], now: float) -> None:
        """Note that the workers other than these, by pid, serve no request."""
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
                seconds = loop.looked_at - loop.since if loop.held else 0.0
                uses[worker.worker_id] = LoopUse(hold, loop.held, seconds)
        return uses


def _describe(wait: Wait, decision: Decision) -> LoopHold:
    state: State = "cpu" if decision.result in ("running", "idle") else decision.result
    return LoopHold(state, decision.address, "connection" if decision.connecting else "file" if wait.file else "")


def _remember(holds: Counter[LoopHold], hold: LoopHold) -> None:
    holds[hold] += 1
    if holds.total() > _REMEMBERED:
        halves = {each: number // 2 for each, number in holds.items() if number > 1}
        holds.clear()
        holds.update(halves or {hold: 1})


def read_switches(pid: int) -> int | None:
    """How often the main thread of a process gave up its CPU because it had to wait; None if it has ended."""
    try:
        found = _SWITCHES.search(procfs.read_file(f"/proc/{pid}/task/{pid}/status"))
    except OSError:
        return None
    return int(found[1]) if found else None
