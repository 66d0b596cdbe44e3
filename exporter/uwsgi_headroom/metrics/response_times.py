"""Response times inside uWSGI as a histogram, and the counts of the service level objective."""

from __future__ import annotations

from functools import lru_cache

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.metrics.family import Histogram, Rows, Scrape, Subjects
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.response_times.totals import ResponseTimeTotals


@lru_cache(maxsize=64)
def _list_bounds(threshold: float | None) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The bounds of the buckets, with that of the objective, and the values of `le`, which have one more."""
    bounds = tuple(sorted(BUCKET_BOUNDS if threshold is None else {*BUCKET_BOUNDS, threshold}))
    return bounds, (*map(str, bounds), "+Inf")


def each_timed(scrape: Scrape) -> Subjects[Histogram]:
    return [
        (labels, _spread_times(times, server.observation.slo))
        for labels, server in scrape.servers
        if (times := server.totals.response_times)
    ]


def _spread_times(times: ResponseTimeTotals, slo: Slo | None) -> Histogram:
    bounds, names = _list_bounds(slo.threshold if slo else None)
    return Histogram(names, [*map(times.count_up_to, bounds), times.requests], times.seconds)


RESPONSE_TIMES: Rows[Histogram] = {
    "uwsgi_response_time_seconds{le}": (
        "Time in service inside uWSGI, without the wait in the listen queue, of completed requests without static "
        "files. Count and sum are uWSGI's own; buckets are estimated from samples.",
        lambda times: times,
    ),
}


def each_objective(scrape: Scrape) -> Subjects[tuple[Slo, Totals]]:
    return [(labels, (slo, server.totals)) for labels, server in scrape.servers if (slo := server.observation.slo)]


OBJECTIVE: Rows[tuple[Slo, Totals]] = {
    "uwsgi_slo_threshold_seconds": (
        "Response time up to which a request is good, as configured.",
        lambda judged: judged[0].threshold,
    ),
    "uwsgi_slo_objective_ratio": (
        "Share of requests that should be good, as configured.",
        lambda judged: judged[0].objective,
    ),
    "uwsgi_slo_requests_total": (
        "Requests that count for the objective: completed ones without static files, lost ones, dropped connections "
        "of a full TCP queue of this server, and those in service for longer than the threshold.",
        lambda judged: judged[1].judged,
    ),
    "uwsgi_slo_bad_requests_total{reason}": (
        "Requests that missed the objective, each counted once, by reason: slow (took longer than the threshold inside "
        "uWSGI, or are still in service after it), waited (took longer only together with the wait in the listen "
        "queue), lost (with their worker), refused (dropped at this server's full TCP queue). The numbers of slow and "
        "waited are estimates.",
        lambda judged: {
            reason: getattr(judged[1], f"missed_{reason}") for reason in ("slow", "waited", "lost", "refused")
        },
    ),
}
