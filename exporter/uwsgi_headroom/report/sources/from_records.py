"""Makes the columns of a server from the records of a history file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.report.model import (
    PERCENTILES,
    STEP,
    Column,
    EventMark,
    Objective,
    ServerData,
    WorkerColumns,
)
from uwsgi_headroom.report.sources.answers import split_cumulative
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.store.record import Record

_LEAST_COVERED = 0.5


@dataclass
class RecordColumns:
    """Columns that are filled quarter by quarter. time: the ends of the quarters; kinds of values by name, such as
    `busy` or `worker 1 busy`; nan where nothing was filled in."""

    time: Column
    values: dict[tuple[str, str], Column] = field(default_factory=dict)
    last: Record | None = None

    def fill(self, place: int, count: int, record: Record) -> None:
        """Fill `count` quarters from `place` on with one record of them all. A quarter of which less than half was
        sampled stays unknown."""
        window, places = record.window, slice(place, place + count)
        length = count * STEP
        covered = min(1.0, window.observed_seconds / length)
        self._put("covered", "", places, covered)
        self.last = record
        if covered < _LEAST_COVERED or window.seconds <= 0:
            return
        for (kind, part), value in _figures(record):
            if value is not None:
                self._put(kind, part, places, value)
        # Events of a longer record are spread, so that their sum is right.
        for kind, number in (
            ("reloads", window.reloads),
            # A reload spawns every worker anew; uWSGI's counter begins again then, so Prometheus does not show that.
            ("respawns", max(0, window.respawns - window.reloads * len(window.workers))),
            ("harakiris", window.harakiris),
            ("exceptions", window.exceptions),
            ("overflows", window.overflows),
        ):
            if number is not None:
                self._put(kind, "", places, number / count)

    def column(self, kind: str, part: str = "") -> Column:
        """The values of a kind; nan where unknown."""
        return self.values.get((kind, part), np.full(len(self.time), np.nan))

    def parts(self, kind: str) -> list[str]:
        """The parts of a kind, in the order in which they appeared."""
        return [part for other, part in self.values if other == kind]

    def beside(self, kind: str, part: str, known: str) -> Column:
        """The values of a part, 0 where it is missing although `known` says that the kind was measured."""
        column = self.column(kind, part)
        return np.where(np.isnan(column) & ~np.isnan(self.column(known)), 0.0, column)

    def _put(self, kind: str, part: str, places: slice, value: float) -> None:
        column = self.values.get((kind, part))
        if column is None:
            column = self.values[kind, part] = np.full(len(self.time), np.nan)
        column[places] = value


def _figures(record: Record) -> Iterable[tuple[tuple[str, str], float | None]]:
    """The figures of a record, by kind and part; None for unknown."""
    window, levels = record.window, record.levels
    observed, seconds = window.observed_seconds, window.seconds
    lost = sum(worker.lost for worker in window.workers)
    yield ("full", ""), min(1.0, window.full_seconds / observed)
    yield ("lost", ""), lost / seconds
    yield ("configured", ""), window.configured
    yield ("cpus", ""), levels.cpus
    yield ("memory_per_worker", ""), levels.memory_per_worker
    yield ("memory_available", ""), levels.memory_available
    if window.queue_seconds:
        yield ("queue", ""), sum(window.queue_seconds.values()) / observed
        yield ("queue_full", ""), min(1.0, max(window.queue_full_seconds.values(), default=0.0) / observed)
    if whole := sum(window.occupancy):
        for place, number in enumerate(window.occupancy):
            yield ("occupancy", str(place)), number / whole
    yield from _of_workers(window)
    yield from _of_cpu(window)
    yield from _of_waits(record)
    yield from _of_response_times(record, lost)


def _of_workers(window: Window) -> Iterable[tuple[tuple[str, str], float | None]]:
    workers, observed, seconds = window.workers, window.observed_seconds, window.seconds
    if not workers:
        return
    for worker in workers:
        yield from _of_worker(window, worker)
    yield ("requests", ""), sum(worker.requests for worker in workers) / seconds
    yield ("static", ""), sum(worker.static_requests for worker in workers) / seconds
    yield ("busy", ""), _divide_sum([worker.busy_seconds for worker in workers], observed)
    yield ("running", ""), _divide_sum([worker.running_time for worker in workers], seconds)
    accepting = sum(worker.up_seconds for worker in workers) / observed
    yield ("workers_accepting", ""), accepting
    if window.configured:
        yield ("available", ""), accepting * window.configured / len(workers)


def _of_worker(window: Window, worker: WorkerWindow) -> Iterable[tuple[tuple[str, str], float | None]]:
    part, observed, seconds = str(worker.worker_id), window.observed_seconds, window.seconds
    yield ("worker requests", part), worker.requests / seconds
    yield ("worker busy", part), _divide_sum([worker.busy_seconds], observed)
    yield ("worker running", part), _divide_sum([worker.running_time], seconds)
    yield ("worker cpu", part), _divide_sum([worker.cpu_seconds], seconds)
    yield ("worker accepting", part), worker.up_seconds / observed
    if window.waits and window.waits.observed_seconds:
        yield ("worker lock", part), _divide_sum([worker.interpreter_lock_seconds], window.waits.observed_seconds)


def _of_cpu(window: Window) -> Iterable[tuple[tuple[str, str], float | None]]:
    if window.cpu and window.cpu.measured_seconds:
        measured = window.cpu.measured_seconds
        yield ("cpu_own", ""), window.cpu.own_seconds / measured
        yield ("cpu_idle", ""), window.cpu.idle_seconds / measured
        yield ("cpu_others", ""), _divide_sum([window.cpu.others_seconds], measured)
    else:
        yield ("cpu_own", ""), _divide_sum([worker.cpu_seconds for worker in window.workers], window.seconds)


def _of_waits(record: Record) -> Iterable[tuple[tuple[str, str], float | None]]:
    waits, routes = record.window.waits, record.routes
    if waits and waits.observed_seconds:
        yield ("waits known", ""), 1.0
        for state, seconds in waits.seconds.items():
            yield ("waits", state), seconds / waits.observed_seconds
        for backend, seconds in waits.backends.items():
            yield ("backends", backend), seconds / waits.observed_seconds
    if routes and routes.observed_seconds:
        yield ("routes known", ""), 1.0
        for route, seconds in routes.seconds.items():
            yield ("routes", route), seconds / routes.observed_seconds


def _of_response_times(record: Record, lost: int) -> Iterable[tuple[tuple[str, str], float | None]]:
    window, times, slo = record.window, record.response_times, record.levels.slo
    requests = sum(worker.requests - worker.static_requests for worker in window.workers)
    if times is None:
        if requests == 0 and window.configured:
            yield from (((kind, ""), lost / window.seconds) for kind in ("slow", "judged") if slo)
        return
    below = np.cumsum(times.counts)
    below *= times.requests / max(float(below[-1]), 1e-9)  # expected numbers lose a little by rounding
    for bound in {*BUCKET_BOUNDS, *([slo.threshold] if slo else [])}:
        place = times.bins.find(bound)
        if place < len(times.bins.edges) and times.bins.edges[place] == bound:
            yield ("by_time", repr(bound)), float(below[place]) / window.seconds
            if slo and bound == slo.threshold:
                yield ("slow", ""), (times.requests - float(below[place]) + lost) / window.seconds
    yield ("by_time", "inf"), times.requests / window.seconds
    if slo:
        yield ("judged", ""), (times.requests + lost) / window.seconds
    found = compute_percentiles(times)
    for share, percentile in found.percentiles.items() if found else ():
        yield ("percentiles", f"{share:g}"), percentile.seconds


def _divide_sum(values: Sequence[float | None], whole: float) -> float | None:
    """The sum of the values, divided; None if a value is unknown or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) / whole if known and len(known) == len(values) and whole > 0 else None


def make_server_data(
    columns: RecordColumns, name: str, service: str, host: str, events: Iterable[EventMark]
) -> ServerData:
    """The server of these columns."""
    get, parts = columns.column, columns.parts
    bounds, by_time = split_cumulative({float(text): get("by_time", text) for text in parts("by_time")})
    levels = columns.last.levels if columns.last else None
    slo = levels.slo if levels else None
    ids = sorted({int(part) for part in parts("worker requests")})
    return ServerData(
        server=name,
        service=service,
        host=host,
        time=columns.time,
        covered=np.nan_to_num(get("covered")),
        **{kind: get(kind) for kind in _PLAIN},
        occupancy=tuple(get("occupancy", str(place)) for place in range(len(OCCUPANCY_BOUNDS) + 1)),
        bounds=bounds,
        by_time=by_time,
        percentiles=tuple(get("percentiles", f"{share:g}") for share in PERCENTILES) if parts("percentiles") else (),
        objective=Objective(threshold=slo.threshold, objective=slo.objective) if slo else None,
        waits={part: columns.beside("waits", part, "waits known") for part in parts("waits")},
        backends={part: columns.beside("backends", part, "waits known") for part in parts("backends")},
        routes={part: columns.beside("routes", part, "routes known") for part in parts("routes")},
        by_worker=tuple(
            WorkerColumns(worker_id=number, **{kind: get(f"worker {kind}", str(number)) for kind in _OF_WORKER})
            for number in ids
        ),
        events=tuple(events),
        thunder_lock=levels.thunder_lock if levels else None,
    )


_PLAIN = (
    *("requests", "static", "lost", "busy", "running", "full", "configured", "available", "workers_accepting"),
    *("queue", "queue_full", "cpus", "cpu_own", "cpu_idle", "cpu_others", "memory_per_worker", "memory_available"),
    *("slow", "judged", "reloads", "respawns", "harakiris", "exceptions", "overflows"),
)
_OF_WORKER = ("requests", "busy", "running", "cpu", "accepting", "lock")
