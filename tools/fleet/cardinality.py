"""How many series a server and an exporter cost: derived from the code that exports them.

The numbers are upper bounds. A series may be absent: figures that are not known, workers without a request in service,
percentiles of too few requests. The recorded series are those of the shipped rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from uwsgi_headroom.analysis.capacity import LIMITS
from uwsgi_headroom.analysis.deploys.judgement import SUBJECTS
from uwsgi_headroom.analysis.percentiles import SHARES
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS
from uwsgi_headroom.journal.events import KINDS
from uwsgi_headroom.record import STATES as WAIT_STATES
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.stats.server import STATES
from uwsgi_headroom.watch.tasks import TASKS


def _words(text: str) -> list[str]:
    return text.split()


PER_WORKER = _words("""
requests_total running_time_seconds_total static_requests_total busy_threads threads accepting exceptions_total
harakiri_total respawns_total signals_total transmitted_bytes_total last_spawn_time_seconds oldest_request_age_seconds
resident_memory_bytes open_fds unique_memory_bytes cpu_affinity_cpus last_cpu busy_thread_seconds_total
lost_requests_total
""")
TWICE_PER_WORKER = ("cpu_seconds_total", "context_switches_total")
PER_WORKER_OF_LONGEST_WINDOW = ("request_share", "response_time_seconds", "interpreter_load")
PER_SOCKET = ("queue_length", "max_queue_length", "queue_measurable", "queue_seconds_total", "queue_full_seconds_total")
PER_WINDOW = _words("""
window_seconds throughput_requests_per_second mean_response_time_seconds queue_wait_seconds hot_worker_ratio
hot_worker_ratio_noise_floor request_share_fairness unevenness_cost_ratio usable_headroom_ratio
""")
ONCE = _words("""
up server_info scrape_duration_seconds stats_document_size_bytes signal_queue_length thunder_lock host_facts_available
harakiri_seconds listen_backlog_limit threads_configured threads_available threads_ceiling threads_busy threads_stuck
memory_available_bytes memory_headroom_workers cpus_usable workers_sharing_one_cpu cpu_others_follow_load
listen_queue_length listen_overflows_total listen_drops_total cpu_used_by_workers_seconds_total
cpu_available_idle_seconds_total cpu_used_by_others_seconds_total full_occupancy_seconds_total server_reloads_total
exporter_samples_total exporter_observed_seconds_total exporter_sample_gap_seconds_total workers_without_application
workers_with_own_sockets exporter_sampling_duty_ratio exporter_sampling_interval_seconds
cpu_quota_periods_total cpu_quota_throttled_periods_total cpu_quota_throttled_seconds_total idle_queue_seconds_total
memory_growth_bytes_total no_worker_seconds_total oom_kills_total open_fds_limit output_blocked_thread_seconds_total
read_errors_total settings_reviewed shared_connection_wait_thread_seconds_total shared_connections
starting_worker_seconds_total tracked_connections_ratio unanswered_requests_total untracked_packets_total
write_errors_total largest_worker_threads task_limit_ratio
listen_queue_oldest_wait_seconds last_reload_time_seconds verdict_info verdict_since_time_seconds
""")
LOG = ("up", "lines_total", "skipped_bytes_total")
PROCESS = _words("virtual_memory_bytes resident_memory_bytes start_time_seconds cpu_seconds_total open_fds max_fds")
MAY_BE_ABSENT = frozenset(
    f"uwsgi_{name}"
    for name in _words(
        "worker_oldest_request_age_seconds worker_unique_memory_bytes harakiri_seconds listen_backlog_limit "
        "cpu_others_follow_load response_time_percentile_seconds memory_headroom_workers headroom_ratio "
        "usable_headroom_ratio workers_with_own_sockets cpu_quota_periods_total cpu_quota_throttled_periods_total "
        "cpu_quota_throttled_seconds_total memory_growth_bytes_total oom_kills_total tracked_connections_ratio "
        "largest_worker_threads task_limit_ratio "
        "untracked_packets_total settings_advice shared_connections listen_queue_oldest_wait_seconds "
        "queue_wait_percentile_seconds last_reload_time_seconds verdict_since_time_seconds"
    )
)
"""Known only at times, or only of some servers."""


@dataclass(frozen=True)
class Shape:
    """What decides the number of a server's series. cpus: CPUs by which residency is exported, 0 if it is off; apps:
    applications of a worker; locks: what `show-locks` of the stats lists; roles: of uWSGI's processes that are no
    workers; rules: about settings that hurt; messages: known ones of its log, if that is read; reloaded:
    whether it was in the last day."""

    workers: int
    sockets: int = 1
    windows: int = 2
    waits: bool = True
    backends: int = 0
    routes: int = 0
    functions: int = 0
    cpus: int = 0
    objective: bool = False
    apps: int = 1
    locks: int = 8
    roles: int = 1
    rules: int = 0
    messages: int = 0
    reloaded: bool = False


def of_server(shape: Shape) -> dict[str, int]:
    """Returns the most series by metric name that a server of this shape has."""
    several = shape.apps if shape.apps > 1 else 0
    numbers = dict.fromkeys((f"uwsgi_worker_{name}" for name in PER_WORKER), shape.workers)
    numbers |= dict.fromkeys((f"uwsgi_worker_{name}" for name in TWICE_PER_WORKER), 2 * shape.workers)
    numbers |= dict.fromkeys(
        (f"uwsgi_worker_{name}" for name in PER_WORKER_OF_LONGEST_WINDOW), shape.workers if shape.windows else 0
    )
    numbers |= dict.fromkeys((f"uwsgi_socket_{name}" for name in PER_SOCKET), shape.sockets)
    numbers |= dict.fromkeys((f"uwsgi_{name}" for name in PER_WINDOW), shape.windows)
    numbers |= dict.fromkeys((f"uwsgi_{name}" for name in ONCE), 1)
    numbers |= {
        "uwsgi_worker_cpu_residency_seconds_total": shape.workers * shape.cpus,
        "uwsgi_worker_app_requests_total": shape.workers * several,
        "uwsgi_worker_app_exceptions_total": shape.workers * several,
        "uwsgi_app_startup_time_seconds": shape.apps,
        "uwsgi_concurrency": 2 * shape.windows,
        "uwsgi_headroom_ratio": len(LIMITS) * shape.windows,
        "uwsgi_response_time_percentile_seconds": len(SHARES) * shape.windows,
        "uwsgi_queue_wait_percentile_seconds": len(SHARES),
        "uwsgi_events_total": len(KINDS)
        - 2,  # without a log, no event is a message of it, and without a reload none judges one
        "uwsgi_deploy_worse": len(SUBJECTS) if shape.reloaded else 0,
        "uwsgi_workers": len(STATES),
        "uwsgi_lock_held": shape.locks,
        "uwsgi_exporter_read_errors_total": len(REASONS),
        "uwsgi_route_busy_thread_seconds_total": shape.routes,
        "uwsgi_code_busy_thread_seconds_total": shape.functions,
        "uwsgi_code_observed_seconds_total": 1 if shape.functions else 0,
        "uwsgi_process_cpu_seconds_total": shape.roles,
        "uwsgi_process_resident_memory_bytes": shape.roles,
        "uwsgi_settings_advice": shape.rules,
        "uwsgi_log_messages_total": shape.messages,
        **(dict.fromkeys((f"uwsgi_log_{name}" for name in LOG), 1) if shape.messages else {}),
        **_histogram("uwsgi_threads_busy_ratio", len(OCCUPANCY_BOUNDS)),
        **_histogram("uwsgi_response_time_seconds", len(BUCKET_BOUNDS)),
        **(_waits(shape) if shape.waits else {}),
        **(_objective() if shape.objective else {}),
    }
    return {name: number for name, number in numbers.items() if number}


def of_exporter() -> dict[str, int]:
    """Returns the series of an exporter itself, without a history file."""
    return {
        "uwsgi_exporter_build_info": 1,
        "uwsgi_exporter_config_last_reload_successful": 1,
        "uwsgi_exporter_config_last_reload_success_timestamp_seconds": 1,
        "uwsgi_exporter_loop_lag_seconds": 1,
        "uwsgi_exporter_restarted_tasks_total": len(TASKS),
        **dict.fromkeys((f"process_{name}" for name in PROCESS), 1),
    }


def total(numbers: Mapping[str, int]) -> int:
    return sum(numbers.values())


def coefficients() -> dict[str, int]:
    """Returns the terms of the formula: series of a server by what they are per, found by changing one part of the
    shape at a time."""
    base = Shape(workers=0, sockets=0, windows=0, waits=False, apps=0, locks=0, roles=0)

    def more(shape: Shape) -> int:
        return total(of_server(shape)) - total(of_server(base))

    def part(**change: int | bool) -> Shape:
        return Shape(**{**vars(base), **change})

    per_worker = more(part(workers=1))
    waits = more(part(waits=True))
    longest = more(part(windows=1, workers=1)) - per_worker - more(part(windows=1))
    return {
        "server": total(of_server(base)),
        "worker": per_worker + longest,
        "worker, with waits": more(part(workers=1, waits=True)) - per_worker - waits,
        "worker and CPU, with cpu-residency": more(part(workers=1, cpus=1)) - per_worker,
        "worker and application, from two applications on": (
            more(part(workers=1, apps=2)) - per_worker - more(part(apps=2))
        )
        // 2,
        "application": more(part(apps=1)),
        "socket": more(part(sockets=1)),
        "window": more(part(windows=1)),
        "server, with waits": waits,
        "backend, with waits": more(part(waits=True, backends=1)) - waits,
        "route": more(part(routes=1)),
        "lock": more(part(locks=1)),
        "role of other processes": more(part(roles=1)),
        "rule about settings that gives advice": more(part(rules=1)),
        "server, with an objective": more(part(objective=True)),
    }


def _histogram(name: str, bounds: int) -> dict[str, int]:
    return {f"{name}_bucket": bounds + 1, f"{name}_count": 1, f"{name}_sum": 1}


def _waits(shape: Shape) -> dict[str, int]:
    return {
        "uwsgi_wait_thread_seconds_total": len(WAIT_STATES),
        "uwsgi_backend_wait_thread_seconds_total": shape.backends,
        "uwsgi_worker_interpreter_lock_wait_thread_seconds_total": shape.workers,
        "uwsgi_wait_observed_seconds_total": 1,
        "uwsgi_wait_disagreement_thread_seconds_total": 1,
    }


def _objective() -> dict[str, int]:
    return {
        "uwsgi_slo_threshold_seconds": 1,
        "uwsgi_slo_objective_ratio": 1,
        "uwsgi_slo_requests_total": 1,
        "uwsgi_slo_bad_requests_total": 4,
    }
