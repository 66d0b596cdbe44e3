"""Listen queues: connections that wait in the kernel until a worker accepts them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.worker_states import count_workers_with_own_sockets
from uwsgi_headroom.metrics.family import counter, gauge
from uwsgi_headroom.metrics.scrape import ObservedServer, Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every socket of the scrape. An unmeasurable queue is absent, never 0."""
    queues = [
        (labels_of(server.observation, socket=name), backlog)
        for server in scrape.servers
        for name, backlog in server.reading.listen_queues().items()
    ]
    yield gauge(
        "uwsgi_socket_queue_length",
        "Connections waiting in the listen queue, from the kernel; if the kernel cannot be asked, uWSGI's own figure "
        "for TCP sockets, which is up to a second old.",
        [(labels, backlog.queue) for labels, backlog in queues],
    )
    yield gauge(
        "uwsgi_socket_max_queue_length",
        "Length at which the listen queue is full: the `listen` option, capped by net.core.somaxconn.",
        [(labels, backlog.limit) for labels, backlog in queues],
    )
    yield gauge(
        "uwsgi_socket_queue_measurable",
        "Whether the exporter can measure the socket's listen queue; if 0, the exporter's page says why.",
        [(labels, backlog.queue is not None) for labels, backlog in queues],
    )
    yield gauge(
        "uwsgi_workers_with_own_sockets",
        "Workers that take requests only from sockets that no other worker has: the threads of such a worker are a "
        "limit of their own. Absent without `map-socket`, and if the workers' descriptors are hidden.",
        [
            (server.labels, count_workers_with_own_sockets(setup))
            for server in scrape.servers
            if (setup := server.reading.host.setup)
        ],
    )
    yield gauge(
        "uwsgi_listen_queue_length",
        "Length of the server's longest listen queue, of those that can be measured.",
        [(server.labels, max(lengths)) for server in scrape.servers if (lengths := _list_lengths(server))],
    )
    yield gauge(
        "uwsgi_listen_queue_oldest_wait_seconds",
        "For how long the oldest request in the server's listen queues has waited; 0 if they are empty. TCP: as the "
        "kernel says. UNIX: since the exporter first saw it, to within the time between two samples. Absent unless all "
        "queues are known.",
        [
            (server.labels, max(oldest.values()))
            for server in scrape.servers
            if (oldest := server.observation.totals.oldest_waits)
            and oldest.keys() == server.reading.listen_queues().keys()
        ],
    )
    overflows = [(server.labels, counts) for server in scrape.servers if (counts := server.reading.host.overflows)]
    yield counter(
        "uwsgi_listen_overflows_total",
        "Connections that found a TCP listen queue full, in the server's whole network namespace.",
        [(labels, counts.overflows) for labels, counts in overflows],
    )
    yield counter(
        "uwsgi_listen_drops_total",
        "Connections dropped at TCP listeners for any reason, in the server's whole network namespace.",
        [(labels, counts.drops) for labels, counts in overflows],
    )
    yield gauge(
        "uwsgi_tracked_connections_ratio",
        "How full the kernel's table of tracked connections (nf_conntrack) is; at 1, it drops new connections. Only "
        "for servers with TCP sockets in the exporter's own network namespace, where connections are tracked.",
        [
            (server.labels, tracked.entries / tracked.most)
            for server in scrape.servers
            if (tracked := server.record.tracked)
        ],
    )
    yield counter(
        "uwsgi_untracked_packets_total",
        "Packets that the kernel dropped because it could not track their connection, in the same network namespace, "
        "since the exporter first saw it: because the table was full, and for rarer reasons.",
        [(server.labels, server.observation.totals.untracked) for server in scrape.servers],
    )


def _list_lengths(server: ObservedServer) -> list[int]:
    """List the lengths, in connections, of the server's measurable listen queues."""
    return [backlog.queue for backlog in server.reading.listen_queues().values() if backlog.queue is not None]
