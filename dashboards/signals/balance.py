"""How evenly the workers of one server share the load, on which CPUs they run, and what their processes take."""

from __future__ import annotations

from dashboards.signal import ONE, PER_SECOND, RANGE, TIMES, WINDOW, Series, signal
from dashboards.signals.limits import OBSERVED_SECONDS

_LINES = 16
_WORKER = "worker {{worker_id}}"
_REQUESTS = f"sum by (worker_id) ({ONE.rate('uwsgi_worker_requests_total')})"
_STATIC = f"sum by (worker_id) ({ONE.rate('uwsgi_worker_static_requests_total')})"
TIMED = f"({_REQUESTS} - {_STATIC} or {_REQUESTS})"
"""uWSGI counts no time for static files; with stats-no-cores it does not report them."""
BUSIEST = (
    f"and on (worker_id) topk({_LINES}, sum by (worker_id) "
    f"(rate({ONE.of('uwsgi_worker_requests_total')}{RANGE} @ end())))"
)
"""Only the workers with most requests in the time range: the same in every graph, and few enough to distinguish."""
_ONLY = f"Shows the {_LINES} workers with most requests in the time range."


def by_worker(expression: str) -> Series:
    """A series for each of the busiest workers."""
    return Series(f"{expression}\n{BUSIEST}", _WORKER)


SHARES = signal(
    "Share of the requests",
    "percentunit",
    """All workers, stacked: bands of equal height are even. Without load, shares are always uneven, because the kernel
    wakes waiting workers in its own order; under load, unevenness matters if it costs response time. Empty if no
    request is served.""",
    Series(f"{_REQUESTS} / on () group_left () (sum({_REQUESTS}) > 0)", _WORKER),
)
_IN_RANGE = f"sum by (worker_id) ({ONE.growth('uwsgi_worker_requests_total')})"
SHARES_NOW = signal(
    "Share, and the fair one",
    "percentunit",
    f"""Each worker's part of the requests in the time range, for the {_LINES} workers with most. The line is the fair
    share: an equal part for each worker that accepts requests now.""",
    Series(f"topk({_LINES}, {_IN_RANGE} / on () group_left () (sum({_IN_RANGE}) > 0))", "share", now=True),
    Series(f"1 / count({ONE.of('uwsgi_worker_accepting')} == 1)", "fair", now=True),
)
UNEVENNESS = signal(
    "Hot worker: hot ratio",
    TIMES,
    """Active workers x largest share; 1x is even. Below the noise floor it is chance. Above the noise floor and the red
    line, under load, it is a ticket.""",
    Series(f"max({ONE.of('uwsgi_hot_worker_ratio', WINDOW)})", "hot worker"),
    Series(f"max({ONE.of('uwsgi_hot_worker_ratio_noise_floor', WINDOW)})", "noise floor"),
)
COST_NOW = signal(
    "Unevenness cost",
    "percentunit",
    """The part of the mean response time that balancing the workers would save. Unknown while the less busy workers
    have too few requests to compare.""",
    Series(f"max({ONE.of('uwsgi_unevenness_cost_ratio', WINDOW)})", "of the response time", now=True),
)
COST = signal(
    "Cost of unevenness",
    "percentunit",
    """The part of the mean response time that balancing the workers would save: 0 is harmless, however uneven the
    shares are. Empty while the less busy workers have too few requests to compare.""",
    Series(f"max({ONE.of('uwsgi_unevenness_cost_ratio', WINDOW)})", "of the response time"),
)
RESPONSE_TIMES = signal(
    "Response time by worker",
    "s",
    f"""Mean time in service of a worker's requests, without static files. If a worker is above the others and its
    interpreter is near its limit, its threads wait for one lock. {_ONLY} A worker without requests has a gap.""",
    by_worker(f"sum by (worker_id) ({ONE.rate('uwsgi_worker_running_time_seconds_total')})\n/ ({TIMED} > 0)"),
)
INTERPRETERS = signal(
    "Interpreter load by worker",
    "percentunit",
    f"""CPU seconds per second of the worker's process. One CPython interpreter can use one CPU: above the red line, its
    threads mostly wait for its lock. {_ONLY} Empty if the exporter cannot prove that the processes are on its host.""",
    by_worker(f"sum by (worker_id) ({ONE.rate('uwsgi_worker_cpu_seconds_total')})"),
)
BUSY_THREADS = signal(
    "Requests in service by worker",
    "none",
    f"""Mean busy threads of a worker, from samples. If all threads of one worker are busy while others are idle, the
    worker has its own socket (map-socket), or its requests are stuck. {_ONLY}""",
    by_worker(
        f"sum by (worker_id) ({ONE.rate('uwsgi_worker_busy_thread_seconds_total')})\n"
        f"/ on () group_left () {OBSERVED_SECONDS}"
    ),
)


_HOST = "Empty if the exporter cannot prove that the processes are on its host (uwsgi_host_facts_available is 0)."
_MASK = ONE.of("uwsgi_worker_cpu_affinity_cpus")
_LAST = ONE.of("uwsgi_worker_last_cpu")
_CPU = ONE.rate("uwsgi_worker_cpu_seconds_total")
_VOLUNTARY = ONE.rate("uwsgi_worker_context_switches_total", 'kind="voluntary"')
_INVOLUNTARY = ONE.rate("uwsgi_worker_context_switches_total", 'kind="involuntary"')
_RESIDENCY = ONE.growth("uwsgi_worker_cpu_residency_seconds_total")
_OPT_IN = """The metric is opt-in, because it has workers x CPUs series: start the exporter with `--cpu-residency`, or
set `cpu_residency: true` under `sampling` in its configuration file."""

USABLE = signal(
    "CPUs usable",
    "none",
    f"CPUs that the server can use: the least of its affinity, its cgroup's quota and the host's CPUs. {_HOST}",
    Series(f"max({ONE.of('uwsgi_cpus_usable')})", "CPUs", now=True),
)
USED = signal(
    "CPU used",
    "percentunit",
    f"CPU time of the workers, as a part of what they may use. Near 100 %, no uWSGI option gives them more. {_HOST}",
    Series(f"sum({_CPU}) / max({ONE.of('uwsgi_cpus_usable')})", "used", now=True),
)
OTHERS = signal(
    "CPU of other programs",
    "percentunit",
    f"""CPU time of all other programs, as a part of what the workers may use: on the CPUs in their mask, or from the
    quota of their cgroup. The workers cannot get this time. {_HOST}""",
    Series(
        f"max({ONE.rate('uwsgi_cpu_used_by_others_seconds_total')}) / max({ONE.of('uwsgi_cpus_usable')})",
        "other programs",
        now=True,
    ),
)
PINNED = signal(
    "Pinned workers",
    "none",
    f"""Workers that may use only one CPU. Such a worker cannot move to another CPU while its own is busy. 0 is usual,
    and right unless you have measured otherwise. {_HOST}""",
    Series(f"sum({_MASK} == bool 1)", "workers", now=True),
)
SHARING = signal(
    "Sharing one CPU",
    "none",
    f"""Workers pinned to a CPU to which another worker of the server is pinned, too: each gets a part of this CPU while
    other CPUs may be idle. Change `cpu-affinity`. {_HOST}""",
    Series(f"max({ONE.of('uwsgi_workers_sharing_one_cpu')})", "workers", now=True),
)
WORKERS = signal(
    "Workers and their CPUs",
    "none",
    f"""CPUs that the affinity mask allows; the CPU of the main thread at the last scrape, and how often it changed from
    one scrape to the next in the time range; CPU time; context switches of the main thread per second. Involuntary: the
    thread lost the CPU while it had work to do. {_HOST}""",
    Series(f"max by (worker_id) ({_MASK})", "CPUs allowed", now=True),
    Series(f"max by (worker_id) ({_LAST})", "Last CPU", now=True),
    Series(f"sum by (worker_id) (changes({_LAST}{RANGE}))", "Moves seen", now=True),
    Series(f"sum by (worker_id) ({_CPU})", "CPU", now=True),
    Series(f"sum by (worker_id) ({_VOLUNTARY})", "Voluntary switches", now=True),
    Series(f"sum by (worker_id) ({_INVOLUNTARY})", "Involuntary switches", now=True),
)
LAST_CPU = signal(
    "Last CPU",
    "none",
    f"""The CPU on which the main thread of each worker last ran, at each scrape. A worker with one colour throughout
    stays on its CPU. {_HOST}""",
    by_worker(f"max by (worker_id) ({_LAST})"),
)
RESIDENCY = signal(
    "Where the workers ran",
    "percentunit",
    f"""How the CPU time of each worker (line), with all its threads, was spread over the CPUs (columns) in the time
    range. Empty unless enabled. {_OPT_IN}""",
    Series(
        f"sum by (worker_id, cpu) ({_RESIDENCY})\n"
        f"/ on (worker_id) group_left () (sum by (worker_id) ({_RESIDENCY}) > 0)",
        now=True,
    ),
)
CPUS = signal(
    "CPU time by CPU",
    "percentunit",
    f"""How much of each CPU the workers of this server used. Load on one CPU cannot use the others. Empty unless
    enabled. {_OPT_IN}""",
    Series(f"sum by (cpu) ({ONE.rate('uwsgi_worker_cpu_residency_seconds_total')})", "CPU {{cpu}}"),
)
SWITCHES = signal(
    "Context switches by worker: preempted",
    PER_SECOND,
    f"""Involuntary switches of the main thread per second: the worker had work, and another process got the CPU. Many
    of them while CPUs are idle mean that the mask is too narrow. {_HOST}""",
    by_worker(f"sum by (worker_id) ({_INVOLUNTARY})"),
)
WAITS = signal(
    "Context switches by worker: to wait",
    PER_SECOND,
    f"""Voluntary switches of the main thread per second, to wait for a request, a database, or the interpreter's lock.
    {_HOST}""",
    by_worker(f"sum by (worker_id) ({_VOLUNTARY})"),
)


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
