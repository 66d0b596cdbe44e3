"""Builds metric families from readings, subject by subject.

The order of `SUBJECTS` is the order in the output. To find a metric, search for its name, which is a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics import (
    exporter,
    host,
    response_times,
    sampled_totals,
    server,
    subsystems,
    waits,
    window_figures,
    worker,
)
from uwsgi_headroom.metrics.family import Scrape, group_by_kind
from uwsgi_headroom.watch.observation import WELL, ExporterHealth, Observation

SUBJECTS: tuple[Callable[[Scrape], Iterator[Metric]], ...] = (
    server.families,
    worker.threads_families,
    worker.families,
    host.process_families,
    host.other_process_families,
    host.memory_families,
    host.cpu_affinity_families,
    host.socket_families,
    sampled_totals.families,
    waits.families,
    waits.connection_families,
    waits.loop_families,
    waits.routes_families,
    waits.code_families,
    window_figures.families,
    response_times.families,
    server.application_families,
    server.uwsgi_log_families,
    subsystems.cache_families,
    subsystems.spooler_families,
    subsystems.cron_families,
    subsystems.legion_families,
    subsystems.lock_families,
    subsystems.custom_families,
    subsystems.emperor_families,
    subsystems.router_families,
    exporter.families,
)
"""Each builds the families of one subject, which has a section of its own in docs/metrics.md."""


def families(observations: Sequence[Observation], health: ExporterHealth = WELL) -> Iterator[Metric]:
    """Build every family from the observations of all servers. A family may have no samples."""
    scrape = group_by_kind(observations, health)
    for build in SUBJECTS:
        yield from build(scrape)
