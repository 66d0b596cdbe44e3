"""Builds metric families from readings, subject by subject.

To find a metric, search for its name, which is a literal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from uwsgi_headroom.metrics import exporter, host, sampled_totals, server, subsystems, window_figures
from uwsgi_headroom.metrics.family import (
    Table,
    each_observation,
    each_process,
    each_reading,
    each_server,
    each_slot,
    each_totals,
    each_worker_totals,
    group_by_kind,
    tabulate,
)
from uwsgi_headroom.watch.observation import WELL, ExporterHealth, Observation

SECTIONS: Mapping[str, tuple[Table[Any], ...]] = {
    "Server": (
        (each_observation, server.OBSERVATION),
        (each_reading, server.READING),
        (server.each_alert, server.ALERT),
        (each_server, server.SERVER),
    ),
    "Threads": ((each_server, server.THREADS),),
    "Worker": ((each_slot, server.WORKER), (each_server, server.CLIENTS)),
    "Process": ((each_process, host.PROCESS), (each_slot, host.RESIDENT), (each_server, host.PROCESSES)),
    "Other process": ((host.each_role, host.ROLE),),
    "Memory": ((each_slot, host.UNIQUE), (host.each_available, host.AVAILABLE), (each_server, host.MEMORY)),
    "CPU affinity": ((each_process, host.AFFINITY), (each_server, host.CPUS)),
    "Socket": ((host.each_socket, host.SOCKET), (each_server, host.SOCKETS), (host.each_overflow, host.OVERFLOWS)),
    "Sampled totals": (
        (each_worker_totals, sampled_totals.WORKER_TOTALS),
        (sampled_totals.each_cpu, sampled_totals.CPU_TOTALS),
        (each_totals, sampled_totals.SERVER_TOTALS),
        (sampled_totals.each_occupied, sampled_totals.OCCUPANCY),
        (each_observation, sampled_totals.EXPORTER_TOTALS),
    ),
    "Waits": (
        (sampled_totals.each_waits, sampled_totals.WAIT_TOTALS),
        (sampled_totals.each_lock_wait, sampled_totals.LOCK_WAIT),
        (each_server, sampled_totals.CONNECTIONS),
    ),
    "Routes": ((sampled_totals.each_routed, sampled_totals.ROUTES),),
    "Code": ((sampled_totals.each_code, sampled_totals.CODE),),
    "Window figures": (
        (window_figures.each_window, window_figures.WINDOW),
        (window_figures.each_longest_window, window_figures.LONGEST_WINDOW),
        (window_figures.each_worker_in_window, window_figures.WORKER_IN_WINDOW),
    ),
    "Response times": (
        (window_figures.each_timed, window_figures.RESPONSE_TIMES),
        (window_figures.each_objective, window_figures.OBJECTIVE),
    ),
    "Application": ((each_server, server.APPLICATION), (server.each_slot_with_several, server.APPLICATIONS_OF_WORKER)),
    "uWSGI's log": ((server.each_log, server.LOG),),
    "Cache": ((subsystems.each_cache, subsystems.CACHE),),
    "Spooler": ((subsystems.each_with_spoolers, subsystems.SPOOLER),),
    "Cron": ((subsystems.each_cron, subsystems.CRON),),
    "Legion": ((subsystems.each_legion, subsystems.LEGION),),
    "Lock": ((subsystems.each_with_locks, subsystems.LOCK),),
    "Custom": ((subsystems.each_with_custom_metrics, subsystems.CUSTOM),),
    "Emperor": ((subsystems.each_emperor, subsystems.EMPEROR), (subsystems.each_vassal, subsystems.VASSAL)),
    "Router": (
        (subsystems.each_router, subsystems.ROUTER),
        (subsystems.each_key, subsystems.KEY),
        (subsystems.each_node, subsystems.NODE),
    ),
    "Exporter": (
        (exporter.each_exporter, exporter.EXPORTER),
        (each_observation, exporter.READS),
        (exporter.each_pattern, exporter.PATTERN),
        (exporter.each_reload, exporter.RELOAD),
        (exporter.each_history, exporter.HISTORY),
    ),
}
"""The tables of each section of docs/metrics.md, in the order of the output."""

_process = ProcessCollector(registry=None)


def families(observations: Sequence[Observation], health: ExporterHealth = WELL) -> Iterator[Metric]:
    """Build every family from the observations of all servers. A family may have no samples."""
    scrape = group_by_kind(observations, health)
    for tables in SECTIONS.values():
        yield from tabulate(tables, scrape)
    yield from _process.collect()
