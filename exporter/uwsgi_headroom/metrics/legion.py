"""Legions: which of several nodes is the lord."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import gauge, name_apart
from uwsgi_headroom.metrics.scrape import Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every legion of the scrape."""
    legions = [
        (labels_of(server.observation, legion=name), legion)
        for server in scrape.servers
        for name, legion in name_apart(server.snapshot.legions, lambda legion: legion.name)
    ]
    yield gauge(
        "uwsgi_legion_lord",
        "Whether this node is the lord.",
        [(labels, None if legion.lord_since is None else legion.lord_since > 0) for labels, legion in legions],
    )
    yield gauge("uwsgi_legion_valor", "This node's valor.", [(labels, legion.valor) for labels, legion in legions])
    yield gauge(
        "uwsgi_legion_quorum",
        "Votes needed to elect a lord.",
        [(labels, legion.quorum) for labels, legion in legions],
    )
    yield gauge(
        "uwsgi_legion_members",
        "Other nodes that this node knows.",
        [(labels, len(legion.members)) for labels, legion in legions],
    )
