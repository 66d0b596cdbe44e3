"""The processes of one server: memory, CPU, states, and whether the figures can be trusted."""

from __future__ import annotations

from dashboards.selector import ONE
from dashboards.signal import Series, signal
from dashboards.signals.balance import by_worker

MEMORY = signal(
    "Memory by worker",
    "bytes",
    """Resident memory, pages shared with the other workers included. Growth that ends only in a respawn is a leak,
    which `max-requests` and `reload-on-rss` hide. Where the processes cannot be seen it is uWSGI's own figure, and
    absent without `memory-report`.""",
    by_worker(f"sum by (worker_id) ({ONE.of('uwsgi_worker_resident_memory_bytes')})"),
)
STATES = signal(
    "Workers by state",
    "none",
    """Worker slots. Busy: at least one request is in service. Starting and gone: not yet, or no longer, there. Cheap
    and never spawned: held back by cheaper mode. Without application: they answer every request with status 500,
    since what the configuration names could not be loaded; drawn only where there are any.""",
    Series(f"sum by (state) ({ONE.of('uwsgi_workers')} > 0)", "{{state}}"),
    Series(f"max({ONE.of('uwsgi_workers_without_application')}) > 0", "without application"),
)
CPU = signal(
    "CPUs used, and usable",
    "none",
    """CPU seconds a second of all workers; and of others, where the server could have used it: they leave less of it.
    Usable: the least of the affinity, the cgroup's quota and the host's CPUs.
    Empty where the processes cannot be proven to be of this host.""",
    Series(f"sum by (mode) ({ONE.rate('uwsgi_worker_cpu_seconds_total')})", "{{mode}}"),
    Series(f"max({ONE.rate('uwsgi_cpu_used_by_others_seconds_total')})", "others"),
    Series(f"max({ONE.of('uwsgi_cpus_usable')})", "usable"),
)
ROOM = signal(
    "More workers fit",
    "none",
    """Into the memory available, each taken to be as large as the largest: of the host, or of
    what the cgroup has left of its limit. At 0 another worker is one too many, whatever the CPUs could do. Unknown
    where the processes cannot be proven to be of this host.""",
    Series(f"min({ONE.of('uwsgi_memory_headroom_workers')})", "workers", now=True),
)
OLDEST = signal(
    "Oldest request in service",
    "s",
    """By worker, to about a second; a gap where none is in service. A line that climbs without end is a stuck
    request: `harakiri` would end its worker.""",
    by_worker(f"max by (worker_id) ({ONE.of('uwsgi_worker_oldest_request_age_seconds')})"),
)
FILES = signal(
    "Open files by worker",
    "none",
    """Open files and sockets of the worker's process: steady growth is a leak. Needs the user of uWSGI, or the
    capabilities that docs/installation.md names.""",
    by_worker(f"sum by (worker_id) ({ONE.of('uwsgi_worker_open_fds')})"),
)
SAMPLING = signal(
    "Time not covered by samples",
    "percentunit",
    """Gaps: failed reads, pauses, reloads. No figure bridges them; with many of them, observed concurrency, occupancy
    and queue wait rest on less.""",
    Series(
        f"sum({ONE.rate('uwsgi_exporter_sample_gap_seconds_total')})\n"
        f"/ (sum({ONE.rate('uwsgi_exporter_sample_gap_seconds_total')})"
        f" + sum({ONE.rate('uwsgi_exporter_observed_seconds_total')}))",
        "gaps",
    ),
    Series(f"max({ONE.of('uwsgi_exporter_sampling_duty_ratio')})", "reading uWSGI"),
)
