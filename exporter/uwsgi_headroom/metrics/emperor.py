"""An emperor and its vassals, from the emperor's own stats server (`emperor-stats`)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge, name_apart
from uwsgi_headroom.metrics.scrape import Scrape, labels_of
from uwsgi_headroom.stats.emperor_router import is_set


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every emperor of the scrape."""
    vassals = [
        (labels_of(observation, vassal=name), vassal)
        for observation, emperor in scrape.emperors
        for name, vassal in name_apart(emperor.vassals, lambda vassal: vassal.name)
    ]
    yield gauge(
        "uwsgi_emperor_vassals",
        "Vassals the emperor runs.",
        [(labels_of(observation), len(emperor.vassals)) for observation, emperor in scrape.emperors],
    )
    yield gauge(
        "uwsgi_emperor_blacklisted_vassals",
        "Vassals the emperor throttles because they failed to start.",
        [(labels_of(observation), len(emperor.blacklist)) for observation, emperor in scrape.emperors],
    )
    yield gauge(
        "uwsgi_vassal_ready",
        "Whether the vassal has started.",
        [(labels, is_set(vassal.ready)) for labels, vassal in vassals],
    )
    yield gauge(
        "uwsgi_vassal_accepting",
        "Whether the vassal accepts requests.",
        [(labels, is_set(vassal.accepting)) for labels, vassal in vassals],
    )
    yield gauge(
        "uwsgi_vassal_loyal",
        "Whether the vassal has served a request, which makes it loyal.",
        [(labels, is_set(vassal.loyal)) for labels, vassal in vassals],
    )
    yield gauge(
        "uwsgi_vassal_cursed",
        "Whether the emperor is ending the vassal.",
        [(labels, is_set(vassal.cursed)) for labels, vassal in vassals],
    )
    yield counter(
        "uwsgi_vassal_respawns_total",
        "Respawns of the vassal.",
        [(labels, vassal.respawns) for labels, vassal in vassals],
    )
    yield gauge(
        "uwsgi_vassal_last_heartbeat_time_seconds",
        "Time of the vassal's last heartbeat, in epoch seconds; absent before the first.",
        [(labels, vassal.last_heartbeat or None) for labels, vassal in vassals],
    )
