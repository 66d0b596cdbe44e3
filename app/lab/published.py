"""The published results that the lab compares with, as data; nothing here was measured by this project.

E1: "Getting Every Microsecond Out of uWSGI" (2016). E2: "Does uWSGI use several CPU cores with several processes?"
(2019). E3: "Benchmark of Python WSGI servers" (2010). E4: "Tuning uWSGI, or: Why So Slow?" (2017-18).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """A step of E1. mean: ms of a request, with 500 clients of ab."""

    number: int
    name: str
    added: str
    throughput: float
    mean_ms: float


STEPS = (
    Step(1, "baseline", "`http`, `wsgi-file`, `callable`", 347.28, 1439.7),
    Step(2, "processes and threads", "`processes = 4`, `threads = 2`, `enable-threads`", 1068.63, 467.9),
    Step(3, "no request log", "`disable-logging`", 1483.35, 337.1),
    Step(4, "recycle workers", "`max-worker-lifetime = 30`", 1606.62, 311.2),
    Step(5, "Cython", "Fibonacci module compiled", 1744.61, 286.6),
)
E1_REQUESTS = 5000
E1_LIFETIME = 30
E1_CLIENTS = 500


@dataclass(frozen=True, slots=True)
class Processes:
    """A row of E2: 60 requests by 4 clients, on 8 CPUs. total: seconds; cpus: that were fully busy."""

    processes: int
    total: float
    mean_ms: float
    longest_ms: float
    cpus: int

    @property
    def throughput(self) -> float:
        return E2_REQUESTS / self.total


E2_REQUESTS = 60
E2_CLIENTS = 4
E2_N = 35
E2_SECONDS = 3.8
"""Of one request for fib(35) there."""
PROCESSES = (
    Processes(1, 239.9, 15_992, 17_082, 1),
    Processes(2, 128.4, 8_563, 10_004, 2),
    Processes(4, 77.8, 5_187, 5_893, 4),
)

E3_CONNECTIONS = 20_000
E3_NEW_CLIENTS = 500
"""A second, each with 12 requests, 5 s apart."""
E3_TIMEOUT = 5.0
"""Seconds until a request counts as failed."""
E3_CALLS = 10
"""On each connection, with keep-alive."""

FASTEST_HTTP10 = ("uWSGI", "gevent")
"""FAPWS3 was the third of the leaders; it is gone."""
FASTEST_KEEP_ALIVE = ("gevent", "uWSGI")
REPLIES_KEEP_ALIVE = {"gevent": 9000, "Cheroot": 4000, "mod_wsgi": 4000, "Twisted": 1000}
"""Replies a second, about. Cheroot was part of CherryPy then."""
FELL_OVER = {"MagnumPy": 700, "Concurrence": 800, "Cogen": 1500, "wsgiref": 1900, "Paster": 2000}
"""Requests a second (HTTP/1.0) at which a server stopped to answer."""
LEAST_MEMORY = ("uWSGI", "gevent")
"""And FAPWS3."""
LATENCY_MS = {"Tornado": 100, "uWSGI": 5, "gevent": 3}
"""In the run with many connections, about."""
GONE = {
    "Aspen": "its releases of today are a library without a server of its own",
    "Cogen": "its last release, of 2009, is for Python 2 and does not install",
    "Concurrence": "the package index has no release of it",
    "FAPWS3": "its last release, of 2012, is for Python 2 and does not install; bjoern is of its kind (libev)",
    "MagnumPy": "the package index has no release of it",
    "CherryPy": "its server is a package of its own, Cheroot, which is measured",
}
"""Servers of the published benchmark that are not measured, and why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A row of E4: workers x threads on each of 6 machines. shares: smallest and largest of a worker, if published."""

    name: str
    workers: int
    threads: int
    shares: tuple[float | None, float]


SHAPES = (Shape("4x8", 4, 8, (None, 0.43)), Shape("8x1", 8, 1, (0.10, 0.17)))
E4_MACHINES = 6
E4_RATE = 10_000 / 60
"""Requests a second on all machines together."""
E4_SECONDS = 0.5
"""Mean response time before the change."""
E4_CONCURRENCY = 83


@dataclass(frozen=True, slots=True)
class Published:
    """A published experiment in the list of all of them. where: how the lab runs it, or why it does not."""

    key: str
    name: str
    where: str
    run: bool


EXPERIMENTS = (
    Published("E1", "five steps on a Flask application, `ab -c 500`", "each step beside the one before", True),
    Published("E1", "claim: the processes use the same CPU by default", "affinity masks, CPU residency", True),
    Published("E1", "claim: threads spread the load over CPUs", "E2: 1x4 beside 1x1 and 4x1, CPUs in use", True),
    Published("E1", "claim: recycling workers adds throughput", "with their lifetime, and with a short one", True),
    Published("E2", "1, 2 and 4 processes, naive fib(35), `ab -n 60 -c 4`", "with a smaller n", True),
    Published("E2", "two requests at once, with 1 and with 4 processes", "two clients in a closed loop", True),
    Published("E2", "CPUs in use, by `mpstat`", "by the kernel's counters of each CPU", True),
    Published("E2", "processes with threads", "4 threads for each process", True),
    Published("E3", "HTTP/1.0, rate in steps", "fewer steps and shorter, all servers that install", True),
    Published("E3", "HTTP/1.1, ten calls a connection, rate in steps", "fewer steps and shorter", True),
    Published("E3", "peak memory of all processes", "in the same runs, shared pages counted once", True),
    Published("E3", "five minutes with 500 new clients a second, 20,000 connections", "scaled: idle connections", True),
    Published("E3", "load and free memory of the machine over time", "other work on the machine decides them", False),
    *(Published("E3", f"the server {name}", why, False) for name, why in GONE.items()),
    Published("E4", "4x8 before, 8x1 after", "with 4x1 and 8x4, so that one thing changes at a time", True),
    Published("E4", "6 machines x 4 cores, database and network calls", "one machine; CPU and a wait", False),
    Published("E4", "shares of the workers", "this project's figures instead of uwsgitop's column", True),
    Published("E4", "the example that everything must explain: a hot interpreter", "the share made certain", True),
    Published("E4", "guess: the busiest worker has affinity to the least loaded core", "residency, cpu-affinity", True),
)
