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
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Cause = Literal["harakiri", "out_of_memory", "max_requests", "reload_on_rss", "max_worker_lifetime", "unknown"]
"""Why a worker ended, likely. A kill and a crash look the same from outside: both are unknown."""

MOST_EVENTS = 1000

JOIN_SECONDS = 30.0
"""Events of one of JOINED that say the same of the same workers, each within so many seconds of the one before, are
one: a worker that crashes five times a second would push all others out."""

JOINED: frozenset[Kind] = frozenset(("worker_ended", "worker_started", "cheaper_up", "cheaper_down"))


class Event(Struct, frozen=True, kw_only=True):
    """Something that changed, at `time` (epoch seconds).

    id: grows from event to event. title, evidence: a sentence each, without the time; evidence may be empty. workers:
    ids of those it is about. cause: of a worker's end. count: how often it happened, the first time at `since`, where
    several in a row are one event; `time` is the last.
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
    """The latest events, the oldest first, at most MOST_EVENTS of at most HISTORY_SECONDS. `counts` includes
    those that are dropped."""

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
    ) -> None:
        """Add what happened at this time (epoch seconds), so many times since the last look. What was found late may
        be older than the latest."""
        self.counts[kind] += count
        event = Event(
            id=self._next_id,
            time=time,
            since=time,
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
        """So many of the latest, the newest first."""
        return tuple(self._events[: -count - 1 : -1])

    def latest_of(self, kind: Kind) -> Event | None:
        """The latest of a kind."""
        return next((event for event in reversed(self._events) if event.kind == kind), None)

    def since(self, time: float) -> tuple[Event, ...]:
        """Those since then (epoch seconds), the newest first."""
        return tuple(event for event in reversed(self._events) if event.time >= time)

    def _find_same(self, event: Event) -> Event | None:
        """The event a moment ago that says the same."""
        if event.kind not in JOINED:
            return None
        for earlier in reversed(self._events):
            if event.time - earlier.time > JOIN_SECONDS:
                return None
            if (earlier.kind, earlier.workers, earlier.cause) == (event.kind, event.workers, event.cause):
                return earlier
        return None
