"""Loads the data of a review from a Prometheus: finds the servers, then asks piece by piece, the latest days first.

A range without servers is an error that says why. What was answered about a server becomes the records that its history
file would have.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from math import ceil, inf
from typing import Any

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS
from uwsgi_headroom.history.window import CpuWindow, RouteWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.record import STATES, SocketHolders
from uwsgi_headroom.report.progress import Progress
from uwsgi_headroom.report.quarters import LEAST_COVERED, STEP, ReviewData, ServerHistory
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi, PrometheusError
from uwsgi_headroom.report.sources.prometheus_queries import (
    CLOCKS,
    OBSERVED,
    Clock,
    ServerSeries,
    Values,
    add_answers,
    find_servers,
    growth_seconds,
    list_foreign_names,
    list_questions,
    select_by_any,
)
from uwsgi_headroom.report.sources.selection import (
    TimeRange,
    describe_clock,
    list_problems,
    refuse_too_many,
    select_servers,
)
from uwsgi_headroom.response_times.bins import Bins, share_bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.record import Levels, Record

ACCEPTING = 0.5
"""A worker that accepted for a smaller part of the quarter has no socket: it ended, or is a reserve."""

TOGETHER = 8
"""The most servers that are asked for at once: scraped every 15 s, a week of them is 15 million samples, of the 50
million that Prometheus accepts."""


def load_prometheus(
    api: PrometheusApi,
    find_range: Callable[[float], TimeRange],
    *,
    servers: Sequence[str] = (),
    services: Sequence[str] = (),
    progress: Progress = lambda _done, _of, _what: None,
) -> ReviewData:
    """The data of the servers and services of these names, or of all; partial if Prometheus fails halfway. find_range:
    makes the range of the present time by the clock of Prometheus. Raises HeadroomError if there is none."""
    progress(0, 1, "find the servers")
    span = find_range(api.read_clock())
    found = find_servers(api, span)
    if not found:
        raise explain_no_servers(api, span)
    chosen = select_servers(found, servers, services)
    refuse_too_many(chosen, span.quarters)
    made: dict[str, list[_Quarter]] = {server.name: [] for server in chosen}
    failure = _ask_all(api, chosen, span, made, progress)
    data = [_make_history(server, made[server.name]) for server in chosen]
    if not any(server.quarters for server in data):
        raise HeadroomError(
            f"{api.url}: {span.nothing_sampled()}",
            ["A review needs half an hour at least: try again later, or a longer --range."],
        )
    problems = [failure, describe_clock(api.clock_ahead, "Prometheus"), *list_problems(data, span)]
    problems += [f"Prometheus warned: {warning}" for warning in api.warnings]
    return ReviewData(
        servers=tuple(data),
        since=span.since,
        until=span.until,
        source=f"Prometheus {api.url}",
        time_zone=span.zone,
        problems=tuple(problem for problem in problems if problem),
        partial=bool(failure),
    )


def _ask_all(
    api: PrometheusApi,
    chosen: Sequence[ServerSeries],
    span: TimeRange,
    made: Mapping[str, list[_Quarter]],
    progress: Progress,
) -> str:
    """Add the quarters of each server, the latest piece first. Returns why it ended early, or an empty text. Raises
    PrometheusError if not even the latest piece is complete."""
    questions = [(group, question) for group in _group(chosen) for question in list_questions(group[0].interval)]
    pieces = span.cut()
    for number, ends in enumerate(pieces):
        answers: dict[str, Values] = {}
        for place, (group, question) in enumerate(questions):
            progress(number * len(questions) + place, len(pieces) * len(questions), question.name.replace("_", " "))
            try:
                series = api.query_range(question.expression(select_by_any(group)), ends[0], ends[-1], STEP)
            except PrometheusError as error:
                if number == 0:
                    raise
                days = (span.until - ends[-1]) / 86400
                return f"Only the last {days:.3g} days are here, the rest is missing: {error}."
            add_answers(answers, question, group, series)
        for server in chosen:
            seconds = growth_seconds(server.interval)
            made[server.name][:0] = [_Quarter(answers.get(server.name, {}), seconds, end) for end in ends]
    return ""


def _group(servers: Sequence[ServerSeries]) -> Iterator[Sequence[ServerSeries]]:
    """Servers that are scraped equally often, a few at a time."""
    ordered = sorted(servers, key=lambda server: (ceil(server.interval), server.name))
    for _, same in groupby(ordered, key=lambda server: ceil(server.interval)):
        equal = list(same)
        yield from (equal[start : start + TOGETHER] for start in range(0, len(equal), TOGETHER))


def explain_no_servers(api: PrometheusApi, span: TimeRange) -> HeadroomError:
    """The error of a range without servers. Raises PrometheusError."""
    foreign = list_foreign_names(api, span.until)
    if foreign and OBSERVED not in foreign:
        return HeadroomError(
            f"{api.url} has metrics of uWSGI, but of another exporter: there is nothing to review",
            ["Run `uwsgi-headroom serve` beside it and have Prometheus scrape it (alerts/MIGRATION.md)."],
        )
    details = ["A review needs Prometheus to scrape the exporter; `uwsgi-headroom report --history FILE` does not."]
    details += ["If it does that, wait until an hour has been scraped, or choose another --range or --until."]
    return HeadroomError(f"{api.url} has no metrics of uwsgi-headroom from {span.show()}", details)


def _make_history(server: ServerSeries, made: Sequence[_Quarter]) -> ServerHistory:
    known = ((quarter.end, quarter.make()) for quarter in made if quarter.sampled >= LEAST_COVERED * STEP)
    return ServerHistory(
        server=server.name,
        service=server.service,
        host=server.host,
        quarters={end: record for end, record in known if record},
        sampled=sum(quarter.sampled for quarter in made),
    )


@lru_cache(maxsize=64)
def _spread_buckets(bounds: tuple[float, ...]) -> tuple[Bins, list[tuple[int, float]]]:
    """Bins in which each bound is an edge, and for each its bucket and its part of the bucket's requests, which are
    spread evenly. The requests above the last bound are at least so slow."""
    bins = share_bins(bounds[:-1])
    buckets = [bisect_left(bounds, middle) for middle in bins.middles]
    widths = [sum(w for w, each in zip(bins.widths, buckets, strict=True) if each == bucket) for bucket in buckets]
    spread = [(bucket, each / whole) for bucket, each, whole in zip(buckets, bins.widths, widths, strict=True)]
    last = buckets.index(len(bounds) - 1)
    above = [(len(bounds) - 1, float(place == last)) for place in range(last, len(bins))]
    return bins, [*spread[:last], *above]


_COUNTS = ("requests", "static_requests", "respawns", "lost")
_TIMES = ("running_time", "busy_seconds", "cpu_seconds", "interpreter_lock_seconds")
"""Figures of a worker."""

_NUMBER, _BOUND = re.compile(r"[0-9]{1,9}"), re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\+Inf")
"""Labels of workers and of buckets."""

REASONS = ("slow", "waited", "lost", "refused")
"""Why requests missed the objective. Earlier versions had the first and the third."""


class _Quarter:
    """The quarter of an hour that ends at `end` (epoch seconds), from what was answered about it.

    sampled: the seconds of the quarter that were. Every growth is of `seconds`, which are a little more than a quarter,
    and extrapolated: so it is divided by that of the exporter's own clock, with or without gaps.
    """

    def __init__(self, answered: Values, seconds: float, end: float) -> None:
        self.end = end
        self._values = {
            query: {part: values[end] for part, values in parts.items() if end in values}
            for query, parts in answered.items()
        }
        self._factors: dict[Clock, float] = {"level": 1.0}
        observed, gap, waits = (self._value(query) or 0.0 for query in ("observed", "gap", "wait_observed"))
        self.sampled = STEP * min(1.0, max(0.0, observed / seconds))
        self._factors["sampled"] = ratio(self.sampled, observed) or 0.0
        self._factors["waits"] = ratio(self.sampled, waits) or 0.0
        self._factors["whole"] = ratio(STEP, observed + gap) or 0.0

    def make(self) -> Record | None:
        """The record; None if nothing is known of the workers."""
        window, routes = self._window(), self._parts("routes")
        if not window.workers:
            return None
        return Record(
            until=self.end,
            window=window,
            response_times=self._response_times(),
            routes=RouteWindow(self.sampled, routes) if routes else None,
            levels=self._levels(),
        )

    def _parts(self, query: str) -> dict[str, float]:
        """The growths of all parts, such as workers, in the whole quarter; or their levels."""
        clock, values = CLOCKS[query], self._values.get(query, {})
        if clock == "level":
            return values
        return {part: max(0.0, growth) * self._factors[clock] for part, growth in values.items()}

    def _value(self, query: str) -> float | None:
        """That of a query without parts."""
        return self._parts(query).get("")

    def _count(self, query: str) -> int | None:
        """A whole number, of all parts together."""
        values = self._parts(query).values()
        return round(sum(values)) if values else None

    def _window(self) -> Window:
        missed = self._parts("missed")
        known: dict[str, Any] = {
            query: self._count(query) for query in ("overflows", "configured", "available", "judged")
        }
        if known["judged"] is not None:
            known |= {f"missed_{reason}": round(missed.get(reason, 0.0)) for reason in REASONS}
        return Window(
            asked=STEP,
            seconds=STEP,
            until=self.end,
            observed_seconds=self.sampled,
            full_seconds=min(self.sampled, self._value("full_seconds") or 0.0),
            gap_seconds=STEP - self.sampled,
            workers=tuple(self._workers()),
            queue_seconds=self._parts("queue_seconds"),
            queue_full_seconds=self._parts("queue_full_seconds"),
            occupancy=(0,) * (len(OCCUPANCY_BOUNDS) + 1),
            cpu=self._cpu(),
            waits=self._waits(),
            **{query: self._count(query) or 0 for query in ("reloads", "exceptions", "harakiris", "respawns")},
            **known,
        )

    def _workers(self) -> Iterator[WorkerWindow]:
        counts: dict[str, Any] = {name: self._parts(name) for name in _COUNTS}
        times: dict[str, Any] = {name: self._parts(name) for name in _TIMES}
        for part in sorted(filter(_NUMBER.fullmatch, counts["requests"]), key=int):
            yield WorkerWindow(
                worker_id=int(part),
                up_seconds=self._parts("accepting").get(part, 0.0) * self.sampled,
                **{name: round(parts.get(part, 0.0)) for name, parts in counts.items()},
                **{name: parts.get(part) for name, parts in times.items()},
            )

    def _waits(self) -> WaitWindow | None:
        seconds = self._parts("waits")
        known = {state: seconds[state] for state in STATES if seconds.get(state)}
        return WaitWindow(self.sampled, 0.0, known, self._parts("backends")) if known else None

    def _cpu(self) -> CpuWindow | None:
        own, idle, others = (self._value(query) for query in ("own_seconds", "idle_seconds", "others_seconds"))
        return None if own is None or idle is None else CpuWindow(self.sampled, own, idle, others)

    def _response_times(self) -> ResponseTimeWindow | None:
        growths = self._parts("by_time").items()
        buckets = {float(le): growth for le, growth in growths if _BOUND.fullmatch(le) and float(le) > 0}
        requests = round(buckets.get(inf, 0.0))
        if not requests:
            return None
        bounds = tuple(sorted(buckets))
        numbers = [max(0.0, buckets[high] - buckets.get(low, 0.0)) for low, high in pairwise((0.0, *bounds))]
        bins, spread = _spread_buckets(bounds)
        counts = array("f", [numbers[bucket] * part for bucket, part in spread])
        return ResponseTimeWindow(bins, 0.0, requests, counts, array("f", [0.0] * len(bins)))

    def _levels(self) -> Levels:
        threshold, objective = self._value("threshold") or 0.0, self._value("objective") or 0.0
        lock, limits = self._value("thunder_lock"), self._parts("limits")
        return Levels(
            cpus=self._value("cpus"),
            memory_available=self._count("memory_available"),
            memory_per_worker=self._count("memory_per_worker") or self._count("resident"),
            thunder_lock=None if lock is None else bool(lock),
            slo=Slo(threshold, objective) if threshold > 0 and 0 < objective < 1 else None,
            socket_holders=self._socket_holders(),
            limited_by=next((code for code, share in limits.items() if share >= MOSTLY), None),
        )

    def _socket_holders(self) -> SocketHolders | None:
        """One socket for each worker, where every one that accepts has its own; which do is not known."""
        shares = self._parts("accepting").items()
        accepting = [part for part, share in shares if share >= ACCEPTING and _NUMBER.fullmatch(part)]
        if len(accepting) < 2 or (self._value("own_sockets") or 0.0) < len(accepting):
            return None
        return {f"the socket of worker {part}": (int(part),) for part in accepting}
