"""Records: what is kept of a server for a minute, or for several minutes merged, and the tiers of a history.

How figures merge follows from the table of quantities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.counts import Of, Quantity
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import (
    CPU,
    SERVER,
    SOCKET,
    WAITS,
    WORKER,
    CpuWindow,
    RouteWindow,
    WaitWindow,
    Window,
    WorkerWindow,
)
from uwsgi_headroom.record import SocketHolders


class Levels(Struct, frozen=True, array_like=True):
    """What held at the end of a record; None for unknown. A file has this order: add at the end.

    cpus: usable by the server; others_follow: whether the CPU use of other programs grows with the server's requests;
    slo: without its origin; socket_holders: the workers of each socket, where some do not serve every one
    (`map-socket`); limited_by: the code of what limited the server before its resources (`Headroom.limited_by`).
    """

    cpus: float | None = None
    memory_available: int | None = None
    memory_per_worker: int | None = None
    others_follow: bool | None = None
    thunder_lock: bool | None = None
    slo: Slo | None = None
    socket_holders: SocketHolders | None = None
    limited_by: str | None = None


class Record(Struct, frozen=True):
    """A server over `window.seconds` until `until` (epoch seconds, also `window.until`). response_times: of requests
    completed in that time; routes: None while they are off."""

    until: float
    window: Window
    response_times: ResponseTimeWindow | None = None
    routes: RouteWindow | None = None
    levels: Levels = Levels()


class Minute(NamedTuple):
    """What is to be written of a minute that ends at `minute` (since the epoch): its record, and events."""

    server: str
    minute: int
    record: Record | None
    events: Sequence[Event] = ()


def merge_records(records: Sequence[Record]) -> Record:
    """One record of several in the order of time: sums, and the levels of the last one, but what limited most of them.
    What is unknown in one of them is unknown; waits and the use of CPUs are those of the time that was measured."""
    if len(records) == 1:
        return records[0]
    last, limits = records[-1], Counter(record.levels.limited_by for record in records)
    routes = [record.routes for record in records if record.routes]
    observed = sum([each.observed_seconds for each in routes])
    return Record(
        until=last.until,
        window=_merge_windows([record.window for record in records]),
        response_times=_merge_response_times([each.response_times for each in records if each.response_times]),
        routes=RouteWindow(observed, _add_up([each.seconds for each in routes])) if routes else None,
        levels=replace(last.levels, limited_by=limits.most_common(1)[0][0]),
    )


_MOST_UNMERGED = 64


class RunningMerge:
    """Merges records as they come, in the order of time, and keeps few: those of two years may take a gigabyte."""

    def __init__(self) -> None:
        self.records: list[Record] = []  # merged so far, or few

    def add(self, record: Record) -> None:
        self.records.append(record)
        if len(self.records) > _MOST_UNMERGED:
            self.records = [merge_records(self.records)]


def _merge_windows(windows: Sequence[Window]) -> Window:
    workers: dict[int, list[WorkerWindow]] = {}
    for window in windows:
        for worker in window.workers:
            workers.setdefault(worker.worker_id, []).append(worker)
    # A reload makes the use by others unknown for a minute, and not for the whole hour.
    cpus = [window.cpu for window in windows if window.cpu]
    cpus = [cpu for cpu in cpus if cpu.others_seconds is not None] or cpus
    waits = [window.waits for window in windows if window.waits]
    return Window(
        asked=sum([window.asked for window in windows]),
        seconds=sum([window.seconds for window in windows]),
        until=windows[-1].until,
        workers=tuple([WorkerWindow(number, **_merge(WORKER, workers[number])) for number in sorted(workers)]),
        cpu=CpuWindow(**_merge(CPU, cpus)) if cpus else None,
        waits=WaitWindow(**_merge(WAITS, waits)) if waits else None,
        **_merge(SERVER, windows),
        **_merge(SOCKET, windows),
    )


def _merge(part: Iterable[Quantity], windows: Sequence[object]) -> dict[str, Any]:
    """The figures of a part of several windows: levels are the last ones, and all others add up."""
    merged: dict[str, Any] = {}
    for quantity in part:
        values = [getattr(window, quantity.name) for window in windows]
        merged[quantity.name] = values[-1] if quantity.kind == "level" else _sum(values, quantity.of)
    return merged


def _sum(values: Sequence[Any], of: Of) -> Any:
    """The sum of numbers, of named times, or of each place; None if any is unknown."""
    if None in values:
        return None
    if isinstance(values[0], Mapping):
        return _add_up(values, common=of == "socket")
    return tuple(map(sum, zip(*values, strict=True))) if of == "occupancy" else sum(values)


def _add_up(parts: Sequence[Mapping[str, float]], *, common: bool = False) -> dict[str, float]:
    """The times of each name, added; common: of the names that each part has."""
    together: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.items():
            together[name] = together.get(name, 0.0) + seconds
    return {name: together[name] for name in together if not common or all(name in part for part in parts)}


def _merge_response_times(parts: Sequence[ResponseTimeWindow]) -> ResponseTimeWindow | None:
    if not parts:
        return None
    bins, requests = parts[-1].bins, sum([part.requests for part in parts])
    counts, doubt = [0.0] * len(bins), [0.0] * len(bins)
    for part in [rebin(part, bins) for part in parts]:
        counts = list(map(add, counts, part.counts))
        doubt = list(map(add, doubt, part.doubt))
    # Without requests, each part weighs the same.
    weights = [part.requests if requests else 1 for part in parts]
    interval = sum([part.interval * weight for part, weight in zip(parts, weights, strict=True)]) / sum(weights)
    return ResponseTimeWindow(bins, interval, requests, counts, doubt)


def rebin(part: ResponseTimeWindow, bins: Bins) -> ResponseTimeWindow:
    """The same requests in other bins: all of a bin are in the one that contains its middle."""
    if part.bins.edges == bins.edges:
        return part
    counts, doubt = [0.0] * len(bins), [0.0] * len(bins)
    for middle, count, variance in zip(part.bins.middles, part.counts, part.doubt, strict=True):
        place = bins.find(middle)
        counts[place] += count
        doubt[place] = max(doubt[place], variance)
    return replace(part, bins=bins, counts=counts, doubt=doubt)


DAY = 86_400


class Tier(NamedTuple):
    """Records of `seconds` each, kept for `kept` seconds."""

    seconds: int
    kept: int


MINUTES = Tier(60, 14 * DAY)

QUARTERS = Tier(900, 90 * DAY)

HOURS = Tier(3600, 731 * DAY)

TIERS = (MINUTES, QUARTERS, HOURS)
"""From the shortest to the longest. Records of a tier are merged from those of the one before."""

LONGEST_SECONDS = float(HOURS.kept)

AHEAD_SECONDS = float(DAY)
"""Later records are of a clock that was ahead, and ignored. A wrong time zone is less than a day."""


def slot_at(tier: Tier, minute: int) -> int:
    """The slot with the minute that ends at `minute`. Slot n ends n * tier.seconds after the epoch."""
    return -(-minute * MINUTES.seconds // tier.seconds)
