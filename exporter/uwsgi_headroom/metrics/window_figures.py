"""Figures over windows, for use without PromQL, response times as a histogram, and the objective's counts.

`uwsgi_window_seconds` is the part of each window with history. With Prometheus, the counters give the same figures for
any window; the recording rules do so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.percentiles import ResponseTimes
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.metrics.family import (
    Histogram,
    ObservedServer,
    Rows,
    Scrape,
    Subjects,
    each_found,
    each_part,
    each_server,
    each_summed,
    label_sets,
)


def _list_windows(figures: Sequence[Figures]) -> list[tuple[str, Figures]]:
    return [(prometheus_duration(each.window.asked), each) for each in figures]


each_window = each_part(each_server, "window", lambda server: _list_windows(server.observation.figures))
each_longest_window = each_part(each_server, "window", lambda server: _list_windows(server.observation.figures[-1:]))
"""Only the longest window of each server, to limit the number of series."""


def each_worker_in_window(scrape: Scrape) -> Subjects[WorkerFigures]:
    return [
        pair
        for labels, figures in each_longest_window(scrape)
        if figures.window.is_counted
        for pair in zip(
            label_sets("worker_id", tuple([str(worker.worker_id) for worker in figures.workers]), **labels),
            figures.workers,
            strict=True,
        )
    ]


@cache
def prometheus_duration(seconds: float) -> str:
    """Write seconds as Prometheus does: 300 is `5m`, 90 is `90s`."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"


def _list_percentiles(times: ResponseTimes | None) -> dict[str, float | None]:
    return {f"{100 * each.share:g}": each.seconds for each in times.percentiles} if times else {}


WINDOW: Rows[Figures] = {
    "uwsgi_window_seconds": (
        "Seconds of history in this window: less than the window while the exporter is younger.",
        lambda figures: figures.window.seconds,
    ),
    "uwsgi_throughput_requests_per_second": ("Requests completed per second.", lambda figures: figures.flow.throughput),
    "uwsgi_mean_response_time_seconds": (
        "Mean time in service of a request, without the wait in the listen queue; static files are left out.",
        lambda figures: figures.flow.response_time,
    ),
    "uwsgi_queue_wait_seconds": (
        "Mean time a request waited in a listen queue before a worker accepted it, by Little's law on the queue. While "
        "many still wait, a lower bound: the mean of all that were completed, are served or wait, up to now.",
        lambda figures: figures.flow.queue_wait,
    ),
    "uwsgi_concurrency{method}": (
        "Mean requests in service: by Little's law from completed requests, and as observed by sampling. "
        "Observed requests in excess of the law are in flight or stuck.",
        lambda figures: {"littles_law": figures.flow.littles_law, "observed": figures.flow.observed},
    ),
    "uwsgi_headroom_ratio{limit}": (
        "Factor by which load can grow before a limit is reached; the limit with the least factor comes first. "
        "A limit of which less than a hundredth is used has no series. What requests wait for beside these limits is "
        "the limit `other`; while it is not known how much more it can take, or most requests fail, no limit has a "
        "series.",
        lambda figures: figures.headroom.by_limit,
    ),
    "uwsgi_usable_headroom_ratio": (
        "Factor by which load can grow until the mean queue wait is a quarter of the response time (at least 20 ms, at "
        "most 0.1 s); at 1 or less, requests already wait. Absent without a headroom or a response time.",
        lambda figures: figures.headroom.usable,
    ),
    "uwsgi_hot_worker_ratio": (
        "Number of active workers x largest share of the requests among them: 1 is even.",
        lambda figures: figures.balance.hot_ratio,
    ),
    "uwsgi_hot_worker_ratio_noise_floor": (
        "The hot ratio that chance alone explains at this many requests.",
        lambda figures: figures.balance.noise_floor,
    ),
    "uwsgi_request_share_fairness": (
        "Jain's fairness index of the request shares: 1 is even.",
        lambda figures: figures.balance.fairness,
    ),
    "uwsgi_unevenness_cost_ratio": (
        "Share of the response time that balancing the workers would save: 1 - (response time of the less busy half of "
        "the workers / mean response time).",
        lambda figures: figures.balance.cost,
    ),
    "uwsgi_response_time_percentile_seconds{percentile}": (
        "Percentile of the time in service inside uWSGI over the window, without the wait in the listen queue. A "
        "little finer than what PromQL makes of the histogram. Absent if it is shorter than 0.8 of the time between "
        "two samples, or if there are too few requests.",
        lambda figures: _list_percentiles(figures.response_times),
    ),
}

LONGEST_WINDOW: Rows[Figures] = {
    "uwsgi_queue_wait_percentile_seconds{percentile}": (
        "Percentile of the wait in the listen queue over the longest window, of all requests. Absent if no request was "
        "seen waiting, if it is shorter than 0.8 of the time between two samples, or if there are too few requests.",
        lambda figures: _list_percentiles(figures.queue_waits),
    ),
}

WORKER_IN_WINDOW: Rows[WorkerFigures] = {
    "uwsgi_worker_request_share": ("The worker's share of the completed requests.", lambda worker: worker.share),
    "uwsgi_worker_response_time_seconds": (
        "Mean time in service of the worker's requests; longer than in other workers if its threads wait for its "
        "interpreter.",
        lambda worker: worker.response_time,
    ),
    "uwsgi_worker_interpreter_load": (
        "The worker's CPU seconds per second. Near 1, its one interpreter is saturated: threads queue for it.",
        lambda worker: worker.interpreter_load,
    ),
}


@lru_cache(maxsize=64)
def _list_bounds(threshold: float | None) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The bounds of the buckets, with that of the objective, and the values of `le`, which have one more."""
    bounds = tuple(sorted(BUCKET_BOUNDS if threshold is None else {*BUCKET_BOUNDS, threshold}))
    return bounds, (*map(str, bounds), "+Inf")


def _spread_times(server: ObservedServer) -> Histogram | None:
    times, slo = server.totals.response_times, server.observation.slo
    if not times:
        return None
    bounds, names = _list_bounds(slo.threshold if slo else None)
    return Histogram(names, [*map(times.count_up_to, bounds), times.requests], times.seconds)


each_timed = each_found(each_summed, _spread_times)

RESPONSE_TIMES: Rows[Histogram] = {
    "uwsgi_response_time_seconds{le}": (
        "Time in service inside uWSGI, without the wait in the listen queue, of completed requests, except static "
        "files. Count and sum are uWSGI's own; buckets are estimated from samples.",
        lambda times: times,
    ),
}


each_objective = each_found(
    each_summed, lambda server: (slo, server.totals) if (slo := server.observation.slo) else None
)

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
        "Requests that count for the objective: completed ones (except static files), lost ones, dropped connections "
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
