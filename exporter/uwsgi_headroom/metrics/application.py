"""Applications in the workers. Requests appear only with several: a single application's are those of its worker."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.worker_states import find_without_application
from uwsgi_headroom.metrics.family import LabelSet, counter, gauge, label_set, summed
from uwsgi_headroom.metrics.scrape import Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every application of the scrape."""
    slowest: dict[str, tuple[LabelSet, int]] = {}
    for server in scrape.servers:
        for worker in server.snapshot.workers:
            for app in worker.apps:
                labels = labels_of(server.observation, app_id=str(app.app_id), mountpoint=app.mountpoint)
                seconds = app.startup_seconds
                if seconds is not None and seconds >= slowest.get(labels.text, (labels, 0))[1]:
                    slowest[labels.text] = (labels, seconds)
    yield gauge(
        "uwsgi_app_startup_time_seconds",
        "Whole seconds the application took to load in the slowest worker. Clients wait at least as long on a reload.",
        slowest.values(),
    )
    yield gauge(
        "uwsgi_workers_without_application",
        "Workers that take requests without having loaded the application that the configuration names: uWSGI answers "
        "with status 500. Absent if the configuration names none or cannot be read.",
        [
            (server.labels, len(known[1]))
            for server in scrape.servers
            if (known := find_without_application(server.record))
        ],
    )
    several = [
        (label_set(**labels, app_id=str(app.app_id), mountpoint=app.mountpoint), app)
        for server in scrape.servers
        for labels, worker in server.workers
        if len(worker.apps) > 1
        for app in worker.apps
    ]
    yield counter(
        "uwsgi_worker_app_requests_total",
        "Requests passed to the application, counted when they start.",
        summed((labels, app.requests) for labels, app in several),
    )
    yield counter(
        "uwsgi_worker_app_exceptions_total",
        "Exceptions that escaped the application.",
        summed((labels, app.exceptions) for labels, app in several),
    )
