"""Loads the data of a review from history files of exporters: quarters of an hour, minutes where these are not merged
yet, and hours where nothing finer is kept.

What cannot be read is a problem of the review, which is then partial; what can be read is reviewed. Each record becomes
one value, or for an hour four, of each column.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from math import ceil
from pathlib import Path
from typing import NoReturn

import numpy as np
from msgspec import Struct, field

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS, sum_if_all_known
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.report.columns import (
    LEAST_COVERED,
    PERCENTILES,
    STEP,
    Column,
    EventMark,
    Query,
    ReviewData,
    ServerData,
    WorkerColumns,
    split_cumulative,
)
from uwsgi_headroom.report.sources.progress import Progress
from uwsgi_headroom.report.sources.selection import (
    SHOWN_KINDS,
    TimeRange,
    describe_clock,
    list_problems,
    refuse_too_many,
    select_servers,
)
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.store.file import HistoryFile, StoredServer
from uwsgi_headroom.store.record import Record, merge_records
from uwsgi_headroom.words.formats import duration

MINUTE, QUARTER, HOUR = 60, round(STEP), 3600


class _Source(Struct, frozen=True):
    """A server of a file. name: unique; stored: its name in the file; host: the file's name if there are several."""

    name: str
    service: str
    host: str
    file: HistoryFile
    path: Path
    stored: str
    first: float
    last: float


def load_history_files(
    paths: Sequence[Path],
    find_range: Callable[[float], TimeRange],
    *,
    servers: Sequence[str] = (),
    services: Sequence[str] = (),
    progress: Progress = lambda _done, _of, _what: None,
) -> ReviewData:
    """The data of the servers and services of these names, or of all. Several files are of several machines: servers
    of one name in them are one service. find_range: makes the range of the time at which the records end (epoch
    seconds). Raises HistoryFileError, or HeadroomError if there is nothing to review."""
    with ExitStack() as stack:
        once: dict[str, Path] = {}  # a file that is given twice is one machine
        for path in paths:
            once.setdefault(os.path.realpath(path), path)
        files = {path: stack.enter_context(HistoryFile(path, time.time())) for path in once.values()}
        found = list(_list_servers(files))
        if not found:
            _explain_empty(files)
        span = find_range(max(source.last for source in found))
        chosen = select_servers(found, servers, services)
        refuse_too_many(chosen, span.quarters)
        damages: list[str] = []
        notes: list[str] = []
        data, queries = [], []
        for done, source in enumerate(chosen):
            began = time.monotonic()
            server, number = _load(source, span, damages, notes, partial(_show_part, progress, done, chosen))
            data.append(server)
            text = f"records of {source.stored} in {source.path.name}"
            queries.append(Query(text=text, answers=number, seconds=time.monotonic() - began))
        progress(1, 1, "done")
        if not any(np.isfinite(server.requests).any() for server in data):
            raise HeadroomError(*_explain_nothing(chosen, span, damages))
    ahead = max(source.last for source in chosen) - time.time()
    clock = describe_clock(max(0.0, ahead), "the history file's exporter")
    return ReviewData(
        servers=tuple(data),
        since=span.since,
        until=span.until,
        source=f"history file {', '.join(str(path) for path in paths)}",
        time_zone=span.zone,
        queries=tuple(queries),
        problems=(*damages, *notes, *([clock] if clock else []), *list_problems(data, span.zone)),
        partial=bool(damages),
    )


def _list_servers(files: Mapping[Path, HistoryFile]) -> Iterator[_Source]:
    stems = Counter(path.stem for path in files)
    for path, file in files.items():
        host = path.stem if stems[path.stem] == 1 else str(path)
        for stored in file.servers():
            last = _find_last(file, stored)
            if len(files) > 1:
                name = f"{stored.name} {host}"
                yield _Source(name, stored.name, host, file, path, stored.name, stored.first, last)
            else:
                yield _Source(stored.name, "", "", file, path, stored.name, stored.first, last)


def _find_last(file: HistoryFile, stored: StoredServer) -> float:
    """The end of the last record in epoch seconds. stored.last is only that of the last minute that is not damaged, or
    the end of a slot that is still to come."""
    ends = []
    with suppress(HistoryFileError):  # what is damaged is reported when it is needed
        for tier in (MINUTE, QUARTER):
            records = file.records(stored.name, stored.last - HOUR, stored.last + QUARTER, tier)
            ends += [record.until for record in records]
    return max(ends, default=stored.last)


def _show_part(progress: Progress, done: int, chosen: Sequence[_Source], part: float) -> None:
    """Show that a part of a server is read, after `done` others."""
    progress(round(100 * (done + part)), 100 * len(chosen), chosen[done].name)


def _load(
    source: _Source, span: TimeRange, damages: list[str], notes: list[str], show_part: Callable[[float], None]
) -> tuple[ServerData, int]:
    """The columns of a server, and how many records they are made of. Adds sentences about what cannot be read, and
    about what is known less exactly. show_part: is called with the part that is read."""
    columns = _RecordColumns(span.ends())
    records, events, damaged = 0, [], source.file.damaged
    try:
        reach = source.file.reaches_back(source.stored)
        hours_until = min([span.until, *(reach[tier] - tier for tier in (MINUTE, QUARTER) if tier in reach)])
        for end, record in _place(source.file.records(source.stored, span.since, span.until, QUARTER), QUARTER):
            records += _fill(columns, span, end, 1, record)
            show_part((end - span.since) / (span.until - span.since))
        for first, last in _missing(columns):
            records += _fill_from_minutes(columns, source, span, first, last)
        if HOUR in reach and reach[HOUR] - HOUR < hours_until:
            hours = source.file.records(source.stored, span.since, hours_until, HOUR)
            filled = sum(_fill(columns, span, end, HOUR // QUARTER, record) for end, record in _place(hours, HOUR))
            records += filled
            if filled:
                notes.append(
                    f"{source.name}: of the first {duration(filled * HOUR)}, the file keeps hours only: a peak within "
                    "an hour is higher than its mean, which is shown there."
                )
        events = source.file.events(source.stored, span.since, span.until)
    except HistoryFileError as error:
        damages.append(f"{source.name}: a part of the records cannot be read: {error}.")
    if lost := source.file.damaged - damaged:
        damages.append(f"{source.name}: {lost} {'record is' if lost == 1 else 'records are'} damaged and left out.")
    marks = [
        EventMark(time=event.time, kind=event.kind, title=event.title) for event in events if event.kind in SHOWN_KINDS
    ]
    return _make_server_data(columns, source.name, source.service, source.host, marks), records


def _place(records: Iterator[Record], tier: int) -> Iterator[tuple[float, Record]]:
    """The records with the end of their slot. A record ends shortly after its slot, or, if an exporter ended, in it."""
    before = 0
    for record in records:
        slot = max(before + 1, ceil(record.until // MINUTE * MINUTE / tier))
        yield slot * tier, record
        before = slot


def _fill(columns: _RecordColumns, span: TimeRange, end: float, count: int, record: Record) -> int:
    """Fill the quarters of a record that are in the range and unknown; whether there were any."""
    last = round((end - span.since) / STEP)
    places = [place for place in range(last - count, last) if 0 <= place < len(columns.time)]
    free = [place for place in places if np.isnan(columns.column("covered")[place])]
    if len(free) < count:
        return 0
    columns.fill(places[0], count, record)
    return 1


def _missing(columns: _RecordColumns) -> list[tuple[int, int]]:
    """The runs of quarters without a record: first, and last (exclusive)."""
    unknown = np.concatenate([[False], np.isnan(columns.column("covered")), [False]])
    edges = np.flatnonzero(unknown[1:] != unknown[:-1])
    return [(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _fill_from_minutes(columns: _RecordColumns, source: _Source, span: TimeRange, first: int, last: int) -> int:
    """Fill quarters from minutes, of which an exporter has not made quarters yet."""
    since, until = span.since + first * STEP, span.since + last * STEP
    by_quarter: dict[int, list[Record]] = {}
    for end, record in _place(source.file.records(source.stored, since, until, MINUTE), MINUTE):
        by_quarter.setdefault(ceil(end / STEP), []).append(record)
    for quarter, minutes in by_quarter.items():
        _fill(columns, span, quarter * STEP, 1, merge_records(minutes))
    return sum(len(minutes) for minutes in by_quarter.values())


def _explain_empty(files: Mapping[Path, HistoryFile]) -> NoReturn:
    """Raise HeadroomError for files without a server."""
    names = ", ".join(map(str, files))
    if any(file.has_later() for file in files.values()):
        raise HeadroomError(
            f"{names}: all records are of a time that is still to come; check this machine's clock and the exporter's"
        )
    raise HeadroomError(f"{names}: no server has been recorded yet")


def _explain_nothing(chosen: Sequence[_Source], span: TimeRange, problems: Sequence[str]) -> tuple[str, Sequence[str]]:
    if problems:
        return problems[0].removesuffix("."), problems[1:]
    # `first` is the end of a minute, which may not be over yet.
    reach = TimeRange(min(each.first for each in chosen) - MINUTE, max(each.last for each in chosen), span.zone)
    return (
        span.nothing_sampled(),
        [f"The records of these servers are from {reach.show()}.", "A review needs half an hour of them at least."],
    )


_Figure = tuple[tuple[str, str], "float | None"]
"""A figure of a record, by kind and part; None for unknown."""


class _RecordColumns(Struct):
    """Columns that are filled quarter by quarter. time: the ends of the quarters; kinds of values by name, such as
    `busy` or `worker 1 busy`; nan where nothing was filled in."""

    time: Column
    values: dict[tuple[str, str], Column] = field(default_factory=dict)
    last: Record | None = None
    """The latest one."""
    reviewed: Record | None = None
    """The latest one in which the settings were reviewed."""

    def fill(self, place: int, count: int, record: Record) -> None:
        """Fill `count` quarters from `place` on with one record of them all. A quarter of which less than half was
        sampled stays unknown."""
        window, places = record.window, slice(place, place + count)
        length = count * STEP
        covered = min(1.0, window.observed_seconds / length)
        self._put("covered", "", places, covered)
        self.last = _later(self.last, record)
        if record.levels.settings is not None:
            self.reviewed = _later(self.reviewed, record)
        if covered < LEAST_COVERED or window.seconds <= 0:
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


def _later(one: Record | None, other: Record) -> Record:
    """The later one: the records of a tier come after those of a shorter one."""
    return other if one is None or other.until >= one.until else one


def _figures(record: Record) -> Iterator[_Figure]:
    """The figures of a record but the numbers of events."""
    window, levels = record.window, record.levels
    if levels.limited_by:
        yield ("limits", levels.limited_by), 1.0
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


def _of_workers(window: Window) -> Iterator[_Figure]:
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


def _of_worker(window: Window, worker: WorkerWindow) -> Iterator[_Figure]:
    part, observed, seconds = str(worker.worker_id), window.observed_seconds, window.seconds
    yield ("worker requests", part), worker.requests / seconds
    yield ("worker busy", part), _divide_sum([worker.busy_seconds], observed)
    yield ("worker running", part), _divide_sum([worker.running_time], seconds)
    yield ("worker cpu", part), _divide_sum([worker.cpu_seconds], seconds)
    yield ("worker accepting", part), worker.up_seconds / observed
    if window.waits and window.waits.observed_seconds:
        yield ("worker lock", part), _divide_sum([worker.interpreter_lock_seconds], window.waits.observed_seconds)


def _of_cpu(window: Window) -> Iterator[_Figure]:
    if window.cpu and window.cpu.measured_seconds:
        measured = window.cpu.measured_seconds
        yield ("cpu_own", ""), window.cpu.own_seconds / measured
        yield ("cpu_idle", ""), window.cpu.idle_seconds / measured
        yield ("cpu_others", ""), _divide_sum([window.cpu.others_seconds], measured)
    else:
        yield ("cpu_own", ""), _divide_sum([worker.cpu_seconds for worker in window.workers], window.seconds)


def _of_waits(record: Record) -> Iterator[_Figure]:
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


def _of_response_times(record: Record, lost: int) -> Iterator[_Figure]:
    window, times, slo = record.window, record.response_times, record.levels.slo
    requests = sum(worker.requests - worker.static_requests for worker in window.workers)
    # Records of earlier versions have no count of misses: there, what was slow in service or lost has missed it.
    counted = window.judged is not None and window.missed is not None
    if slo and counted:
        yield ("slow", ""), (window.missed or 0) / window.seconds
        yield ("judged", ""), (window.judged or 0) / window.seconds
    if times is None:
        if not counted and requests == 0 and window.configured:
            yield from (((kind, ""), lost / window.seconds) for kind in ("slow", "judged") if slo)
        return
    below = np.cumsum(times.counts)
    below *= times.requests / max(float(below[-1]), 1e-9)  # expected numbers lose a little by rounding
    for bound in {*BUCKET_BOUNDS, *([slo.threshold] if slo else [])}:
        place = times.bins.find(bound)
        if place < len(times.bins.edges) and times.bins.edges[place] == bound:
            yield ("by_time", repr(bound)), float(below[place]) / window.seconds
            if slo and not counted and bound == slo.threshold:
                yield ("slow", ""), (times.requests - float(below[place]) + lost) / window.seconds
    yield ("by_time", "inf"), times.requests / window.seconds
    if slo and not counted:
        yield ("judged", ""), (times.requests + lost) / window.seconds
    found = compute_percentiles(times)
    for share, percentile in found.percentiles.items() if found else ():
        yield ("percentiles", f"{share:g}"), percentile.seconds


def _divide_sum(values: Sequence[float | None], whole: float) -> float | None:
    """The sum of the values, divided; None if a value is unknown or there is none."""
    total = sum_if_all_known(values)
    return None if total is None else ratio(total, whole)


_PLAIN = (
    *("requests", "static", "lost", "busy", "running", "full", "configured", "available", "workers_accepting"),
    *("queue", "queue_full", "cpus", "cpu_own", "cpu_idle", "cpu_others", "memory_per_worker", "memory_available"),
    *("slow", "judged", "reloads", "respawns", "harakiris", "exceptions", "overflows"),
)

_OF_WORKER = ("requests", "busy", "running", "cpu", "accepting", "lock")


def _make_server_data(
    columns: _RecordColumns, name: str, service: str, host: str, events: Iterable[EventMark]
) -> ServerData:
    get, parts = columns.column, columns.parts
    bounds, by_time = split_cumulative({float(text): get("by_time", text) for text in parts("by_time")})
    levels = columns.last.levels if columns.last else None
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
        objective=levels.slo if levels else None,
        waits={part: columns.beside("waits", part, "waits known") for part in parts("waits")},
        backends={part: columns.beside("backends", part, "waits known") for part in parts("backends")},
        routes={part: columns.beside("routes", part, "routes known") for part in parts("routes")},
        limits={part: get("limits", part) for part in parts("limits")},
        by_worker=tuple(
            WorkerColumns(worker_id=number, **{kind: get(f"worker {kind}", str(number)) for kind in _OF_WORKER})
            for number in ids
        ),
        events=tuple(events),
        thunder_lock=levels.thunder_lock if levels else None,
        socket_holders=levels.socket_holders if levels else None,
        settings=columns.reviewed.levels.settings if columns.reviewed else None,
    )
