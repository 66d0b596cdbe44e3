"""Figures over windows, for use without PromQL. `uwsgi_window_seconds` is the part of each window with history.

With Prometheus, the counters give the same figures for any window; the recording rules do so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.metrics.family import (
    LabelSet,
    ObservedServer,
    Scrape,
    Table,
    gauge,
    label_each,
    labels_of,
    tabulate_families,
)

_FLOW: Table[Figures] = (
    (
        "uwsgi_window_seconds",
        "Seconds of history in this window: less than the window while the exporter is younger.",
        lambda figures: figures.window.seconds,
    ),
    ("uwsgi_throughput_requests_per_second", "Requests completed per second.", lambda figures: figures.flow.throughput),
    (
        "uwsgi_mean_response_time_seconds",
        "Mean time in service of a request, without the wait in the listen queue; static files are left out.",
        lambda figures: figures.flow.response_time,
    ),
    (
        "uwsgi_queue_wait_seconds",
        "Mean time a request waited in a listen queue before a worker accepted it, by Little's law on the queue. While "
        "many still wait, a lower bound: the mean of all that were completed, are served or wait, up to now.",
        lambda figures: figures.flow.queue_wait,
    ),
)

_USABLE: Table[Figures] = (
    (
        "uwsgi_usable_headroom_ratio",
        "Factor by which load can grow until requests wait noticeably: a quarter of the response time on average, but "
        "at least 20 ms and at most 0.1 s. 1 or less means that they do. Absent without a headroom or a response time.",
        lambda figures: figures.usable.factor if figures.usable else None,
    ),
)

_BALANCE: Table[Figures] = (
    (
        "uwsgi_hot_worker_ratio",
        "Number of active workers x largest share of the requests among them: 1 is even.",
        lambda figures: figures.balance.hot_ratio,
    ),
    (
        "uwsgi_hot_worker_ratio_noise_floor",
        "The hot ratio that chance alone explains at this many requests.",
        lambda figures: figures.balance.noise_floor,
    ),
    (
        "uwsgi_request_share_fairness",
        "Jain's fairness index of the request shares: 1 is even.",
        lambda figures: figures.balance.fairness,
    ),
    (
        "uwsgi_unevenness_cost_ratio",
        "Share of the response time that balancing the workers would save: 1 - (response time of the less busy half of "
        "the workers / mean response time).",
        lambda figures: figures.balance.cost,
    ),
)

_WORKER: Table[WorkerFigures] = (
    ("uwsgi_worker_request_share", "The worker's share of the completed requests.", lambda worker: worker.share),
    (
        "uwsgi_worker_response_time_seconds",
        "Mean time in service of the worker's requests; longer than in other workers if its threads wait for its "
        "interpreter.",
        lambda worker: worker.response_time,
    ),
    (
        "uwsgi_worker_interpreter_load",
        "CPU seconds used per second. Near 1, the worker's one interpreter is saturated and its threads queue for it.",
        lambda worker: worker.interpreter_load,
    ),
)


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape whose history has begun."""
    windows = [
        (_labels(server, figures), figures) for server in scrape.servers for figures in server.observation.figures
    ]
    yield from tabulate_families(_FLOW, windows)
    yield gauge(
        "uwsgi_concurrency",
        "Mean requests in service: by Little's law from completed requests, and as observed by sampling. "
        "Observed requests in excess of the law are in flight or stuck.",
        [
            pair
            for server in scrape.servers
            for figures in server.observation.figures
            for pair in zip(
                _label_each(server, figures, "method", ("littles_law", "observed")),
                (figures.flow.littles_law, figures.flow.observed),
                strict=True,
            )
        ],
    )
    yield gauge(
        "uwsgi_headroom_ratio",
        "Factor by which load can grow before a limit is reached; the limit with the least factor comes first. "
        "A limit of which less than a hundredth is used has no series. What requests wait for beside these limits is "
        "the limit `other`; while it is not known how much more it can take, or most requests fail, no limit has a "
        "series.",
        [
            (_labels(server, figures, limit=limit), factor)
            for server in scrape.servers
            for figures in server.observation.figures
            for limit, factor in figures.headroom.by_limit.items()
        ],
    )
    yield from tabulate_families(_USABLE, windows)
    yield from tabulate_families(_BALANCE, windows)
    yield from tabulate_families(_WORKER, _list_workers(scrape))


def _list_workers(scrape: Scrape) -> list[tuple[LabelSet, WorkerFigures]]:
    """List labels and figures of single workers, only for the longest window, to limit the number of series."""
    return [
        pair
        for server in scrape.servers
        for longest in server.observation.figures[-1:]
        for pair in zip(
            _label_each(
                server, longest, "worker_id", tuple([str(worker.worker_id) for worker in longest.balance.workers])
            ),
            longest.balance.workers,
            strict=True,
        )
    ]


def _labels(server: ObservedServer, figures: Figures, **more: str) -> LabelSet:
    return labels_of(server.observation, window=prometheus_duration(figures.window.asked), **more)


def _label_each(server: ObservedServer, figures: Figures, label: str, values: tuple[str, ...]) -> tuple[LabelSet, ...]:
    return label_each(server.observation, label, values, window=prometheus_duration(figures.window.asked))


@cache
def prometheus_duration(seconds: float) -> str:
    """Write seconds as Prometheus does: 300 is `5m`, 90 is `90s`."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"
