"""Metric names of the common Go exporter (timonwong/uwsgi_exporter), for dashboards and autoscalers made for it.

Only names that our exporter lacks are recorded, so that no series exists twice. As in the Go exporter, worker metrics
cover only workers that were ever spawned: cheaper's reserve would change every average. For the rest see MIGRATION.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Group, Recording
from alerts.thresholds import Thresholds

OF_WORKERS = {
    "uwsgi_worker_busy": "(uwsgi_worker_busy_threads > bool 0)",
    "uwsgi_worker_idle": "uwsgi_worker_accepting * (uwsgi_worker_busy_threads == bool 0)",
    "uwsgi_worker_cores": "uwsgi_worker_threads",
    "uwsgi_worker_running_time_seconds": "uwsgi_worker_running_time_seconds_total",
    "uwsgi_worker_rss_bytes": "uwsgi_worker_resident_memory_bytes",
    "uwsgi_worker_harakiri_count_total": "uwsgi_worker_harakiri_total",
    "uwsgi_worker_respawn_count_total": "uwsgi_worker_respawns_total",
}
SPAWNED = "uwsgi_worker_last_spawn_time_seconds"

OF_SERVERS = {
    "uwsgi_cache_hits": "uwsgi_cache_hits_total",
    "uwsgi_cache_misses": "uwsgi_cache_misses_total",
    "uwsgi_cache_full": "uwsgi_cache_full_total",
    "uwsgi_exporter_last_scrape_error": "uwsgi_up == bool 0",
    "uwsgi_exporter_scrape_errors_total": "sum without (reason) (uwsgi_exporter_read_errors_total)",
}


def groups(_thresholds: Thresholds) -> Sequence[Group]:
    """The group of `compat-uwsgi-exporter.yaml`."""
    workers = [Recording(name, f"{ours} and {SPAWNED}") for name, ours in OF_WORKERS.items()]
    servers = [Recording(name, ours) for name, ours in OF_SERVERS.items()]
    return [Group("uwsgi-headroom names of uwsgi_exporter", [*workers, *servers])]
