"""Response times inside uWSGI as a histogram, their percentiles over windows, and the service level objective."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.percentiles import SHARES, ResponseTimes
from uwsgi_headroom.metrics.family import (
    Family,
    LabelSet,
    Line,
    ObservedServer,
    Scrape,
    counter,
    gauge,
    label_each,
    labels_of,
)
from uwsgi_headroom.metrics.window_figures import prometheus_duration
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS

_NAME = "uwsgi_response_time_seconds"
_BUCKET = f"{_NAME}_bucket"
_PERCENTILES = {share: f"{100 * share:g}" for share in SHARES}


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape."""
    yield _histogram(scrape)
    yield gauge(
        "uwsgi_response_time_percentile_seconds",
        "Percentile of the time in service inside uWSGI over the window, without the wait in the listen queue. A "
        "little finer than what PromQL makes of the histogram. Absent if it is shorter than 0.8 of the time between "
        "two samples, or if there are too few requests.",
        [
            pair
            for server in scrape.servers
            for figures in server.observation.figures
            for pair in _list_percentiles(server, figures, figures.response_times)
        ],
    )
    yield gauge(
        "uwsgi_queue_wait_percentile_seconds",
        "Percentile of the wait in the listen queue over the longest window, of all requests. Absent if no request was "
        "seen waiting, if it is shorter than 0.8 of the time between two samples, or if there are too few requests.",
        [
            pair
            for server in scrape.servers
            for figures in server.observation.figures[-1:]
            for pair in _list_percentiles(server, figures, figures.queue_waits)
        ],
    )
    judged = [
        (server, server.observation.slo, server.observation.totals)
        for server in scrape.servers
        if server.observation.slo
    ]
    yield gauge(
        "uwsgi_slo_threshold_seconds",
        "Response time up to which a request is good, as configured.",
        [(server.labels, slo.threshold) for server, slo, _ in judged],
    )
    yield gauge(
        "uwsgi_slo_objective_ratio",
        "Share of requests that should be good, as configured.",
        [(server.labels, slo.objective) for server, slo, _ in judged],
    )
    yield counter(
        "uwsgi_slo_requests_total",
        "Requests that count for the objective: completed ones without static files, lost ones, dropped connections "
        "of a full TCP queue of this server, and those in service for longer than the threshold.",
        [(server.labels, totals.judged) for server, _, totals in judged if totals.judged is not None],
    )
    yield counter(
        "uwsgi_slo_bad_requests_total",
        "Requests that missed the objective, each counted once, by reason: slow (took longer than the threshold inside "
        "uWSGI, or are still in service after it), waited (took longer only together with the wait in the listen "
        "queue), lost (with their worker), refused (dropped at this server's full TCP queue). The numbers of slow and "
        "waited are estimates.",
        [
            (labels_of(server.observation, reason=reason), number)
            for server, _, totals in judged
            for reason, number in (
                ("slow", totals.missed_slow),
                ("waited", totals.missed_waited),
                ("lost", totals.missed_lost),
                ("refused", totals.missed_refused),
            )
            if number is not None
        ],
    )


def _list_percentiles(
    server: ObservedServer, figures: Figures, times: ResponseTimes | None
) -> list[tuple[LabelSet, float | None]]:
    window = prometheus_duration(figures.window.asked)
    return [
        (labels_of(server.observation, window=window, percentile=_PERCENTILES[share]), percentile.seconds)
        for share, percentile in (times.percentiles if times else {}).items()
    ]


@lru_cache(maxsize=64)
def _buckets(threshold: float | None) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The bounds of the buckets, with that of the objective, and the values of `le`, which have one more."""
    bounds = tuple(sorted(BUCKET_BOUNDS if threshold is None else {*BUCKET_BOUNDS, threshold}))
    return bounds, (*map(str, bounds), "+Inf")


def _histogram(scrape: Scrape) -> Family:
    lines: list[Line] = []
    for server in scrape.servers:
        totals, slo = server.observation.totals.response_times, server.observation.slo
        if totals is None:
            continue
        bounds, values = _buckets(slo.threshold if slo else None)
        counts = [*map(totals.count_up_to, bounds), totals.requests]
        lines += [
            (_BUCKET, labels, count)
            for labels, count in zip(label_each(server.observation, "le", values), counts, strict=True)
        ]
        lines.append((f"{_NAME}_count", server.labels, totals.requests))
        lines.append((f"{_NAME}_sum", server.labels, totals.seconds))
    return Family(
        _NAME,
        "Time in service inside uWSGI, without the wait in the listen queue, of completed requests without static "
        "files. Count and sum are uWSGI's own; buckets are estimated from samples.",
        "histogram",
        lines,
    )
