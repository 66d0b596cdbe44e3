"""Counts in which lines of code the busy threads of one server were, for windows and for metrics.

A window is made of slices of a few seconds, of which each keeps the lines that were seen most: lines come and go while
the shape of a server does not, so they are no part of the rows of an hour. A counter for Prometheus is of a function,
file and state, not of a line: an edit moves lines, and each would be a new series. It keeps its place until another one
is seen twice as often, so that series seldom change.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from uwsgi_headroom.code_look import OUTSIDE, CodeLook, CodeSight, Line
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.window import CodeWindow, Lasting, LineUse, LockedLine
from uwsgi_headroom.record import State

MOST_LOCKS, MOST_HOLDERS = 20, 20
"""In one slice: lines at which threads wait for a lock, and places of the thread that has it."""

MOST_LASTING, LEAST_SECONDS = 50, 1.0
"""Threads that have been in one function for so long, those that have been for longest."""


Key = tuple[Line, State, str]
"""Where a busy thread was, what it waits for, and the address of that."""


class LockCounts(Struct):
    """What was seen at one line at which threads wait for a lock: see `LockedLine`.

    A lock of Python has no owner that could be read. But where threads wait in a function, at `with lock:`, the one
    that has it is further down in the same function, or in one that is called there; and it is one at a time.
    """

    looks: int = 0
    several: int = 0
    holders: dict[Key, float] = field(default_factory=dict)


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


def sort_lines(known: Iterable[tuple[Key, float]]) -> tuple[LineUse, ...]:
    """The lines of these numbers, that with the largest number first."""
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
            before, function = known.get(key), _function(sight)
            goes_on = before is not None and function is not None and _function(before[2]) == function
            known[key] = before[0] if before and goes_on else at, at, sight
        self._known = known

    def list(self) -> tuple[Lasting, ...]:
        found = [
            Lasting(sight.worker_id, sight.line, sight.state, sight.address, last - since)
            for since, last, sight in self._known.values()
            if sight.line is not None and last - since >= LEAST_SECONDS
        ]
        return tuple(sorted(found, key=lambda each: -each.seconds)[:MOST_LASTING])


def _function(sight: CodeSight) -> tuple[str, str] | None:
    return (sight.line.function, sight.line.file) if sight.line else None


_Thing = TypeVar("_Thing")

SLICE_SECONDS = 15.0
"""Of a slice. A window has those that have ended since its beginning."""

MOST_IN_SLICE = 100
"""How many lines, with their states and addresses, a slice keeps: those that were seen most. The rest counts, without a
name. In the slice of the moment, ten times as many."""

MOST_SERIES = 20
"""How many functions, with their states, have a counter. The rest counts together, by state."""

LEAST_SHARE = 0.01
"""Of all busy threads in the history, from which on a function has a counter."""

DISPLACES = 2.0
"""How many times as often a function is seen as the one whose place it takes."""

OUTSIDE_OF_PYTHON, OTHER = "(outside of Python)", "(other)"
"""Stand in for the name of a function in counters."""


class CodePlace(NamedTuple):
    """What a counter is about."""

    function: str
    file: str
    state: State


class CodeTotals(Struct):
    """Seconds of busy threads by place, since it has its counter, which it may lose. They never decrease.
    observed_seconds: the time in which the code was looked at."""

    seconds: dict[CodePlace, float] = field(default_factory=dict)
    observed_seconds: float = 0.0

    def copy(self) -> CodeTotals:
        return CodeTotals(dict(self.seconds), self.observed_seconds)


class _Slice(Struct):
    """Looks of SLICE_SECONDS. with_threads: those that saw busy threads; failed: those that saw nothing, for a reason;
    known: busy threads by line, state and address; other: those in lines without a name."""

    began: float
    looks: int = 0
    with_threads: int = 0
    failed: int = 0
    changed: int = 0
    cpu_seconds: float = 0.0
    unread: float = 0.0
    other: float = 0.0
    known: dict[Key, float] = field(default_factory=dict)
    locks: Locks = field(default_factory=dict)

    def add(self, look: CodeLook) -> None:
        self.cpu_seconds += look.seconds
        if look.off is not None:
            self.failed += 1
            return
        self.looks += 1
        self.with_threads += bool(look.sights)
        self.changed += look.changed
        count_locks(self.locks, look)
        for sight in look.sights:
            if sight.line is None:
                self.unread += sight.part
                continue
            key = sight.line, sight.state, sight.address
            if key in self.known or len(self.known) < 10 * MOST_IN_SLICE:
                self.known[key] = self.known.get(key, 0.0) + sight.part
            else:
                self.other += sight.part

    def close(self) -> None:
        """Keep the lines that were seen most."""
        for key in _by_number(self.known)[MOST_IN_SLICE:]:
            self.other += self.known.pop(key)


class CodeHistory:
    """The lines of code of one server. seconds: how long they are kept. Times are monotonic."""

    def __init__(self, seconds: float = HISTORY_SECONDS) -> None:
        self.totals = CodeTotals()
        self._slices: deque[_Slice] = deque(maxlen=int(seconds / SLICE_SECONDS) + 2)
        self._streaks = Streaks()
        self._off: str | None = None  # why the last one that failed did
        self._looked_at = float("-inf")

    def add(self, at: float, look: CodeLook, longest_step: float) -> None:
        """Count a look at the time `at`. longest_step: seconds since the one before for which it stands at most."""
        if not self._slices or at - self._slices[-1].began >= SLICE_SECONDS:
            if self._slices:
                self._slices[-1].close()
                self._give_places()
            self._slices.append(_Slice(at))
        self._slices[-1].add(look)
        self._streaks.add(at, look, longest_step)
        if look.off is not None:
            self._off, self._looked_at = look.off, float("-inf")
            return
        step, self._looked_at = at - self._looked_at, at
        if step <= longest_step:
            self._count(look, step)

    def of(self, start: float, until: float) -> CodeWindow:
        """The lines between two times, as long as they are kept, and to within a slice."""
        slices = [each for each in self._slices if each.began + SLICE_SECONDS > start]
        looks, failed = sum(each.looks for each in slices), sum(each.failed for each in slices)
        if not looks and not failed:
            return CodeWindow(off=_NOT_YET)
        if failed > sum(each.with_threads for each in slices):
            return CodeWindow(off=self._off)
        known: dict[Key, float] = defaultdict(float)
        for each in slices:
            for key, number in each.known.items():
                known[key] += number
        unread = sum(each.unread for each in slices)
        return CodeWindow(
            seconds=max(0.0, min(until - start, until - slices[0].began)),
            looks=looks,
            threads=sum(known.values()) + unread + sum(each.other for each in slices),
            lines=sort_lines(known.items()),
            unread=unread,
            changed=sum(each.changed for each in slices),
            cpu_seconds=sum(each.cpu_seconds for each in slices),
            locks=add_up(each.locks for each in slices),
            lasting=self._streaks.list(),
        )

    def _count(self, look: CodeLook, step: float) -> None:
        totals = self.totals
        totals.observed_seconds += step
        for sight in look.sights:
            place = _place_of(sight.line, sight.state) if sight.line is not None else None
            if place is None or place not in totals.seconds:
                place = CodePlace(OTHER, "", sight.state)
            totals.seconds[place] = totals.seconds.get(place, 0.0) + step * sight.part

    def _give_places(self) -> None:
        """Give counters to the places that were seen most, as long as there are some, or to take those of others."""
        seen: dict[CodePlace, float] = defaultdict(float)
        for each in self._slices:
            for (line, state, _), number in each.known.items():
                seen[_place_of(line, state)] += number
        seconds, whole = self.totals.seconds, sum(seen.values())
        named = {place for place in seconds if place.file or place.function != OTHER}  # no function has an empty file
        for place in _by_number(seen)[:MOST_SERIES]:
            if place in named or seen[place] < LEAST_SHARE * whole:
                continue
            if len(named) >= MOST_SERIES:
                least = min(named, key=lambda each: seen.get(each, 0.0))
                if seen[place] < DISPLACES * seen.get(least, 0.0):
                    return
                named.remove(least)
                del seconds[least]
            named.add(place)
            seconds[place] = 0.0


def _place_of(line: Line, state: State) -> CodePlace:
    return CodePlace(OUTSIDE_OF_PYTHON, "", state) if line == OUTSIDE else CodePlace(line.function, line.file, state)


def _by_number(numbers: Mapping[_Thing, float]) -> list[_Thing]:
    """The keys, that with the largest number first."""
    return sorted(numbers, key=lambda key: -numbers[key])


_NOT_YET = "no thread was looked at yet"
