"""What requests spend their time on, from samples; absent where the kernel does not permit to see it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, label_set
from uwsgi_headroom.metrics.scrape import Scrape
from uwsgi_headroom.record import STATES


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape."""
    known = [
        (server, totals, waits)
        for server in scrape.servers
        for totals in (server.observation.totals,)
        for waits in (totals.waits,)
        if waits is not None and waits.since is not None
    ]
    yield counter(
        "uwsgi_wait_thread_seconds_total",
        "Time of threads with a request in service, by what they do. The rate of all states together is the observed "
        "concurrency. Divided by requests: time per request in each state.",
        [
            (label_set(**server.labels, state=state), seconds)
            for server, _, waits in known
            for state, seconds in zip(STATES, waits.seconds, strict=True)
        ],
    )
    yield counter(
        "uwsgi_backend_wait_thread_seconds_total",
        "Time in which threads waited for a backend that is named in the exporter's configuration: a part of the state "
        "backend.",
        [
            (label_set(**server.labels, backend=name), seconds)
            for server, _, waits in known
            for name, seconds in waits.backends.items()
        ],
    )
    yield counter(
        "uwsgi_worker_interpreter_lock_wait_thread_seconds_total",
        "Time in which threads of the worker waited for its interpreter lock.",
        [
            (labels, worker.interpreter_lock_seconds)
            for server, totals, _ in known
            for (labels, _), worker in zip(server.workers, totals.workers, strict=False)
        ],
    )
    yield counter(
        "uwsgi_wait_observed_seconds_total",
        "Time in which it is known what threads do. With gaps, divide thread seconds by this time.",
        [(server.labels, waits.observed_seconds) for server, _, waits in known],
    )
    yield counter(
        "uwsgi_wait_disagreement_thread_seconds_total",
        "Integral of the difference between the threads in service as the kernel shows them and as uWSGI counts them.",
        [(server.labels, waits.disagreement_seconds) for server, _, waits in known],
    )
