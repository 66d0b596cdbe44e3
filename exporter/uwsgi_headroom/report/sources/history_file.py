"""Loads the data of a review from history files of exporters: quarters of an hour, minutes where these are not merged
yet, and hours where nothing finer is kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import NoReturn

import numpy as np

from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.report.model import STEP, EventMark, Query, ReviewData, ServerData
from uwsgi_headroom.report.sources.events import SHOWN_KINDS
from uwsgi_headroom.report.sources.from_records import RecordColumns, make_server_data
from uwsgi_headroom.report.sources.problems import describe_clock, list_problems
from uwsgi_headroom.report.sources.progress import Progress
from uwsgi_headroom.report.sources.selection import refuse_too_many, select_servers
from uwsgi_headroom.report.sources.time_range import TimeRange
from uwsgi_headroom.store.reader import HistoryFile, StoredServer
from uwsgi_headroom.store.record import Record, merge_records
from uwsgi_headroom.words.formats import duration

MINUTE, QUARTER, HOUR = 60, round(STEP), 3600


@dataclass(frozen=True, slots=True)
class _Source:
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
        once: dict[Path, Path] = {}  # a file that is given twice is one machine
        for path in paths:
            once.setdefault(path.resolve(), path)
        files = {path: stack.enter_context(HistoryFile(path, time.time())) for path in once.values()}
        found = list(_list_servers(files))
        if not found:
            _explain_empty(files)
        span = find_range(max(source.last for source in found))
        chosen = select_servers(found, servers, services)
        refuse_too_many(chosen, round((span.until - span.since) / STEP))
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
    """The end of the last record in epoch seconds. stored.last may be the end of an hour that is still to come."""
    ends = []
    with suppress(HistoryFileError):  # what is damaged is reported when it is needed
        for tier in (MINUTE, QUARTER):
            ends += [record.until for record in file.records(stored.name, stored.last - HOUR, stored.last, tier)]
    return max(ends, default=stored.last)


def _show_part(progress: Progress, done: int, chosen: Sequence[_Source], part: float) -> None:
    """Show that a part of a server is read, after `done` others."""
    progress(round(100 * (done + part)), 100 * len(chosen), chosen[done].name)


def _load(
    source: _Source, span: TimeRange, damages: list[str], notes: list[str], show_part: Callable[[float], None]
) -> tuple[ServerData, int]:
    """The columns of a server, and how many records they are made of. Adds sentences about what cannot be read, and
    about what is known less exactly. show_part: is called with the part that is read."""
    quarters = round((span.until - span.since) / STEP)
    columns = RecordColumns(np.asarray(span.since + STEP * np.arange(1, quarters + 1), dtype=np.float64))
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
    return make_server_data(columns, source.name, source.service, source.host, marks), records


def _place(records: Iterator[Record], tier: int) -> Iterator[tuple[float, Record]]:
    """The records with the end of their slot. A record ends shortly after its slot, or, if an exporter ended, in it."""
    before = 0
    for record in records:
        slot = max(before + 1, ceil(record.until // MINUTE * MINUTE / tier))
        yield slot * tier, record
        before = slot


def _fill(columns: RecordColumns, span: TimeRange, end: float, count: int, record: Record) -> int:
    """Fill the quarters of a record that are in the range and unknown; whether there were any."""
    last = round((end - span.since) / STEP)
    places = [place for place in range(last - count, last) if 0 <= place < len(columns.time)]
    free = [place for place in places if np.isnan(columns.column("covered")[place])]
    if len(free) < count:
        return 0
    columns.fill(places[0], count, record)
    return 1


def _missing(columns: RecordColumns) -> list[tuple[int, int]]:
    """The runs of quarters without a record: first, and last (exclusive)."""
    unknown = np.concatenate([[False], np.isnan(columns.column("covered")), [False]])
    edges = np.flatnonzero(unknown[1:] != unknown[:-1])
    return [(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _fill_from_minutes(columns: RecordColumns, source: _Source, span: TimeRange, first: int, last: int) -> int:
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
    reach = TimeRange(min(each.first for each in chosen), max(each.last for each in chosen), span.zone)
    return (
        f"no quarter of an hour was sampled for at least half of it from {span.show()}",
        [f"The records of these servers are from {reach.show()}.", "A review needs half an hour of them at least."],
    )
