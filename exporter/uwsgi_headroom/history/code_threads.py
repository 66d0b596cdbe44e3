"""What looks at code show of single threads: which is in the part that a lock protects, and for how long each stays.

A lock of Python has no owner that could be read. But where threads wait in a function, at `with lock:`, the one that
has it is further down in the same function, or in one that is called there; and it is one at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from uwsgi_headroom.history.window import Lasting, LineUse, LockedLine
from uwsgi_headroom.record import CodeLook, CodeSight, Line, State

MOST_LOCKS, MOST_HOLDERS = 20, 20
"""In one slice: lines at which threads wait for a lock, and places of the thread that has it."""

MOST_LASTING = 50
"""Threads that have been in one function for long, those that have been for longest."""

LEAST_SECONDS = 1.0
"""Fewer are not long."""


@dataclass(slots=True)
class LockCounts:
    """What was seen at one line at which threads wait for a lock: see `LockedLine`."""

    looks: int = 0
    several: int = 0
    holders: dict[tuple[Line, State, str], float] = field(default_factory=dict)


Locks = dict[Line, LockCounts]


def count_locks(locks: Locks, look: CodeLook) -> None:
    """Add one look. Locks of several workers count apart: each process has its own."""
    workers: dict[int, list[CodeSight]] = defaultdict(list)
    for sight in look.sights:
        workers[sight.worker_id].append(sight)
    for sights in workers.values():
        for waited in {sight.line for sight in sights if sight.state == "lock" and sight.line and sight.line.line}:
            if waited in locks or len(locks) < MOST_LOCKS:
                _count(locks.setdefault(waited, LockCounts()), waited, sights)


def _count(counts: LockCounts, waited: Line, sights: Sequence[CodeSight]) -> None:
    counts.looks += 1
    further_down = [
        sight
        for sight in sights
        if sight.inside
        and sight.state != "lock"
        and (sight.inside.function, sight.inside.file) == (waited.function, waited.file)
        and sight.inside.line > waited.line
    ]
    if len({sight.thread for sight in further_down}) > 1:
        counts.several += 1
        return
    for sight in further_down:
        key = sight.line or Line(), sight.state, sight.address
        if key in counts.holders or len(counts.holders) < MOST_HOLDERS:
            counts.holders[key] = counts.holders.get(key, 0.0) + sight.part


def add_up(many: Iterable[Mapping[Line, LockCounts]]) -> tuple[LockedLine, ...]:
    """The lines of several slices, those with most looks first."""
    sums: Locks = {}
    for locks in many:
        for waited, counts in locks.items():
            total = sums.setdefault(waited, LockCounts())
            total.looks += counts.looks
            total.several += counts.several
            for key, number in counts.holders.items():
                total.holders[key] = total.holders.get(key, 0.0) + number
    return tuple(
        LockedLine(waited, counts.looks, counts.several, sort_lines(counts.holders.items()))
        for waited, counts in sorted(sums.items(), key=lambda item: -item[1].looks)
    )


def sort_lines(known: Iterable[tuple[tuple[Line, State, str], float]]) -> tuple[LineUse, ...]:
    """The lines of these numbers, by line, state and address; that with the largest number first."""
    states: dict[Line, dict[State, float]] = defaultdict(lambda: defaultdict(float))
    addresses: dict[Line, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (line, state, address), number in known:
        states[line][state] += number
        if address:
            addresses[line][address] += number
    looks = {line: sum(by_state.values()) for line, by_state in states.items()}
    return tuple(
        LineUse(line, looks[line], dict(states[line]), dict(addresses[line]) if line in addresses else {})
        for line in sorted(looks, key=lambda line: -looks[line])
    )


class Streaks:
    """Since when each busy thread has been in one function, at each look."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[float, float, CodeSight]] = {}  # since, last seen

    def add(self, at: float, look: CodeLook, longest_step: float) -> None:
        """Add a look at the time `at`. A thread may be missing from looks for `longest_step` seconds."""
        if look.off is not None:
            self._known.clear()
            return
        known = {key: each for key, each in self._known.items() if at - each[1] <= longest_step}
        main: dict[tuple[int, int], CodeSight] = {}
        for sight in look.sights:
            key = sight.worker_id, sight.thread
            if key not in main or sight.part > main[key].part:
                main[key] = sight
        for key, sight in main.items():
            before = known.get(key)
            is_same = before is not None and sight.line is not None and before[2].line is not None
            if before and is_same and _function(before[2]) == _function(sight):
                known[key] = before[0], at, sight
            else:
                known[key] = at, at, sight
        self._known = known

    def list(self) -> tuple[Lasting, ...]:
        """The threads that have been in one function for long, those for longest first."""
        found = [
            Lasting(sight.worker_id, sight.line, sight.state, sight.address, last - since)
            for since, last, sight in self._known.values()
            if sight.line is not None and last - since >= LEAST_SECONDS
        ]
        return tuple(sorted(found, key=lambda each: -each.seconds)[:MOST_LASTING])


def _function(sight: CodeSight) -> tuple[str, str] | None:
    return (sight.line.function, sight.line.file) if sight.line else None
