"""Where the workers of one server may run, and where they do."""

from __future__ import annotations

from dashboards.selector import ONE, RANGE
from dashboards.signal import PER_SECOND, Series, signal
from dashboards.signals.balance import by_worker

_HOST = "Empty where the processes cannot be proven to be of this host (uwsgi_host_facts_available is 0)."
_MASK = ONE.of("uwsgi_worker_cpu_affinity_cpus")
_LAST = ONE.of("uwsgi_worker_last_cpu")
_CPU = ONE.rate("uwsgi_worker_cpu_seconds_total")
_VOLUNTARY = ONE.rate("uwsgi_worker_context_switches_total", 'kind="voluntary"')
_INVOLUNTARY = ONE.rate("uwsgi_worker_context_switches_total", 'kind="involuntary"')
_RESIDENCY = ONE.growth("uwsgi_worker_cpu_residency_seconds_total")
_OPT_IN = """The metric is opt-in, since it costs workers x CPUs series: start the exporter with `--cpu-residency`, or
set `cpu_residency: true` under `sampling` in its configuration file."""

USABLE = signal(
    "CPUs usable",
    "none",
    f"CPUs the server can use at most: the least of its affinity, its cgroup's quota and the host's CPUs. {_HOST}",
    Series(f"max({ONE.of('uwsgi_cpus_usable')})", "CPUs", now=True),
)
USED = signal(
    "CPU used",
    "percentunit",
    f"CPU time of the workers over what they may use. Near 100 % no option of uWSGI makes more of it. {_HOST}",
    Series(f"sum({_CPU}) / max({ONE.of('uwsgi_cpus_usable')})", "used"),
)
OTHERS = signal(
    "CPU used by others",
    "percentunit",
    f"""CPU time of everything but the workers, over what the workers may use: of the CPUs in their mask, or of the
    quota of their cgroup. What others use, the workers cannot get. {_HOST}""",
    Series(f"max({ONE.rate('uwsgi_cpu_used_by_others_seconds_total')}) / max({ONE.of('uwsgi_cpus_usable')})", "others"),
)
PINNED = signal(
    "Pinned workers",
    "none",
    f"""Workers that may use one CPU alone. Such a worker cannot go to another CPU while its own is taken. 0 is usual,
    and right unless measured otherwise. {_HOST}""",
    Series(f"sum({_MASK} == bool 1)", "workers", now=True),
)
SHARING = signal(
    "Sharing one CPU",
    "none",
    f"""Workers pinned to a single CPU to which another worker of the server is pinned, too: each gets a part of it
    while other CPUs may idle. Change `cpu-affinity`. {_HOST}""",
    Series(f"max({ONE.of('uwsgi_workers_sharing_one_cpu')})", "workers", now=True),
)
WORKERS = signal(
    "Workers and their CPUs",
    "none",
    f"""CPUs that the affinity mask allows; the CPU of the main thread at the last scrape, and how often it was
    another than at the scrape before, in the shown time; CPU time; context switches of the main thread a second.
    Involuntary: it was put off the CPU while it had work to do. {_HOST}""",
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
    f"""The CPU that the main thread of each worker last ran on, at each scrape: one colour all along is a worker that
    stays. {_HOST}""",
    by_worker(f"max by (worker_id) ({_LAST})"),
)
RESIDENCY = signal(
    "Where the workers ran",
    "percentunit",
    f"""The part of a worker's CPU time, all its threads, that it got on each CPU in the shown time: a line is a
    worker, a column a CPU. Empty unless switched on. {_OPT_IN}""",
    Series(
        f"sum by (worker_id, cpu) ({_RESIDENCY})\n"
        f"/ on (worker_id) group_left () (sum by (worker_id) ({_RESIDENCY}) > 0)",
        now=True,
    ),
)
CPUS = signal(
    "CPU time by CPU",
    "percentunit",
    f"""How much of each CPU the workers of this server took: what is on one CPU alone cannot use the others. Empty
    unless switched on. {_OPT_IN}""",
    Series(f"sum by (cpu) ({ONE.rate('uwsgi_worker_cpu_residency_seconds_total')})", "CPU {{cpu}}"),
)
SWITCHES = signal(
    "Context switches by worker: put off the CPU",
    PER_SECOND,
    f"""Involuntary ones a second, of the main thread: the worker had work and another process got the CPU. Many, with
    CPU to spare, are a mask that is too narrow. {_HOST}""",
    by_worker(f"sum by (worker_id) ({_INVOLUNTARY})"),
)
WAITS = signal(
    "Context switches by worker: to wait",
    PER_SECOND,
    f"""Voluntary ones a second, of the main thread: for a request, a database, or the interpreter's lock. {_HOST}""",
    by_worker(f"sum by (worker_id) ({_VOLUNTARY})"),
)
