"""Loads the data of a review from a Prometheus: finds the servers, then asks piece by piece, the latest days first.

What was answered about a server becomes the records that its history file would have.

Growth is that from the last scrape before a quarter of an hour to the last one in it, divided by that of the exporter's
own clock, as `increase` extrapolates both by the same factor (docs/report.md).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from math import ceil, inf
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.findings import OTHER_LIMITS
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS
from uwsgi_headroom.history.response_times.bins import Bins, share_bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import CpuWindow, RouteWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.record import STATES, SocketHolders
from uwsgi_headroom.report.quarters import LEAST_COVERED, STEP, Progress, ReviewData, ServerHistory
from uwsgi_headroom.report.sources.prometheus_api import Labels, PrometheusApi, PrometheusError, Series
from uwsgi_headroom.report.sources.selection import Named, TimeRange, describe_clock, list_problems, select_servers
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.store.record import Levels, Record

OBSERVED = "uwsgi_exporter_observed_seconds_total"
"""Exported for each server, whatever is known of it; no other exporter has it."""

_MANY = 0.75
_SHORTEST_INTERVAL, _LONGEST_INTERVAL = 5.0, 300.0

INSTANCE_LABELS = ("instance", "pod", "node")
"""By which the servers of one service may differ, as in alerts: see docs/severity.md."""


class ServerSeries(Named, frozen=True):
    """A server as Prometheus knows it. labels: all that its series have in common; interval: seconds between two
    scrapes."""

    labels: Labels
    interval: float


def find_servers(api: PrometheusApi, span: TimeRange) -> list[ServerSeries]:
    """The servers with scrapes in a range, by name. Servers of one name are one service if all their labels but
    INSTANCE_LABELS are equal. Raises PrometheusError."""
    by_labels: dict[frozenset[tuple[str, str]], list[Series]] = {}
    for ends in span.cut():
        for series in api.query_range(f"count_over_time({OBSERVED}[{STEP:.0f}s])", ends[0], ends[-1], STEP):
            by_labels.setdefault(frozenset(series.labels.items()), []).append(series)
    found = [
        _server(group[0].labels, sorted(value for piece in group for value in piece.values.values() if value))
        for group in by_labels.values()
    ]
    names = _tell_apart([server.name for server in found], [server.labels for server in found])
    wider = [
        {key: text for key, text in server.labels.items() if key not in (*INSTANCE_LABELS, "server")}
        for server in found
    ]
    services = _tell_apart([server.service for server in found], wider)
    named = [replace(each, name=name, service=of) for each, name, of in zip(found, names, services, strict=True)]
    return sorted(named, key=lambda server: server.name)


def _server(labels: Labels, counts: Sequence[float]) -> ServerSeries:
    # In a quarter of an hour in which scrapes began or were missing, there are fewer.
    often = percentile(counts, _MANY) if counts else 1.0
    interval = min(_LONGEST_INTERVAL, max(_SHORTEST_INTERVAL, STEP / often))
    own = {name: value for name, value in labels.items() if name != "__name__"}
    name = own.get("server", "")
    return ServerSeries(name, own.get("service") or name, own.get("instance", ""), own, interval)


def _tell_apart(names: Sequence[str], labels: Sequence[Labels]) -> list[str]:
    """The names, with as few labels as it takes that equal names have equal labels; the instance first."""
    apart = list(names)
    for label in ("instance", *sorted({label for each in labels for label in each} - {"instance"})):
        alike: dict[str, list[Labels]] = {}
        for name, each in zip(apart, labels, strict=True):
            alike.setdefault(name, []).append(each)
        differing = {name for name, group in alike.items() if len({each.get(label, "") for each in group}) > 1}
        apart = [
            f"{name} {each.get(label, '')}".strip() if name in differing else name
            for name, each in zip(apart, labels, strict=True)
        ]
    return apart


def select_by_any(servers: Sequence[ServerSeries]) -> str:
    """Matchers that select the series of these servers, and perhaps of others, which differ in a label."""
    parts = []
    for label in sorted(set.intersection(*(set(server.labels) for server in servers))):
        values = sorted({server.labels[label] for server in servers})
        pattern = "|".join(re.escape(value) for value in values)
        parts.append(f'{label}="{_escape(values[0])}"' if len(values) == 1 else f'{label}=~"{_escape(pattern)}"')
    return ",".join(parts)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


Clock = Literal["sampled", "waits", "whole", "level"]
"""What the growth of a counter is divided by: the time that the exporter sampled, that in which it saw waits, or all of
it, because uWSGI's own counters go on in gaps. Levels, and these times themselves, are taken as they are."""

_COUNTERS: Sequence[tuple[str, Clock, str, str]] = (
    ("observed", "level", "", OBSERVED),
    ("gap", "level", "", "uwsgi_exporter_sample_gap_seconds_total"),
    ("wait_observed", "level", "", "uwsgi_wait_observed_seconds_total"),
    ("samples", "level", "", "uwsgi_exporter_samples_total"),
    ("full_seconds", "sampled", "", "uwsgi_full_occupancy_seconds_total"),
    ("reloads", "whole", "", "uwsgi_server_reloads_total"),
    ("overflows", "whole", "", "uwsgi_listen_overflows_total"),
    ("own_seconds", "sampled", "", "uwsgi_cpu_used_by_workers_seconds_total"),
    ("idle_seconds", "sampled", "", "uwsgi_cpu_available_idle_seconds_total"),
    ("others_seconds", "sampled", "", "uwsgi_cpu_used_by_others_seconds_total"),
    ("judged", "whole", "", "uwsgi_slo_requests_total"),
    ("missed", "whole", "reason", "uwsgi_slo_bad_requests_total"),
    ("by_time", "whole", "le", "uwsgi_response_time_seconds_bucket"),
    ("requests", "whole", "worker_id", "uwsgi_worker_requests_total"),
    ("static_requests", "whole", "worker_id", "uwsgi_worker_static_requests_total"),
    ("running_time", "whole", "worker_id", "uwsgi_worker_running_time_seconds_total"),
    ("busy_seconds", "sampled", "worker_id", "uwsgi_worker_busy_thread_seconds_total"),
    ("interpreter_lock_seconds", "waits", "worker_id", "uwsgi_worker_interpreter_lock_wait_thread_seconds_total"),
    ("lost", "whole", "worker_id", "uwsgi_worker_lost_requests_total"),
    ("exceptions", "whole", "worker_id", "uwsgi_worker_exceptions_total"),
    ("harakiris", "whole", "worker_id", "uwsgi_worker_harakiri_total"),
    ("respawns", "whole", "worker_id", "uwsgi_worker_respawns_total"),
    ("queue_seconds", "sampled", "socket", "uwsgi_socket_queue_seconds_total"),
    ("queue_full_seconds", "sampled", "socket", "uwsgi_socket_queue_full_seconds_total"),
    ("waits", "waits", "state", "uwsgi_wait_thread_seconds_total"),
    ("backends", "waits", "backend", "uwsgi_backend_wait_thread_seconds_total"),
    ("routes", "sampled", "route", "uwsgi_route_busy_thread_seconds_total"),
)
"""What each counter fills, and the label in which the series of a server differ, if it has several."""

_LEVELS = {
    "configured": "uwsgi_threads_configured",
    "cpus": "uwsgi_cpus_usable",
    "memory_available": "uwsgi_memory_available_bytes",
    "thunder_lock": "uwsgi_thunder_lock",
    "own_sockets": "uwsgi_workers_with_own_sockets",
    "threshold": "uwsgi_slo_threshold_seconds",
    "objective": "uwsgi_slo_objective_ratio",
}


class Question(Struct, frozen=True):
    """A query. name: of what it fills; template: the expression, with `%s` for the label matchers; part: the label in
    which its series of one server differ, or none."""

    name: str
    template: str
    part: str = ""
    clock: Clock = "level"


def list_questions(interval: float) -> Sequence[Question]:
    span = growth_seconds(interval)

    def growth(metric: str) -> str:
        return f"increase({metric}{{%s}}[{span:.0f}s])"

    each = interval / STEP
    cpu = f"sum without (mode) ({growth('uwsgi_worker_cpu_seconds_total')})"
    limits = f'uwsgi_verdict_info{{%s,cause=~"{"|".join(OTHER_LIMITS)}"}}[{STEP:.0f}s]'
    return [
        *(Question(name, growth(metric), part, clock) for name, clock, part, metric in _COUNTERS),
        *(Question(name, f"{metric}{{%s}}") for name, metric in _LEVELS.items()),
        Question("cpu_seconds", cpu, "worker_id", "whole"),
        Question("accepting", f"avg_over_time(uwsgi_worker_accepting{{%s}}[{STEP:.0f}s])", "worker_id"),
        Question("available", f"avg_over_time(uwsgi_threads_available{{%s}}[{STEP:.0f}s])"),
        Question("memory_per_worker", "max without (worker_id) (uwsgi_worker_unique_memory_bytes{%s})"),
        Question("resident", "max without (worker_id) (uwsgi_worker_resident_memory_bytes{%s})"),
        Question("limits", f"sum without (verdict, harm) (count_over_time({limits})) * {each:g}", "cause"),
    ]


def growth_seconds(interval: float) -> float:
    """The seconds of which growth is asked for: a quarter of an hour, and one interval between scrapes."""
    return STEP + ceil(interval)


Values = dict[str, dict[str, dict[float, float]]]
"""What was answered about a server, by query and part ("" without parts), each by the end of the quarter."""


def add_answers(
    known: dict[str, Values], question: Question, servers: Iterable[ServerSeries], series: Iterable[Series]
) -> None:
    names = {frozenset(server.labels.items()): server.name for server in servers}
    for one in series:
        own = {label: text for label, text in one.labels.items() if label not in ("__name__", question.part)}
        if name := names.get(frozenset(own.items())):
            parts = known.setdefault(name, {}).setdefault(question.name, {})
            parts.setdefault(one.labels.get(question.part, ""), {}).update(one.values)


CLOCKS: Mapping[str, Clock] = {question.name: question.clock for question in list_questions(STEP)}
"""Of each query."""


ACCEPTING = 0.5
"""A worker that accepted for a smaller part of the quarter has no socket: it ended, or is a reserve."""

TOGETHER = 8
"""Servers that are asked for at once: a week of them, scraped every 15 s, is 15 of 50 million samples that Prometheus
accepts."""


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
    chosen = select_servers(found, servers, services, span.quarters)
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
        problems=tuple(filter(None, problems)),
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
                expression = question.template.replace("%s", select_by_any(group))
                series = api.query_range(expression, ends[0], ends[-1], STEP)
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
    ordered = sorted(servers, key=lambda server: (ceil(server.interval), server.name))
    for _, same in groupby(ordered, key=lambda server: ceil(server.interval)):
        equal = list(same)
        yield from (equal[start : start + TOGETHER] for start in range(0, len(equal), TOGETHER))


def explain_no_servers(api: PrometheusApi, span: TimeRange) -> HeadroomError:
    """The error of a range without servers. Raises PrometheusError."""
    series = api.query_range('count by (__name__) ({__name__=~"uwsgi_.+"})', span.until, span.until, STEP)
    if series and OBSERVED not in {each.labels.get("__name__") for each in series}:
        return HeadroomError(
            f"{api.url} has metrics of uWSGI, but of another exporter: there is nothing to review",
            ["Run `uwsgi-headroom serve` beside it and have Prometheus scrape it (alerts/MIGRATION.md)."],
        )
    return HeadroomError(
        f"{api.url} has no metrics of uwsgi-headroom from {span.show()}",
        [
            "A review needs Prometheus to scrape the exporter; `uwsgi-headroom report --history FILE` does not.",
            "If it does that, wait until an hour has been scraped, or choose another --range or --until.",
        ],
    )


def _make_history(server: ServerSeries, made: Sequence[_Quarter]) -> ServerHistory:
    known = ((quarter.end, quarter.make()) for quarter in made if quarter.sampled >= LEAST_COVERED * STEP)
    quarters = {end: record for end, record in known if record}
    sampled = sum(quarter.sampled for quarter in made)
    return copy_fields(ServerHistory, server, server=server.name, quarters=quarters, sampled=sampled)


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

    sampled: the seconds of the quarter that were. Every growth is of `seconds`, a little more than a quarter.
    """

    def __init__(self, answered: Values, seconds: float, end: float) -> None:
        self.end = end
        self._values = {
            query: {part: values[end] for part, values in parts.items() if end in values}
            for query, parts in answered.items()
        }
        observed, gap, waits = (self._value(query) or 0.0 for query in ("observed", "gap", "wait_observed"))
        self.sampled = STEP * min(1.0, max(0.0, observed / seconds))
        self._factors: dict[Clock, float] = {
            "sampled": ratio(self.sampled, observed) or 0.0,
            "waits": ratio(self.sampled, waits) or 0.0,
            "whole": ratio(STEP, observed + gap) or 0.0,
        }

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
        clock, values = CLOCKS[query], self._values.get(query, {})
        if clock == "level":
            return values
        return {part: max(0.0, growth) * self._factors[clock] for part, growth in values.items()}

    def _value(self, query: str) -> float | None:
        return self._parts(query).get("")

    def _count(self, query: str) -> int | None:
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
            is_counted=True,
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
        interval = ratio(self._value("observed"), self._value("samples") or 0.0) or 0.0
        return ResponseTimeWindow(bins, interval, requests, counts, array("f", [0.0] * len(bins)))

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
