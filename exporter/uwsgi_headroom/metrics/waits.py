"""What threads with a request in service do, from samples: their states, their routes, and the functions they are in.

Wait states are absent where the kernel does not permit the exporter to see them. Routes and functions are opt-in.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.history.totals import WaitTotals
from uwsgi_headroom.metrics.family import Scrape, Table, counter, gauge, labels_of, tabulate_families
from uwsgi_headroom.record import STATES

_QUALITY: Table[WaitTotals] = (
    (
        "uwsgi_wait_observed_seconds_total",
        "Time in which it is known what threads do. With gaps, divide thread seconds by this time.",
        lambda waits: waits.observed_seconds,
    ),
    (
        "uwsgi_wait_disagreement_thread_seconds_total",
        "Integral of the difference between the threads in service as the kernel shows them and as uWSGI counts them.",
        lambda waits: waits.disagreement_seconds,
    ),
)
"""How far the families of wait states can be relied on."""


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape."""
    sampled = [(server, server.observation.totals.waits) for server in scrape.servers]
    known = [(server, waits) for server, waits in sampled if waits and waits.since is not None]
    yield counter(
        "uwsgi_wait_thread_seconds_total",
        "Time of threads with a request in service, by what they do. The rate of all states together is the observed "
        "concurrency. Divided by requests: time per request in each state.",
        [
            (labels_of(server.observation, state=state), seconds)
            for server, waits in known
            for state, seconds in zip(STATES, waits.seconds, strict=True)
        ],
    )
    yield counter(
        "uwsgi_backend_wait_thread_seconds_total",
        "Time in which threads waited for a backend that is named in the exporter's configuration. This time is part "
        "of the state `backend`.",
        [
            (labels_of(server.observation, backend=name), seconds)
            for server, waits in known
            for name, seconds in waits.backends.items()
        ],
    )
    yield counter(
        "uwsgi_worker_interpreter_lock_wait_thread_seconds_total",
        "Time in which threads of the worker waited for its interpreter lock.",
        [(labels, worker.interpreter_lock_seconds) for server, _ in known for labels, worker in server.worker_totals],
    )
    yield from tabulate_families(_QUALITY, [(server.labels, waits) for server, waits in known])


def connection_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of what single threads are seen in: shared connections, and outputs that are blocked."""
    yield gauge(
        "uwsgi_shared_connections",
        "Connections to other servers that were opened before the fork, so that several workers share them: the "
        "workers' requests wait for each other, and may get each other's answers. Absent if there is none, or if the "
        "exporter's user may not see the descriptors.",
        [(server.labels, len(server.record.shared_connections) or None) for server in scrape.servers],
    )
    totals = [(server.labels, server.observation.totals) for server in scrape.servers]
    yield counter(
        "uwsgi_shared_connection_wait_thread_seconds_total",
        "Integral of the threads that wait for an answer over a shared connection. Absent where "
        "uwsgi_wait_thread_seconds_total is absent.",
        [(labels, total.shared_connection_seconds) for labels, total in totals],
    )
    yield counter(
        "uwsgi_output_blocked_thread_seconds_total",
        "Integral of the threads that wait for a pipe to take their standard output or error. Absent where "
        "uwsgi_wait_thread_seconds_total is absent.",
        [(labels, total.output_blocked_seconds) for labels, total in totals],
    )


def loop_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the family of event loops that calls hold up."""
    yield counter(
        "uwsgi_worker_loop_held_seconds_total",
        "Time in which one call held the event loop of a worker with coroutines (gevent and the like), from samples: "
        "the call blocked, or computed for a second or more, and no other request of the worker went on. Absent for "
        "workers without coroutines, and where uwsgi_wait_thread_seconds_total is absent.",
        [(labels, worker.loop_held_seconds) for server in scrape.servers for labels, worker in server.worker_totals],
    )


def routes_families(scrape: Scrape) -> Iterator[Metric]:
    yield counter(
        "uwsgi_route_busy_thread_seconds_total",
        "Time of busy threads by the route of their request, from samples. The rate of all routes together is the "
        "observed concurrency. It says nothing about the number of requests. Opt-in (routes): 51 series at most.",
        [
            (labels_of(server.observation, route=route), seconds)
            for server in scrape.servers
            if (routes := server.observation.totals.routes)
            for route, seconds in routes.by_route().items()
        ],
    )


def code_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of functions, for every server of the scrape."""
    known = [(server, server.observation.code) for server in scrape.servers]
    yield counter(
        "uwsgi_code_busy_thread_seconds_total",
        "Time of busy threads by the function that they are in and what they do there, from about one sample a second. "
        "The rate of all series together is the observed concurrency. The functions are those that were seen most; "
        "`(other)` has the rest. A function that is seldom seen may lose its series to another one. Opt-in (code): 33 "
        "series at most.",
        [
            (labels_of(server.observation, function=place.function, file=place.file, state=place.state), seconds)
            for server, code in known
            if code
            for place, seconds in code.seconds.items()
        ],
    )
    yield counter(
        "uwsgi_code_observed_seconds_total",
        "Time in which it is known in which functions the busy threads are. With gaps, divide by this time.",
        [(server.labels, code.observed_seconds if code else None) for server, code in known],
    )
