"""Events of one server, kept as long as its history."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.config.defaults import HISTORY_SECONDS

Kind = Literal[
    "exporter_started",
    "sampling_gap",
    "server_down",
    "server_up",
    "reload",
    "worker_ended",
    "worker_started",
    "cheaper_up",
    "cheaper_down",
    "configuration_changed",
    "verdict_changed",
    "log_message",
    "deploy_judged",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Cause = Literal["harakiri", "out_of_memory", "max_requests", "reload_on_rss", "max_worker_lifetime", "unknown"]
"""The likely reason why a worker ended. A kill and a crash look the same from outside: both are `unknown`."""

MOST_EVENTS = 1000
"""Most events in memory, and in one response of the API: 350 kB."""

JOIN_SECONDS = 30.0
"""The longest time between two events that are joined into one. Only the kinds in JOINED are joined, and only events
with the same workers and cause, and messages of the log with the same title: otherwise a worker that crashes five
times a second would displace all other events."""

JOINED: frozenset[Kind] = frozenset(("worker_ended", "worker_started", "cheaper_up", "cheaper_down", "log_message"))


class Event(Struct, frozen=True, kw_only=True):  # its docstring is in the API description, whole
    """A change at `time` (epoch seconds).

    id: grows from event to event. title, evidence: one sentence each, without the time; evidence may be empty. workers:
    ids of the workers concerned. cause: the reason for a worker's end. count: how often it happened, if several
    consecutive events were joined; the first was at `since`, the last at `time`.
    """

    id: int
    time: float
    since: float
    kind: Kind
    title: str
    evidence: str = ""
    workers: tuple[int, ...] = ()
    cause: Cause | None = None
    count: int = 1


class Journal:
    """The latest events, oldest first: MOST_EVENTS, of the last HISTORY_SECONDS. `counts` includes dropped ones."""

    def __init__(self) -> None:
        self.counts: Counter[Kind] = Counter(dict.fromkeys(KINDS, 0))
        self._events: list[Event] = []
        self._next_id = 1

    def add(
        self,
        time: float,
        kind: Kind,
        title: str,
        evidence: str = "",
        *,
        workers: Sequence[int] = (),
        cause: Cause | None = None,
        count: int = 1,
        since: float | None = None,
    ) -> None:
        """Add an event at `time` (epoch seconds) that happened `count` times since the last reading. An event that was
        noticed late may be older than the latest one. since: when it began, if that took time."""
        self.counts[kind] += count
        event = Event(
            id=self._next_id,
            time=time,
            since=since or time,
            kind=kind,
            title=title,
            evidence=evidence,
            workers=tuple(workers),
            cause=cause,
            count=count,
        )
        self._next_id += 1
        if same := self._find_same(event):
            self._events.remove(same)
            event = replace(event, since=same.since, count=same.count + count)
        insort(self._events, event, key=lambda each: each.time)
        oldest = bisect_left(self._events, time - HISTORY_SECONDS, key=lambda each: each.time)
        del self._events[: max(oldest, len(self._events) - MOST_EVENTS)]

    def latest(self, count: int) -> tuple[Event, ...]:
        return tuple(self._events[: -count - 1 : -1])

    def latest_of(self, kind: Kind) -> Event | None:
        """The event of a kind that was noted last, also if the clock was ahead before; None if there is none."""
        return max([event for event in self._events if event.kind == kind], key=lambda each: each.id, default=None)

    def since(self, time: float) -> tuple[Event, ...]:
        """The events since `time` (epoch seconds), newest first."""
        return tuple(event for event in reversed(self._events) if event.time >= time)

    def _find_same(self, event: Event) -> Event | None:
        """The recent event that this one can be joined to, if any."""
        if event.kind not in JOINED:
            return None
        for earlier in reversed(self._events):
            age = event.time - earlier.time
            if age > JOIN_SECONDS:
                return None
            if age >= -JOIN_SECONDS and _what(earlier) == _what(event):  # else of a clock that was ahead
                return earlier
        return None


def _what(event: Event) -> tuple[object, ...]:
    return event.kind, event.workers, event.cause, event.title * (event.kind == "log_message")
