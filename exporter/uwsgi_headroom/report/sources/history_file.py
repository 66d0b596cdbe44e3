"""Loads the data of a review from history files of exporters: quarters of an hour, minutes where these are not merged
yet, and hours where nothing finer is kept.

What cannot be read is a problem of the review, which is then partial; what can be read is reviewed.
"""

from __future__ import annotations

import os
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, groupby
from math import ceil
from pathlib import Path

from msgspec.structs import replace

from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.report.quarters import LEAST_COVERED, STEP, Progress, ReviewData, ServerHistory
from uwsgi_headroom.report.sources.selection import Named, TimeRange, describe_clock, list_problems, select_servers
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.store.file import HistoryFile, StoredServer
from uwsgi_headroom.store.record import Record, merge_records
from uwsgi_headroom.words.formats import counted, duration

MINUTE, QUARTER, HOUR = 60, round(STEP), 3600


class _Source(Named, frozen=True):
    """A server of a file. stored: its name in the file; host: the file's name if there are several."""

    file: HistoryFile
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
    """The data of the servers and services of these names, or of all. Servers of one name in several files are one
    service. find_range: makes the range of the time at which the records end. Raises HeadroomError if there is none."""
    with ExitStack() as stack:
        once: dict[str, Path] = {}  # a file that is given twice is one machine
        for path in paths:
            once.setdefault(os.path.realpath(path), path)
        files = {path: stack.enter_context(HistoryFile(path, time.time())) for path in once.values()}
        found = list(_list_servers(files))
        if not found:
            raise HeadroomError(f"{', '.join(map(str, files))}: no server has been recorded yet")
        span = find_range(max(source.last for source in found))
        chosen = select_servers(found, servers, services, span.quarters)
        damages: list[str] = []
        notes: list[str] = []
        data = []
        for done, source in enumerate(chosen):
            progress(done, len(chosen), source.name)
            data.append(_load(source, span, damages, notes))
        if not any(server.quarters for server in data):
            raise HeadroomError(*_explain_nothing(chosen, span, damages))
    ahead = max(source.last for source in chosen) - time.time()
    clock = describe_clock(max(0.0, ahead), "the history file's exporter")
    return ReviewData(
        servers=tuple(data),
        since=span.since,
        until=span.until,
        source=f"history file {', '.join(str(path) for path in paths)}",
        time_zone=span.zone,
        problems=(*damages, *notes, *filter(None, [clock]), *list_problems(data, span)),
        partial=bool(damages),
    )


def _list_servers(files: Mapping[Path, HistoryFile]) -> Iterator[_Source]:
    stems = Counter(path.stem for path in files)
    for path, file in files.items():
        host = path.stem if stems[path.stem] == 1 else str(path)
        for stored in file.servers():
            last = _find_last(file, stored)
            named = (f"{stored.name} {host}", stored.name, host) if len(files) > 1 else (stored.name, "", "")
            yield _Source(*named, file, stored.name, stored.first, last)


def _find_last(file: HistoryFile, stored: StoredServer) -> float:
    """The end of the last record in epoch seconds. stored.last is only that of the last minute that is not damaged, or
    the end of a slot that is still to come."""
    ends = []
    with suppress(HistoryFileError):  # what is damaged is reported when it is needed
        for tier in (MINUTE, QUARTER):
            records = file.records(stored.name, stored.last - HOUR, stored.last + QUARTER, tier)
            ends += [record.until for record in records]
    return max(ends, default=stored.last)


def _load(source: _Source, span: TimeRange, damages: list[str], notes: list[str]) -> ServerHistory:
    """The history of a server. Adds sentences about what cannot be read, and about what is known less exactly."""
    slots: dict[float, Record] = {}
    hours: dict[float, Record] = {}
    file, damaged = source.file, source.file.damaged
    try:
        slots.update(_place(file.records(source.stored, span.since, span.until, QUARTER), QUARTER))
        for first, last in _find_gaps(slots, span):
            slots.update(_merge_minutes(source, first, last))
        hours = _read_hours(slots, source, span)
        if hours:
            notes.append(
                f"{source.name}: of the first {duration(len(hours) * STEP)}, the file keeps hours only: a peak within "
                "an hour is higher than its mean, which is shown there."
            )
    except HistoryFileError as error:
        damages.append(f"{source.name}: a part of the records cannot be read: {error}.")
    if lost := file.damaged - damaged:
        damages.append(f"{source.name}: {counted(lost, 'record')} {'is' if lost == 1 else 'are'} damaged and left out.")
    covered = {end: _cover(record, HOUR) for end, record in hours.items()}
    covered |= {end: _cover(record, QUARTER) for end, record in slots.items()}
    ends = [end for end in span.ends() if covered.get(end, 0.0) >= LEAST_COVERED]
    quarters, sampled = {end: slots.get(end) or hours[end] for end in ends}, STEP * sum(covered.values())
    return copy_fields(ServerHistory, source, server=source.name, quarters=quarters, sampled=sampled)


def _cover(record: Record, seconds: float) -> float:
    return min(1.0, record.window.observed_seconds / seconds) if record.window.seconds > 0 else 0.0


def _place(records: Iterator[Record], tier: int) -> Iterator[tuple[float, Record]]:
    """The records, with half of the memory, and the end of their slot. A record ends shortly after its slot, or, if an
    exporter ended, in it."""
    before = 0
    for record in records:
        before = max(before + 1, ceil(record.until // MINUTE * MINUTE / tier))
        if times := record.response_times:
            times = replace(times, counts=array("f", times.counts), doubt=array("f", times.doubt))
        yield float(before * tier), replace(record, response_times=times)


def _find_gaps(slots: Mapping[float, Record], span: TimeRange) -> Iterator[tuple[float, float]]:
    """The times without a record (epoch seconds)."""
    begin = span.since
    for end in chain(sorted(slots), [span.until + STEP]):
        if begin < end - STEP:
            yield begin, end - STEP
        begin = end


def _merge_minutes(source: _Source, since: float, until: float) -> Iterator[tuple[float, Record]]:
    minutes = _place(source.file.records(source.stored, since, until, MINUTE), MINUTE)
    for quarter, placed in groupby(minutes, key=lambda pair: ceil(pair[0] / STEP)):
        yield quarter * STEP, merge_records([record for _, record in placed])


def _read_hours(slots: Mapping[float, Record], source: _Source, span: TimeRange) -> dict[float, Record]:
    reach = {tier: first for tier, (first, _) in source.file.reach(source.stored).items()}
    until = min([span.until, *(reach[tier] - tier for tier in (MINUTE, QUARTER) if tier in reach)])
    if HOUR not in reach or reach[HOUR] - HOUR >= until:
        return {}
    found: dict[float, Record] = {}
    for end, record in _place(source.file.records(source.stored, span.since, until, HOUR), HOUR):
        quarters = [end - STEP * place for place in (3, 2, 1, 0)]
        if quarters[0] > span.since and not any(quarter in slots for quarter in quarters):
            found.update(dict.fromkeys(quarters, record))
    return found


def _explain_nothing(chosen: Sequence[_Source], span: TimeRange, problems: Sequence[str]) -> tuple[str, Sequence[str]]:
    if problems:
        return problems[0].removesuffix("."), problems[1:]
    # `first` is the end of a minute, which may not be over yet.
    reach = TimeRange(min(each.first for each in chosen) - MINUTE, max(each.last for each in chosen), span.zone)
    details = f"The records of these servers are from {reach.show()}.", "A review needs half an hour of them at least."
    return span.nothing_sampled(), details
