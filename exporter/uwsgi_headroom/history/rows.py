"""Packs the totals of one instant into a row of a history, and computes the growth between two rows.

Figures without a bound within an hour (thread time, queue time, CPU time of the machine) are stored as doubles. Counts,
and times bounded by one process, are stored modulo 2**32 (times in units of 0.1 ms), so their differences are exact.
Times of waiting threads are stored so in units of 10 ms, which is enough for an hour of 11,900 threads.

A row has the time since when each queue is known, and the quantities of the table (`counts`): doubles first.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, count, pairwise
from operator import attrgetter, sub
from struct import Struct
from typing import Any, NamedTuple

from uwsgi_headroom.history.counts import DOUBLE, OCCUPANCY_BOUNDS, Kind, Of, Quantity
from uwsgi_headroom.history.totals import CpuTotals, Totals, WaitTotals
from uwsgi_headroom.history.window import (
    CPU,
    QUANTITIES,
    SERVER,
    SOCKET,
    WORKER,
    CpuWindow,
    WaitWindow,
    Window,
    WorkerWindow,
)
from uwsgi_headroom.record import STATES

_MODULO = 2**32

Row = bytes

Column = Sequence[Any]
"""The values of one quantity: a number for each of what it is of, or None for an unknown level."""


class Growth(NamedTuple):
    """The growth of totals: for each part of the table, a column for each quantity. Unknown totals count from 0.
    queue_since: for each socket, the start of the measurement that lasts until the end; inf if none does."""

    server: list[Column]
    sockets: list[Column]
    cpu: list[Column]
    waits: list[Column]
    workers: list[Column]
    queue_since: Column


_NO_CPU, _NO_WAITS = CpuTotals(), WaitTotals()

_Get = Callable[[Any], Any]

_READS: dict[Of, Callable[[Totals, _Get], Iterable[Any]]] = {
    "server": lambda totals, get: (get(totals),),
    "all workers": lambda totals, get: (sum(map(get, totals.workers)),),
    "occupancy": lambda totals, get: get(totals),
    "socket": lambda totals, get: map(get(totals).get, totals.queue_seconds),
    "cpu": lambda totals, get: (get(totals.cpu or _NO_CPU),),
    "waits": lambda totals, get: (get(totals.waits or _NO_WAITS),),
    "state": lambda totals, get: get(totals.waits or _NO_WAITS),
    "backend": lambda totals, get: get(totals.waits or _NO_WAITS).values(),
    "worker": lambda totals, get: map(get, totals.workers),
}
"""Returns the values of a quantity in totals, by what it is of; `get` returns its attribute."""

_SECTIONS: dict[tuple[Kind, float], list[Quantity]] = {}
"""What a row keeps in the same way, in the order of a row. All doubles are times."""

for _quantity in sorted(chain(*QUANTITIES), key=lambda quantity: quantity.per_unit != DOUBLE):
    if _quantity.kind != "change":
        _SECTIONS.setdefault((_quantity.kind, _quantity.per_unit), []).append(_quantity)

_READERS = [
    (kind, per_unit, [(_READS[quantity.of], attrgetter(quantity.name)) for quantity in section])
    for (kind, per_unit), section in _SECTIONS.items()
]


def shape_of(totals: Totals) -> tuple[object, ...]:
    """What rows have in common that can be compared: the number of workers, their sockets and the backends."""
    return (len(totals.workers), *totals.queue_seconds, "backends", *(totals.waits or _NO_WAITS).backends)


def pack_row(totals: Totals) -> Row:
    times: list[float] = [totals.queue_since.get(socket, math.inf) for socket in totals.queue_seconds]
    numbers: list[int] = []
    for kind, per_unit, readers in _READERS:
        values: list[Any] = []
        for read, get in readers:
            values += read(totals, get)
        if per_unit == DOUBLE:
            times += [value or 0.0 for value in values]
        elif kind == "count":
            numbers += [(value or 0) % _MODULO for value in values]
        elif kind == "time":
            numbers += [round(value * per_unit) % _MODULO if value else 0 for value in values]
        else:
            numbers += [0 if value is None else min(1 + round(value * per_unit), _MODULO - 1) for value in values]
    return array("d", times).tobytes() + array("I", numbers).tobytes()


def compare_rows(first: Row, last: Row, totals: Totals) -> Growth:
    """The growth between two rows of the same shape as the totals."""
    sockets = len(totals.queue_seconds)
    layout = _lay_out(len(totals.workers), sockets, len((totals.waits or _NO_WAITS).backends))
    early, late = layout.unpack(first), layout.unpack(last)
    doubles = layout.doubles
    grown: list[Any] = list(map(sub, late, early))
    if min(grown[doubles:], default=0) < 0:  # some are a step of the modulus further, or levels that have fallen
        grown[doubles:] = [number % _MODULO for number in grown[doubles:]]
    for place, per_unit in layout.times:
        grown[place] = [number / per_unit for number in grown[place]]
    for place, per_unit in layout.levels:
        both = zip(early[place], late[place], strict=True)
        grown += [round((end - start) / per_unit) if start and end else None for start, end in both]
        grown[place] = [round((number - 1) / per_unit) if number else None for number in late[place]]
    return Growth._make([*[[grown[place] for place in part] for part in layout.parts], late[:sockets]])


class _Layout(NamedTuple):
    """The places of the values in the rows of one shape, and in the growth between two of them. unpack: returns the
    values of a row: so many doubles, then whole numbers; times, levels: those that are times or levels, and how many of
    them are a second, or one (the changes of levels follow the values, in this order); parts: for each part of the
    table, the place of each quantity."""

    unpack: Callable[[Row], tuple[Any, ...]]
    doubles: int
    times: list[tuple[slice, float]]
    levels: list[tuple[slice, float]]
    parts: list[list[slice]]


@lru_cache(maxsize=64)
def _lay_out(workers: int, sockets: int, backends: int) -> _Layout:
    sizes: dict[Of, int] = {
        "occupancy": len(OCCUPANCY_BOUNDS) + 1,
        "state": len(_NO_WAITS.seconds),
        "socket": sockets,
        "backend": backends,
        "worker": workers,
    }
    places: dict[Quantity, slice] = {}
    sections: dict[tuple[Kind, float], slice] = {}
    end = sockets
    for (kind, per_unit), section in _SECTIONS.items():
        start = end
        for quantity in section:
            places[quantity] = slice(end, end := end + sizes.get(quantity.of, 1))
        sections[kind, per_unit] = slice(start, end)
    doubles = sections["time", DOUBLE].stop
    unpack = Struct(f"={doubles}d{end - doubles}I").unpack
    levels = [(place, per_unit) for (kind, per_unit), place in sections.items() if kind == "level"]
    shifts: dict[float, int] = {}  # from a level to its change, by how many of the level are one
    for place, per_unit in levels:
        shifts[per_unit] = end - place.start
        end += place.stop - place.start
    for level, quantity in pairwise(chain(*QUANTITIES)):
        if quantity.kind == "change":  # of the level before it
            place, shift = places[level], shifts[quantity.per_unit]
            places[quantity] = slice(place.start + shift, place.stop + shift)
    times = [(place, per_unit) for (kind, per_unit), place in sections.items() if kind == "time" and per_unit != DOUBLE]
    parts = [[places[quantity] for quantity in part] for part in QUANTITIES]
    return _Layout(unpack, doubles, times, levels, parts)


def window_between(latest: Totals, first: tuple[float, Row], last: tuple[float, Row], asked: float) -> Window:
    """The window between two rows. `latest` has the same workers and sockets, and the start of each known figure."""
    (at, start), (until, end) = first, last
    growth = compare_rows(start, end, latest)
    waits = _wait_window(at, latest.waits, growth)
    workers = _hide_unknown(_OF_WORKER, growth.workers, latest.workers, at, waits)
    figures: dict[str, Any] = {
        quantity.name: tuple(column) if quantity.of == "occupancy" else column[0]
        for quantity, column in zip(SERVER, _hide_unknown(_OF_SERVER, growth.server, (latest,), at), strict=True)
    }
    for quantity, areas in zip(SOCKET, growth.sockets, strict=True):
        named = zip(latest.queue_seconds, areas, growth.queue_since, strict=True)
        figures[quantity.name] = {name: area for name, area, since in named if since <= at}
    return Window(
        asked=asked,
        seconds=until - at,
        until=until,
        workers=tuple(map(WorkerWindow, count(1), *workers)),
        cpu=_cpu_window(at, latest.cpu, growth),
        waits=waits,
        is_counted=latest.is_counted,
        **figures,
    )


_MaybeUnknown = tuple[int, str, Callable[[object], object], Callable[[object], "float | None"]]

_OF_SERVER, _OF_CPU, _OF_WORKER = (
    [
        (place, quantity.known, attrgetter(quantity.name), attrgetter(quantity.known))
        for place, quantity in enumerate(part)
        if quantity.known
    ]
    for part in (SERVER, CPU, WORKER)
)
"""The figures of a part of the table that are not always known: their places in it, and how to see since when they
are."""


def _hide_unknown(
    figures: Sequence[_MaybeUnknown], growth: list[Column], totals: Sequence[object], start: float, waits: object = None
) -> list[Column]:
    """The columns of a part, with None where a figure is not known for a whole window that starts at `start`. totals:
    of each thing that has values."""
    columns = list(growth)
    for place, known_by, get_total, get_since in figures:
        values = columns[place]
        if known_by == "waits":
            columns[place] = values if waits else [None] * len(values)
            continue
        known = [total is not None for total in map(get_total, totals)]
        if known_by != "reported":
            since = map(get_since, totals)
            known = [yes and at is not None and at <= start for yes, at in zip(known, since, strict=True)]
        if not all(known):
            columns[place] = [value if yes else None for value, yes in zip(values, known, strict=True)]
    return columns


def _cpu_window(start: float, totals: CpuTotals | None, growth: Growth) -> CpuWindow | None:
    if totals is None or totals.since is None or totals.since > start:
        return None
    cpu = CpuWindow(*[column[0] for column in _hide_unknown(_OF_CPU, growth.cpu, (totals,), start)])
    return cpu if cpu.measured_seconds else None


def _wait_window(start: float, totals: WaitTotals | None, growth: Growth) -> WaitWindow | None:
    (observed,), (disagreement,), seconds, backends = growth.waits
    if totals is None or totals.since is None or totals.since > start or not observed:
        return None
    return WaitWindow(
        observed_seconds=observed,
        disagreement_seconds=disagreement,
        seconds={state: area for state, area in zip(STATES, seconds, strict=True) if area},
        backends=dict(zip(totals.backends, backends, strict=True)),
    )
