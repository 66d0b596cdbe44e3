"""Section 3: what users felt: response times, waiting in the listen queue, lost requests, the objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.report.quarters import (
    STEP,
    Absent,
    ServerHistory,
    count_refused,
    count_requests,
    count_timed,
    divide_known,
    mean_busy,
    queue_full_seconds,
    running_seconds,
    sum_known,
)
from uwsgi_headroom.report.render import document as doc
from uwsgi_headroom.report.render.charts import shade
from uwsgi_headroom.report.render.document import Block, Table, Text, absent
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.store.record import Record, merge_records
from uwsgi_headroom.words.formats import duration, fine_percent
from uwsgi_headroom.words.template import fill

LEAST_FOR_A_MAP = 2 * 96
"""Quarter hours with data from which on a map of the week shows more than single hours."""

FEWEST = 100
"""Fewest requests for a burn rate, as in `analysis.objective`."""


class Felt(Struct, frozen=True, kw_only=True):
    """What users felt in some time: seconds in service (percentiles by name, such as `p95`), and in the listen queue
    before."""

    mean: float | None
    percentiles: Mapping[str, float]
    queue_wait: float | None


class ObjectiveUse(Struct, frozen=True, kw_only=True):
    """A service level objective over the range. bad: share of the requests that missed it; budget: the share of the
    range's error budget that they used."""

    threshold: float
    objective: float
    requests: float
    bad: float
    budget: float


class Users(Struct, frozen=True, kw_only=True):
    """What users felt. Numbers are over the range. queue_full: share of the time with a full queue, of the server with
    most; refused: connections that the servers' own TCP queues dropped. load, response_time: by weekday (Monday first)
    and hour, the share of the threads in service, and the mean in seconds."""

    requests: int
    whole: Felt
    at_peak: Felt
    queue_full: float | None
    refused: float | None
    lost: int
    harakiris: int
    exceptions: int
    objective: ObjectiveUse | Absent
    load: tuple[tuple[float | None, ...], ...] | Absent
    response_time: tuple[tuple[float | None, ...], ...] | Absent


def review_users(peaks: Peaks) -> Users:
    servers = peaks.service.servers
    records = [record for server in servers for record in server.records]
    windows = [record.window for record in records]
    return Users(
        requests=sum(map(count_requests, records)),
        whole=_feel([merge_records(server.records) for server in servers if server.records], records),
        at_peak=_feel(peaks.at_peak, peaks.at_peak),
        queue_full=max((share for share in map(find_full_share, servers) if share is not None), default=None),
        refused=sum_known(map(count_refused, records)),
        lost=sum(worker.lost for each in windows for worker in each.workers),
        harakiris=sum(each.harakiris for each in windows),
        exceptions=sum(each.exceptions for each in windows),
        objective=_judge_objective(records),
        load=_map(servers, peaks.zone, mean_busy, lambda record: record.window.available),
        response_time=_map(servers, peaks.zone, running_seconds, count_timed),
    )


def _feel(merged: Sequence[Record], records: Sequence[Record]) -> Felt:
    """merged: a record of each server; records: those that it was merged of, where what is unknown in one does not hide
    the others."""
    return Felt(
        mean=divide_known(records, running_seconds, count_timed),
        percentiles=_find_percentiles([record for record in merged if record.response_times]),
        queue_wait=divide_known(records, _queue_seconds, count_requests),
    )


def _find_percentiles(timed: Sequence[Record]) -> dict[str, float]:
    found = timed and compute_percentiles(merge_records(timed).response_times)
    if not found:
        return {}
    return {f"p{100 * each.share:g}": each.seconds for each in found.percentiles if each.seconds is not None}


def _queue_seconds(record: Record) -> float | None:
    window = record.window
    if not window.queue_seconds:
        return None
    return sum(window.queue_seconds.values()) * window.seconds / window.observed_seconds


def find_full_share(server: ServerHistory) -> float | None:
    return divide_known(server.records, queue_full_seconds, lambda record: record.window.observed_seconds)


def count_missed(record: Record) -> tuple[float, float] | None:
    """Requests that count for the objective, and those that missed it; None if unknown. Earlier versions have no count:
    there, what was slow in service or lost has missed it."""
    window, times, slo = record.window, record.response_times, record.levels.slo
    if slo is None:
        return None
    if window.judged is not None and window.missed is not None:
        return window.judged, window.missed
    lost = sum(worker.lost for worker in window.workers)
    if times is None:
        return None if count_requests(record) else (lost, lost)
    slow = sum(times.counts[times.bins.find(slo.threshold) + 1 :])
    return times.requests + lost, slow + lost


def _judge_objective(records: Sequence[Record]) -> ObjectiveUse | Absent:
    """Of the records with the objective that was set last."""
    slo = next((record.levels.slo for record in reversed(records) if record.levels.slo), None)
    if slo is None:
        return Absent(reason="No service level objective is set (`--slo`), so none is judged.")
    counts = [count_missed(record) or (0.0, 0.0) for record in records if record.levels.slo == slo]
    requests, missed = (sum(column) for column in zip(*counts, strict=True))
    if requests < FEWEST:
        return Absent(reason=f"Too few requests were judged by the objective: {requests:.0f}, and {FEWEST} are needed.")
    bad = missed / requests
    return copy_fields(ObjectiveUse, slo, requests=requests, bad=bad, budget=bad / (1 - slo.objective))


_DAYS, _HOURS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), range(24)


def _map(
    servers: Sequence[ServerHistory],
    zone: ZoneInfo,
    part: Callable[[Record], float | None],
    whole: Callable[[Record], float | None],
) -> tuple[tuple[float | None, ...], ...] | Absent:
    """Sum over sum by weekday and hour of the local clock, of the quarters in which both are known."""
    cells: dict[tuple[int, int], list[Record]] = {}
    for server in servers:
        for end, record in server.quarters.items():
            start = datetime.fromtimestamp(end - STEP, zone)
            cells.setdefault((start.weekday(), start.hour), []).append(record)
    if max(len(server.quarters) for server in servers) < LEAST_FOR_A_MAP:
        return Absent(reason="A map of weekdays and hours needs two days of data.")
    return tuple(
        tuple(divide_known(cells.get((day, hour), []), part, whole) for hour in _HOURS) for day in range(len(_DAYS))
    )


INTRODUCTION = "Seconds in uWSGI, and in the listen queue before. The network is not included."

OBJECTIVE = (
    "Objective: {objective} of the requests within {threshold:chosen}. {bad:fine_percent} missed it (too slow with "
    "the wait, lost or refused), {budget:fine_percent} of the error budget: it was [kept? kept][not kept? missed]."
)


def write(users: Users) -> Iterator[Block]:
    names = ("p50", "p90", "p95", "p99")
    yield Table(
        heads=("", *names, "mean", "queue wait", "both"),
        rows=[_times("over the range", users.whole, names), _times("at peak", users.at_peak, names)],
        caption="p95: 95 of 100 requests are in service for no longer. Queue wait, both: means.",
        numbers=range(1, 8),
    )
    if not users.whole.percentiles:
        yield Text("Percentiles are not known: the source has no response times by bound.", "absent")
    numbers = (users.requests, users.lost, users.harakiris, users.exceptions)
    yield Table(
        heads=("requests", "lost with their worker", "killed by harakiri", "exceptions", "queue full", "refused"),
        rows=[(*map(doc.amount, numbers), doc.show(fine_percent, users.queue_full), doc.amount(users.refused))],
        caption="Queue full: share of the time, on the server with most. Refused: dropped at full TCP queues.",
        numbers=range(6),
    )
    yield _say_objective(users.objective)
    for title, found, factor in (
        ("Threads in service, of those available (%)", users.load, 100),
        ("Mean response time (ms)", users.response_time, 1000),
    ):
        if isinstance(found, Absent):
            yield absent(found)
            return
        yield _draw_map(title, found, factor)


def _times(name: str, felt: Felt, names: Sequence[str]) -> tuple[str, ...]:
    percentiles = [doc.show(duration, felt.percentiles.get(each)) for each in names]
    both = sum_if_all_known([felt.mean, felt.queue_wait])
    return (name, *percentiles, *(doc.show(duration, each) for each in (felt.mean, felt.queue_wait, both)))


def _say_objective(objective: ObjectiveUse | Absent) -> Text:
    if isinstance(objective, Absent):
        return absent(objective)
    facts = {name: getattr(objective, name) for name in ("threshold", "bad", "budget")}
    facts |= {"objective": f"{100 * objective.objective:g} %", "kept": objective.budget <= 1}
    return Text(fill(OBJECTIVE, facts))


def _draw_map(title: str, found: Sequence[Sequence[float | None]], factor: float) -> Table:
    rows = [["" if value is None else f"{factor * value:.0f}" for value in row] for row in found]
    return Table(
        heads=("", *map(str, _HOURS)),
        rows=[(day, *row) for day, row in zip(_DAYS, rows, strict=True)],
        caption=f"{title}, by weekday and hour.",
        numbers=range(1, 25),
        style="map",
        shades=[["", *row] for row in shade(found)],
    )
