"""CPU: interpreters and CPUs at their limit, other programs, pinning, quotas, and uneven workers.

These rows need a machine with at least two CPUs and little else on it.
"""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy

MAPPED = (
    "--http-socket",
    "{directory}/hot",
    "--map-socket",
    "0:1",
    "--http-socket",
    "{directory}/calm",
    "--map-socket",
    "1:2,3",
)
NO_THREADS = ("raise `threads`",)

ROWS = (
    Scenario(
        "4x8 on the CPU",
        Server(4, 8),
        Expected("critical", ("cpu_bound",), words=("cpus",), not_words=NO_THREADS, limits=("cpu",)),
        (Load(clients=16, cpu_ms=50),),
        alone=True,
        twin=healthy("", Load(rate=5, cpu_ms=50)),
    ),
    Scenario(
        "1x8 on the CPU",
        Server(1, 8),
        Expected(
            "critical",
            ("interpreter_bound",),
            words=("processes",),
            not_words=NO_THREADS,
            limits=("interpreters", "hottest_interpreter"),
        ),
        (Load(clients=8, cpu_ms=50),),
        alone=True,
        twin=healthy("", Load(rate=4, cpu_ms=50)),
    ),
    Scenario("2x2 at 25 % of the CPU", Server(2, 2), Expected("ok"), (Load(rate=10, cpu_ms=50),), alone=True),
    Scenario(
        "4x8 on the CPU, beside burners",
        Server(4, 8),
        Expected("critical", ("cpu_bound", "cpu_used_by_others"), not_words=NO_THREADS, limits=("cpu",)),
        (Load(clients=16, cpu_ms=50),),
        burners=4,
        alone=True,
        twin=healthy("", Load(rate=5, cpu_ms=50)),
    ),
    Scenario(
        "some CPU, beside burners",
        Server(2, 2),
        Expected(
            "warning", ("cpu_used_by_others", "cpu_bound"), words=("other",), not_words=NO_THREADS, limits=("cpu",)
        ),
        (Load(rate=8, cpu_ms=40),),
        burners=3,
        alone=True,
        why="No CPU is idle, and its requests wait for one for a quarter of their time: some are hurt. Where that wait "
        "is measured, `cpu_bound` says so.",
        twin=healthy(),
    ),
    Scenario(
        "hot worker by map-socket",
        Server(3, 8, MAPPED),
        Expected("critical", ("unevenness_hurts",), words=("worker 1",), limits=("hottest_interpreter", "cpu")),
        (Load(clients=16, io_ms=60, cpu_ms=20, socket="hot"), Load(clients=2, io_ms=60, cpu_ms=20, socket="calm")),
        alone=True,
        seconds=15.0,
        twin="uneven and harmless",
    ),
    Scenario(
        "full worker by map-socket",
        Server(3, 4, MAPPED),
        Expected(
            "critical",
            ("saturation",),
            ("queue_wait",),
            words=("all threads of worker 1 are busy", "map-socket"),
            not_words=("raise `threads`", "raise `processes`"),
        ),
        (Load(clients=9, io_ms=80, socket="hot"), Load(clients=2, io_ms=80, socket="calm")),
        seconds=15.0,
        why="All four threads of worker 1 are busy, and five requests wait at its own socket, longer than "
        "they are in service, while most of the other threads are free.",
        twin="uneven and harmless",
    ),
    Scenario(
        "uneven and harmless",
        Server(3, 8, MAPPED),
        Expected("ok", also=("unevenness_harmless",), words=("harmless",), limits=("threads",)),
        (Load(clients=4, io_ms=100, socket="hot"), Load(clients=2, io_ms=100, socket="calm")),
        seconds=15.0,
    ),
    Scenario(
        "pinned on one CPU by taskset",
        Server(2, 2, cpus="0"),
        Expected("critical", ("cpu_bound",), words=("affinity",), not_words=NO_THREADS, limits=("cpu",)),
        (Load(clients=6, cpu_ms=50),),
        alone=True,
        twin=healthy("", Load(rate=8, cpu_ms=50), server={"cpus": ""}),
    ),
    Scenario(
        "cpu-affinity, little load",
        Server(4, 2, ("--cpu-affinity", "1")),
        Expected("ok", also=("workers_share_one_cpu",)),
        (Load(rate=4, io_ms=100),),
    ),
    Scenario(
        "cgroup quota of half a CPU",
        Server(2, 2, quota=0.5),
        Expected("critical", ("cpu_bound",), words=("quota",), not_words=NO_THREADS, limits=("cpu",)),
        (Load(clients=6, cpu_ms=50),),
        alone=True,
        twin="a CPU quota that nobody feels",
    ),
)
