"""The processes of one server: memory, CPU, states, and whether the figures can be trusted."""

from __future__ import annotations

from dashboards.signal import ONE, Series, signal
from dashboards.signals.balance import by_worker

MEMORY = signal(
    "Memory by worker",
    "bytes",
    """Resident memory, including pages shared with other workers. Growth that ends only with a respawn is a leak, which
    `max-requests` and `reload-on-rss` hide. If the exporter cannot see the processes, this is uWSGI's own figure, and
    empty without `memory-report`.""",
    by_worker(f"sum by (worker_id) ({ONE.of('uwsgi_worker_resident_memory_bytes')})"),
)
STATES = signal(
    "Workers by state",
    "none",
    """Worker slots. Busy: at least one request is in service. Starting, gone: the process is not yet, or no longer,
    running. Cheap, never spawned: held back by cheaper mode. Without application: the worker answers every request with
    status 500, because the configured application could not be loaded; shown only if there are any.""",
    Series(f"sum by (state) ({ONE.of('uwsgi_workers')} > 0)", "{{state}}"),
    Series(f"max({ONE.of('uwsgi_workers_without_application')}) > 0", "without application"),
)
CPU = signal(
    "CPUs used, and usable",
    "none",
    """CPU seconds per second of all workers, and of other programs, on CPUs that the server could have used. Usable:
    the least of the affinity, the cgroup's quota and the host's CPUs. Empty if the exporter cannot prove that the
    processes are on its host.""",
    Series(f"sum by (mode) ({ONE.rate('uwsgi_worker_cpu_seconds_total')})", "{{mode}}"),
    Series(f"max({ONE.rate('uwsgi_cpu_used_by_others_seconds_total')})", "other programs"),
    Series(f"max({ONE.of('uwsgi_cpus_usable')})", "usable"),
)
ROOM = signal(
    "More workers fit",
    "none",
    """How many more workers, each as large as the largest, fit into the available memory: that of the host, or what is
    left of the cgroup's limit. At 0, do not add a worker, however much CPU is free. Unknown if the exporter cannot
    prove that the processes are on its host.""",
    Series(f"min({ONE.of('uwsgi_memory_headroom_workers')})", "workers", now=True),
)
OLDEST = signal(
    "Oldest request in service",
    "s",
    """By worker, to about a second; a gap if no request is in service. A line that keeps rising is a stuck request:
    `harakiri` would end its worker.""",
    by_worker(f"max by (worker_id) ({ONE.of('uwsgi_worker_oldest_request_age_seconds')})"),
)
FILES = signal(
    "Open files by worker",
    "none",
    """Open files and sockets of the worker's process: steady growth is a leak. The exporter must run as uWSGI's user,
    or with the capabilities that docs/installation.md names.""",
    by_worker(f"sum by (worker_id) ({ONE.of('uwsgi_worker_open_fds')})"),
)
SAMPLING = signal(
    "Time not covered by samples",
    "percentunit",
    """Gaps come from failed reads, pauses and reloads, and no figure fills them in. With many gaps, observed
    concurrency, occupancy and queue wait are based on fewer samples.""",
    Series(
        f"sum({ONE.rate('uwsgi_exporter_sample_gap_seconds_total')})\n"
        f"/ (sum({ONE.rate('uwsgi_exporter_sample_gap_seconds_total')})"
        f" + sum({ONE.rate('uwsgi_exporter_observed_seconds_total')}))",
        "gaps",
    ),
    Series(f"max({ONE.of('uwsgi_exporter_sampling_duty_ratio')})", "reading uWSGI"),
)
