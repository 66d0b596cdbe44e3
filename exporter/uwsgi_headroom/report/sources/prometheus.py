"""Loads the data of a review from a Prometheus: finds the servers, then asks piece by piece, the latest days first.

A range without servers is an error that says why. What was answered about a server becomes its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import ceil

import numpy as np

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS
from uwsgi_headroom.record import AdviceSeverity, SocketHolders
from uwsgi_headroom.report.columns import (
    LEAST_COVERED,
    PERCENTILES,
    STEP,
    Column,
    EventMark,
    ReviewData,
    ServerData,
    WorkerColumns,
    add_all,
    add_known,
    divide,
    last_known,
    split_cumulative,
)
from uwsgi_headroom.report.sources.progress import Progress
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi, PrometheusError
from uwsgi_headroom.report.sources.prometheus_queries import (
    OBSERVED,
    WINDOWS,
    Answers,
    ServerAnswers,
    ServerSeries,
    choose_window,
    find_servers,
    growth_seconds,
    list_foreign_names,
    list_questions,
    select_by_any,
)
from uwsgi_headroom.report.sources.selection import (
    SHOWN_KINDS,
    TimeRange,
    describe_clock,
    list_problems,
    refuse_too_many,
    select_servers,
)

PIECE = 7 * 86400.0
"""Seconds of a range that are asked for at once: 672 values of a series."""

ACCEPTING = 0.5
"""A worker that accepted for a smaller part of the last quarter of an hour has no socket: it ended, or is in cheaper
mode's reserve."""

TOGETHER = 8
"""The most servers that are asked for at once: 4 workers each are 32 series, or 380 by response time. Scraped every 15
s, these have 15 million samples in a piece; Prometheus refuses queries of more than 50 million."""


def load_prometheus(
    api: PrometheusApi,
    find_range: Callable[[float], TimeRange],
    *,
    servers: Sequence[str] = (),
    services: Sequence[str] = (),
    progress: Progress = lambda _done, _of, _what: None,
) -> ReviewData:
    """The data of the servers and services of these names, or of all. If Prometheus fails after a part of the range,
    the data is partial. find_range: makes the range of the present time by the clock of Prometheus (epoch seconds).
    Raises HeadroomError if there is nothing to review."""
    progress(0, 1, "find the servers")
    span = find_range(api.read_clock())
    found = find_servers(api, span.since, span.until)
    if not found:
        raise explain_no_servers(api, span)
    chosen = select_servers(found, servers, services)
    refuse_too_many(chosen, span.quarters)
    answers = Answers(span.quarters)
    failure = _ask_all(api, chosen, span, answers, progress)
    data = [_Maker(server, answers.of(server), span.ends()).make() for server in chosen]
    if not any(np.isfinite(server.requests).any() for server in data):
        raise HeadroomError(
            f"{api.url}: {span.nothing_sampled()}",
            ["A review needs half an hour at least: try again later, or a longer --range."],
        )
    problems = [failure, describe_clock(api.clock_ahead, "Prometheus"), *list_problems(data, span.zone)]
    problems += [f"Prometheus warned: {warning}" for warning in api.warnings]
    return ReviewData(
        servers=tuple(data),
        since=span.since,
        until=span.until,
        source=f"Prometheus {api.url}",
        time_zone=span.zone,
        queries=api.log.queries(),
        problems=tuple(problem for problem in problems if problem),
        partial=bool(failure),
    )


def _ask_all(
    api: PrometheusApi, chosen: Sequence[ServerSeries], span: TimeRange, answers: Answers, progress: Progress
) -> str:
    """Fill the answers, the latest piece of the range first. Returns why it ended early, or an empty text. Raises
    PrometheusError if not even the latest piece is complete."""
    window = _find_window(api, span)
    groups = list(_group(chosen))
    pieces = list(_cut(answers.quarters))
    steps = len(pieces) * sum(len(list_questions(group[0].interval, window)) for group in groups)
    done = 0
    for first, last in pieces:
        complete = []
        for group in groups:
            for question in list_questions(group[0].interval, window):
                progress(done, steps, question.name.replace("_", " "))
                done += 1
                begin = span.since + first * STEP + question.step
                end = span.since + last * STEP
                expression = question.expression(select_by_any(group))
                try:
                    series = api.query_range(expression, question.expression("..."), begin, end, question.step)
                except PrometheusError as error:
                    if last == answers.quarters:
                        raise
                    days = (answers.quarters - last) * STEP / 86400
                    return f"Only the last {days:.3g} days are here, the rest is missing: {error}."
                complete.append((question, group, series))
        for question, group, series in complete:
            answers.add(question, group, series, first)
    progress(steps, steps, "done")
    return ""


def _find_window(api: PrometheusApi, span: TimeRange) -> str | None:
    """The window of the percentiles to use, of those that exist at the end of some day."""
    day = 86400.0
    first = min(span.until, span.since + day)
    last = first + (span.until - first) // day * day
    found = api.query_range(WINDOWS, WINDOWS, first, last, day)
    found += api.query_range(WINDOWS, WINDOWS, span.until, span.until, day)
    return choose_window(sorted({series.labels.get("window", "") for series in found}))


def _group(servers: Sequence[ServerSeries]) -> Iterator[Sequence[ServerSeries]]:
    """Servers that are scraped equally often, a few at a time."""
    ordered = sorted(servers, key=lambda server: (ceil(server.interval), server.name))
    for _, same in groupby(ordered, key=lambda server: ceil(server.interval)):
        equal = list(same)
        yield from (equal[start : start + TOGETHER] for start in range(0, len(equal), TOGETHER))


def _cut(quarters: int) -> Iterator[tuple[int, int]]:
    """Pieces of the range, as the first quarter and the last one (exclusive), the latest first."""
    size = round(PIECE / STEP)
    for last in range(quarters, 0, -size):
        yield max(0, last - size), last


_GO_EXPORTER = ("uwsgi_worker_core_busy", "uwsgi_worker_busy", "uwsgi_worker_delta_requests", "uwsgi_worker_cores")


def explain_no_servers(api: PrometheusApi, span: TimeRange) -> HeadroomError:
    """The error of a range without servers. Raises PrometheusError."""
    names = list_foreign_names(api, span.until)
    if OBSERVED in names:  # scraped in the last minutes only
        return HeadroomError(f"{api.url} has too little data yet", ["Wait until an hour has been scraped."])
    if names:
        other = "uwsgi_exporter, the common one in Go" if names.intersection(_GO_EXPORTER) else "another exporter"
        return HeadroomError(
            f"{api.url} has metrics of uWSGI ({len(names)} names), but of {other}: they have no time in service, so "
            "there is nothing to review",
            [
                "Run `uwsgi-headroom serve` beside it and have Prometheus scrape it: most names stay the same.",
                "alerts/MIGRATION.md lists those that differ; alerts/rules/compat-uwsgi-exporter.yaml records them, so "
                "that your dashboards go on working.",
            ],
        )
    details = ["A review needs Prometheus to scrape the exporter; `uwsgi-headroom report --history FILE` does not."]
    try:
        later = api.query_range(OBSERVED, OBSERVED, api.now() // 60 * 60, api.now() // 60 * 60, 60.0)
    except PrometheusError:
        later = []
    if later:
        details = [f"It has data of {len(later)} servers now: is the range right (--range, --until)?"]
    return HeadroomError(f"{api.url} has no metrics of uwsgi-headroom from {span.show()}", details)


class _Maker:
    """Makes the columns of a server from what was answered about it. time: the ends of the quarters.

    observed, seconds: growth of the exporter's clocks in a quarter, with and without gaps; nan where less than
    LEAST_COVERED of the quarter was sampled, and so is everything that is divided by them.
    """

    def __init__(self, server: ServerSeries, answers: ServerAnswers, time: Column) -> None:
        self._server, self._answers, self._time = server, answers, time
        observed = answers.column("observed")
        self._covered = np.nan_to_num(np.clip(observed / growth_seconds(server.interval), 0.0, 1.0))
        self._known = self._covered >= LEAST_COVERED
        self._observed = np.where(self._known, observed, np.nan)
        self._seconds = self._observed + np.nan_to_num(answers.column("gap"))
        self._wait_observed = np.where(self._known, answers.column("wait_observed"), np.nan)

    def make(self) -> ServerData:
        workers = self._workers()
        requests = [worker.requests for worker in workers]
        length = len(self._time)
        cpu = add_all([worker.cpu for worker in workers], requests, length)
        bounds, by_time = self._histogram("by_time")
        own, unique = self._share("cpu_own"), self._level("memory_per_worker")
        return ServerData(
            server=self._server.name,
            service=self._server.service,
            host=self._server.host,
            time=self._time,
            covered=self._covered,
            requests=add_known(requests, length),
            static=add_known([self._rate_of(self._answers.part("worker_static", i)) for i in self._ids()], length),
            lost=self._rate("lost"),
            busy=add_all([worker.busy for worker in workers], requests, length),
            running=add_all([worker.running for worker in workers], requests, length),
            full=np.clip(self._share("full"), 0.0, 1.0),
            occupancy=self._occupancy(),
            configured=self._level("configured"),
            available=self._level("available"),
            workers_accepting=add_known([worker.accepting for worker in workers], length),
            queue=self._share("queue"),
            queue_full=np.clip(self._share("queue_full"), 0.0, 1.0),
            cpus=self._level("cpus"),
            cpu_own=np.where(np.isnan(own), cpu, own),
            cpu_idle=self._share("cpu_idle"),
            cpu_others=self._share("cpu_others"),
            memory_per_worker=np.where(np.isnan(unique), self._level("resident"), unique),
            memory_available=self._level("memory_available"),
            bounds=bounds,
            by_time=by_time,
            percentiles=self._percentiles(),
            objective=self._objective(),
            slow=self._rate("slow"),
            judged=self._rate("judged"),
            reloads=self._count("reloads"),
            respawns=self._count("respawns"),
            harakiris=self._count("harakiris"),
            exceptions=self._count("exceptions"),
            overflows=self._count("overflows"),
            waits=self._by_name("waits", self._wait_observed),
            backends=self._by_name("backends", self._wait_observed),
            routes=self._by_name("routes", self._observed),
            limits={code: self._answers.part("limits", code) for code in self._answers.parts("limits")},
            by_worker=workers,
            events=self._events(),
            thunder_lock=None if (lock := self._answers.last("thunder_lock")) is None else bool(lock),
            socket_holders=self._socket_holders(workers),
            settings=self._settings(),
        )

    def _settings(self) -> Mapping[str, AdviceSeverity] | None:
        """What the rules said when the settings were last reviewed."""
        reviewed = np.flatnonzero(np.isfinite(self._answers.column("settings_reviewed")))
        if not len(reviewed):
            return None
        said = {rule: self._answers.part("settings", rule)[reviewed[-1]] for rule in self._answers.parts("settings")}
        return {rule: "warning" if value > 1 else "info" for rule, value in said.items() if value > 0}

    def _socket_holders(self, workers: Sequence[WorkerColumns]) -> SocketHolders | None:
        """One socket for each worker, where every one that accepts has sockets of its own. Where only some do, it is
        not known which."""
        accepting = [worker.worker_id for worker in workers if (last_known(worker.accepting) or 0.0) >= ACCEPTING]
        if len(accepting) < 2 or (self._answers.last("own_sockets") or 0.0) < len(accepting):
            return None
        return {f"the socket of worker {worker_id}": (worker_id,) for worker_id in accepting}

    def _ids(self) -> list[str]:
        ids = [text for text in self._answers.parts("worker_requests") if text.isascii() and text.isdigit()]
        return sorted(ids, key=int)

    def _workers(self) -> tuple[WorkerColumns, ...]:
        def share(query: str, worker_id: str) -> Column:
            return divide(self._answers.part(query, worker_id), self._observed)

        return tuple(
            WorkerColumns(
                worker_id=int(worker_id),
                requests=self._rate_of(self._answers.part("worker_requests", worker_id)),
                busy=share("worker_busy", worker_id),
                running=self._rate_of(self._answers.part("worker_running", worker_id)),
                cpu=self._rate_of(self._answers.part("worker_cpu", worker_id)),
                accepting=np.where(self._known, self._answers.part("worker_accepting", worker_id), np.nan),
                lock=divide(self._answers.part("worker_lock", worker_id), self._wait_observed),
            )
            for worker_id in self._ids()
        )

    def _rate_of(self, growth: Column) -> Column:
        """Growth of uWSGI's own counters, which go on in gaps, per second."""
        return divide(growth, self._seconds)

    def _rate(self, query: str) -> Column:
        return self._rate_of(self._answers.column(query))

    def _count(self, query: str) -> Column:
        """Events in the quarter."""
        return np.round(STEP * self._rate(query))

    def _share(self, query: str) -> Column:
        """Growth of an integral from samples, per sampled second."""
        return divide(self._answers.column(query), self._observed)

    def _level(self, query: str) -> Column:
        return np.where(self._known, self._answers.column(query), np.nan)

    def _by_name(self, query: str, whole: Column) -> Mapping[str, Column]:
        columns = {name: divide(self._answers.part(query, name), whole) for name in self._answers.parts(query)}
        return {name: column for name, column in columns.items() if np.nansum(column) > 0}

    def _histogram(self, query: str) -> tuple[tuple[float, ...], tuple[Column, ...]]:
        columns: dict[float, Column] = {}
        for text in self._answers.parts(query):
            with suppress(ValueError):
                column, bound = self._rate_of(self._answers.part(query, text)), float(text)
                # Prometheus 3 writes a bound as 1.0 where earlier versions keep the exporter's 1.
                before = columns.get(bound, column)
                columns[bound] = np.where(np.isnan(before), column, before)
        return split_cumulative(columns)

    def _occupancy(self) -> tuple[Column, ...]:
        bounds, between = self._histogram("occupancy")
        if bounds != (*OCCUPANCY_BOUNDS, float("inf")):
            return tuple(self._answers.unknown() for _ in range(len(OCCUPANCY_BOUNDS) + 1))
        whole = np.sum(between, axis=0)
        return tuple(divide(part, whole) for part in between)

    def _percentiles(self) -> tuple[Column, ...]:
        """The percentiles of shorter windows in a quarter: their mean, weighted by requests."""
        found = [self._answers.part("percentiles", f"{100 * share:g}") for share in PERCENTILES]
        weights = self._answers.column("throughput").reshape(len(self._time), -1)
        columns = []
        for values in found:
            table = values.reshape(len(self._time), -1)
            if table.shape != weights.shape:
                columns.append(self._answers.unknown())
                continue
            known = ~np.isnan(table) & ~np.isnan(weights)
            sums = np.where(known, table * weights, 0.0).sum(axis=1)
            columns.append(np.where(self._known, divide(sums, np.where(known, weights, 0.0).sum(axis=1)), np.nan))
        return tuple(columns) if any(np.isfinite(column).any() for column in columns) else ()

    def _objective(self) -> Slo | None:
        threshold, objective = self._answers.last("threshold"), self._answers.last("objective")
        return None if threshold is None or objective is None else Slo(threshold, objective)

    def _events(self) -> tuple[EventMark, ...]:
        """Events by kind, at the middle of their quarter: Prometheus knows no better."""
        marks = [
            EventMark(time=float(at) - STEP / 2, kind=kind, title=title)
            for kind, title in SHOWN_KINDS.items()
            for at, number in zip(self._time, self._rate_of(self._answers.part("events", kind)), strict=True)
            if number * STEP >= 0.5
        ]
        return tuple(sorted(marks, key=lambda mark: mark.time))
