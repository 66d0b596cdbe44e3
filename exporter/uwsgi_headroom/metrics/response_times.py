"""Response times inside uWSGI as a histogram, their percentiles over windows, and the service level objective."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import Family, Line, counter, gauge
from uwsgi_headroom.metrics.scrape import Scrape, labels_of
from uwsgi_headroom.metrics.window_figures import prometheus_duration
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS

_NAME = "uwsgi_response_time_seconds"


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape."""
    yield _histogram(scrape)
    yield gauge(
        "uwsgi_response_time_percentile_seconds",
        "Percentile of the time in service inside uWSGI over the window, without the wait in the listen queue. Finer "
        "than what PromQL makes of the histogram. Absent below 0.8 times between two samples, and with too few "
        "requests.",
        [
            (
                labels_of(
                    server.observation,
                    window=prometheus_duration(figures.window.asked),
                    percentile=f"{100 * share:g}",
                ),
                percentile.seconds,
            )
            for server in scrape.servers
            for figures in server.observation.figures
            if figures.response_times
            for share, percentile in figures.response_times.percentiles.items()
        ],
    )
    judged = [
        (server, server.observation.slo, server.observation.totals.response_times)
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
        "Requests that count for the objective: completed ones without static files, and lost ones.",
        [(server.labels, totals.requests + totals.lost) for server, _, totals in judged if totals],
    )
    yield counter(
        "uwsgi_slo_bad_requests_total",
        "Requests that missed the objective: slower than the threshold inside uWSGI (an estimated number), or lost "
        "with their worker.",
        [
            (labels_of(server.observation, reason=reason), number)
            for server, slo, totals in judged
            if totals
            for reason, number in (
                ("slow", totals.requests - totals.count_up_to(slo.threshold)),
                ("lost", totals.lost),
            )
        ],
    )


def _histogram(scrape: Scrape) -> Family:
    lines: list[Line] = []
    for server in scrape.servers:
        totals, slo = server.observation.totals.response_times, server.observation.slo
        if totals is None:
            continue
        bounds = sorted({*BUCKET_BOUNDS, slo.threshold} if slo else BUCKET_BOUNDS)
        for bound in bounds:
            below = totals.count_up_to(bound)
            lines.append((f"{_NAME}_bucket", labels_of(server.observation, le=str(bound)), below))
        lines.append((f"{_NAME}_bucket", labels_of(server.observation, le="+Inf"), totals.requests))
        lines.append((f"{_NAME}_count", server.labels, totals.requests))
        lines.append((f"{_NAME}_sum", server.labels, totals.seconds))
    return Family(
        _NAME,
        "Time in service inside uWSGI, without the wait in the listen queue, of completed requests without static "
        "files. Count and sum are uWSGI's own; buckets are estimated from samples.",
        "histogram",
        lines,
    )
