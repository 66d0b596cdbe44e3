"""Cases of the alerts about load near a limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.alerts.cases.case import Case, Firing, firing
from tests.support.promtool_series import RESERVE, Phase, Server, Worker, series

RULES = ("recording.yaml", "capacity.yaml")
TARGET = {"job": "uwsgi", "instance": "web1:9238", "server": "api"}
OTHER = {"job": "uwsgi-canary", "instance": "web1:9239", "server": "api"}
NORTH, SOUTH = ({**TARGET, "cluster": cluster} for cluster in ("north", "south"))

FULL, LOW = "UwsgiConcurrencyNearCapacity", "UwsgiHeadroomLow"
INTERPRETER, CPU, SHARING = "UwsgiInterpreterBound", "UwsgiCpuBound", "UwsgiWorkersShareOneCpu"


def server(
    busy: float,
    load: float = 0.3,
    *,
    workers: int = 4,
    threads: int = 8,
    reserve: int = 0,
    cpus: float = 8,
    full: float = 0,
    queue: float | None = 0,
    sharing: int = 0,
    affinity: int = 8,
    cores: bool = True,
    host: bool = True,
) -> Server:
    """Even workers, each with `busy` of its threads busy at 10 requests/s and `load` of a CPU in use."""
    shares = [1 + 0.01 * place for place in range(workers)]
    each = [Worker(10 * share, busy / 10 / share, load * share / (sum(shares) / workers), threads) for share in shares]
    return Server([*each, *[RESERVE] * reserve], cpus, full, queue, sharing, affinity, cores, host)


def target(*phases: Phase, **labels: str) -> Sequence[dict[str, str]]:
    """The series of a server that goes through these phases."""
    return series(phases, **{**TARGET, **labels})


def steady(state: Server, minutes: int = 40) -> Sequence[dict[str, str]]:
    """The series of a server whose load does not change."""
    return target(Phase(minutes, state))


CALM = server(2)
BUSY = server(7.6, 0.6, full=0.4, queue=10)
PREFORK = server(0.95, 0.1, threads=1, full=0.8, queue=10)


def quota(stopped: float) -> list[dict[str, str]]:
    """A CPU quota that stops the workers in this part of its periods."""
    labels = ",".join(f'{name}="{value}"' for name, value in TARGET.items())
    counts = {"periods": 600.0, "throttled_periods": 600.0 * stopped}
    return [
        {"series": f"uwsgi_cpu_quota_{name}_total{{{labels}}}", "values": f"0+{number:g}x60"}
        for name, number in counts.items()
    ]


WAITS = {
    "series": "uwsgi_wait_observed_seconds_total{"
    + ",".join(f'{name}="{value}"' for name, value in TARGET.items())
    + "}",
    "values": "0+60x20",
}
"""Of an exporter that may see what threads wait for."""


CLEAR_FULL = (
    "30.4 of 32 threads are busy on average, and all running threads are busy 40 % of the time. A request that finds "
    "no free thread waits in the listen queue, now for 246 ms on average. 40.6 requests/s take 749 ms each: first "
    "check whether that is longer than usual, and what the requests wait for.\n"
)
PROCESSES = (
    "Add `processes` while CPUs are free: each interpreter uses 0.60 of a CPU, and more threads would only wait for it."
)
SEE_FIRST = (
    "See first what the threads wait for, as the runbook says: for a lock, a full backend or slow clients, more of "
    "them only wait as well. Otherwise raise "
)
NOT_SEEN = (
    "This exporter may not see what the threads wait for. Run `sudo uwsgi-headroom check --all` on the host, which "
    "shows it once; docs/waits.md says how to grant the exporter that right. If they wait for a lock of the "
    "application, hold it for less time. If for a backend, make it faster, or let it take more at once. If for slow "
    "clients, let the web server in front buffer. Leave `threads` and `processes` as they are until then: more of them "
    "may only wait as well."
)
SAFE_IN_THREADS = SEE_FIRST + "`processes`, and `threads` only if the application is thread-safe."
CLEAR_PREFORK = (
    "3.8 of 4 threads are busy on average, and all running threads are busy 80 % of the time. A request that finds no "
    "free thread waits in the listen queue, now for 246 ms on average. 40.6 requests/s take 94 ms each: first check "
    "whether that is longer than usual, and what the requests wait for.\n"
)
BY_INTERPRETER = (
    "In the worst 5 % of the last 1h, load 1.09 times as high would have saturated the interpreter of the hottest "
    "worker: use more `processes` and fewer `threads`.\n"
    "By limit: hottest_interpreter 1.09, interpreters 1.11, cpu 2.22, threads 4.00 (1 means reached)."
)


BY_THREADS = (
    f"In the worst 5 % of the last 1h, load 1.14 times as high would have used all threads. {NOT_SEEN}\n"
    "By limit: threads 1.14, hottest_interpreter 3.28, interpreters 3.33, cpu 6.67 (1 means reached)."
)
BY_CPUS = (
    "In the worst 5 % of the last 1h, load 1.11 times as high would have used all available CPU: give the server "
    "more, or move load to another host.\n"
    "By limit: cpu 1.11, hottest_interpreter 2.19, interpreters 2.22, threads 4.00 (1 means reached)."
)
BY_HOTTEST = (
    "In the worst 5 % of the last 1h, load 1.18 times as high would have saturated the interpreter of the hottest "
    "worker: use more `processes` and fewer `threads`.\n"
    "By limit: hottest_interpreter 1.18, interpreters 2.29, threads 3.74, cpu 4.57 (1 means reached)."
)


def _of(alert: str, severity: str, summary: str, description: str, **labels: str) -> Firing:
    return firing(alert, severity, f"uWSGI api on {labels['instance']}{summary}", description, **labels)


def full(description: str = CLEAR_FULL + PROCESSES, **labels: str) -> Firing:
    """The page of BUSY."""
    return _of(FULL, "critical", " has hardly any thread free, and requests wait for one.", description, **labels)


def low(description: str = BY_INTERPRETER, **labels: str) -> Firing:
    """The ticket of a server with interpreters at 0.9 of a CPU."""
    factor = re.findall(r"load ([0-9.]+) times", description)[0]
    return _of(LOW, "warning", f": headroom is down to {factor}x.", description, **labels)


def interpreter(**labels: str) -> Firing:
    """The ticket of a server with interpreters at 0.94 of a CPU."""
    return _of(
        INTERPRETER,
        "warning",
        ": the interpreters of all workers are saturated.",
        "Each interpreter uses 0.94 of a CPU and can use at most 1. The workers cannot serve more than 40.6 "
        "requests/s: if load grows, response times (now 394 ms) grow and throughput does not.\n"
        "Add `processes`: 3.8 of 8 CPUs are in use. More threads do not help.",
        **labels,
    )


def cpu(used: str = "1.9 of 2 CPUs are in use by 4 workers.", **labels: str) -> Firing:
    """The ticket of a server that uses 1.88 of 2 CPUs."""
    return _of(
        CPU,
        "warning",
        ": hardly any CPU is left for its workers.",
        f"{used} If load grows, response times (now 394 ms) grow. No uWSGI option adds CPUs.\n"
        "The smallest of three limits applies: the affinity (the workers' masks allow 2 CPUs each), the cgroup's "
        "quota, and the host's CPUs. Widen `cpu-affinity` or the mask that the service manager sets; raise the quota "
        "(CPUQuota, --cpus, resources.limits.cpu); give the host more CPUs; or move load or other programs to another "
        "host.",
        **labels,
    )


def sharing(**labels: str) -> Firing:
    """The ticket of four workers on two CPUs."""
    return _of(
        SHARING,
        "warning",
        ": 4 workers are pinned to a CPU together with another worker.",
        "Each of these 4 workers may run on only one CPU, which another worker is pinned to as well. These workers "
        "wait for each other even if other CPUs are idle.\n"
        "Remove `cpu-affinity`, or keep `processes` times `cpu-affinity` at or below the number of CPUs. In a "
        "container, uWSGI counts the host's CPUs, not the container's.",
        **labels,
    )


def six(
    alert: str,
    calm: Server,
    below: Server,
    above: Server,
    fires: Callable[..., Firing],
    *,
    early: int,
    late: int,
    history: int = 6,
) -> list[Case]:
    """The cases that every alert has. early, late: minutes after which it does not fire yet, and fires; history:
    minutes of data that it needs before."""
    last = history + late
    return [
        Case(f"{alert}: silent: a server with room", steady(calm, last), {f"{last}m": []}, nothing_fires=[f"{last}m"]),
        Case(f"{alert}: boundary: just below the threshold it is silent", steady(below, last), {f"{last - 1}m": []}),
        Case(
            f"{alert}: boundary: above it, it waits before it fires",
            target(Phase(history, calm), Phase(late + 2, above)),
            {f"{history + early}m": []},
            {f"{last}m": 1},
        ),
        Case(f"{alert}: fires: with its numbers", steady(above, last + 1), {f"{last}m": [fires(**TARGET)]}),
        Case(
            f"{alert}: counter reset: a full reload and a respawn do not hide it",
            target(Phase(last, above), Phase(20, above, reload=True), Phase(20, above, respawned=(2,))),
            count={f"{last + minutes}m": 1 for minutes in (-1, 19, 39)},
        ),
        Case(
            f"{alert}: counter reset: neither a full reload nor a respawn makes it fire",
            target(Phase(last, calm), Phase(20, calm, reload=True), Phase(20, calm, respawned=(2,))),
            {f"{last + minutes}m": [] for minutes in range(0, 40, 3)},
        ),
        Case(
            f"{alert}: missing server: it resolves when the server is gone",
            target(Phase(last, above), Phase(history + 10, None)),
            {f"{last + history + 9}m": []},
            {f"{last - 1}m": 1},
        ),
        Case(
            f"{alert}: duplicate series: a server that two exporters watch, and of two that differ in a label of "
            "Prometheus the one that it is about",
            [
                *target(Phase(last + 1, above), **OTHER),
                *target(Phase(last + 1, above), **NORTH),
                *target(Phase(last + 1, calm), **SOUTH),
            ],
            {f"{last}m": [fires(**OTHER), fires(**NORTH)]},
        ),
    ]


CASES = [
    *six(FULL, CALM, server(7.1, queue=10), BUSY, full, early=9, late=17),
    Case(
        f"{FULL}: silent: with stats-no-cores threads are not known",
        steady(server(7.6, cores=False, queue=10)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{FULL}: silent: every thread is busy, and no request waits",
        steady(server(8, full=1)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(f"{FULL}: silent: users do not notice 98 ms beside 749", steady(server(7.6, full=0.4, queue=4)), {"39m": []}),
    Case(
        f"{FULL}: missing server: where the queue cannot be measured no wait is known",
        steady(server(8, full=1, queue=None)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{FULL}: silent: cheaper adds a worker within minutes",
        target(
            Phase(20, server(4, reserve=2, workers=2)),
            Phase(5, server(7.8, reserve=2, workers=2, full=0.5, queue=10)),
            Phase(30, server(5, reserve=1, workers=3)),
        ),
        {f"{minute}m": [] for minute in range(20, 55)},
    ),
    Case(
        f"{FULL}: silent: threads of workers in reserve are not in use, though cheaper mode does not spawn them",
        steady(server(7.6, full=0.4, queue=10, reserve=2)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{FULL}: fires: threads are for applications that are safe in them",
        [*steady(PREFORK, 20), WAITS],
        {"19m": [full(CLEAR_PREFORK + SAFE_IN_THREADS, **TARGET)]},
    ),
    Case(
        f"{FULL}: fires: more threads, where workers have several and interpreters idle",
        [*steady(server(7.6, 0.1, full=0.4, queue=10), 20), WAITS],
        {"19m": [full(CLEAR_FULL + SEE_FIRST + "`threads` or `processes`, one at a time.", **TARGET)]},
    ),
    Case(
        f"{FULL}: fires: neither threads nor processes, where nobody sees what the threads wait for",
        steady(server(7.6, 0.1, full=0.4, queue=10), 20),
        {"19m": [full(CLEAR_FULL + NOT_SEEN, **TARGET)]},
    ),
    *six(LOW, CALM, server(6.2, 0.3), server(2, 0.9), low, early=2, late=20, history=61),
    Case(
        f"{LOW}: silent: three minutes of an hour are not a twentieth of it",
        target(Phase(80, CALM), Phase(1, server(7.9)), Phase(80, CALM)),
        {f"{minute}m": [] for minute in range(80, 160, 5)},
    ),
    Case(
        f"{LOW}: silent: a server that began within the hour is not judged, however busy its start",
        target(Phase(55, server(7.6, 0.9)), Phase(100, CALM)),
        {f"{minute}m": [] for minute in range(10, 55, 5)},
    ),
    Case(
        f"{LOW}: fires: near capacity, where no wait is known",
        steady(server(7.6, 0.3, full=0.4, queue=None), 85),
        count={"84m": 1},
    ),
    Case(
        f"{LOW}: silent: a nearly idle server has no CPU headroom where others use the CPUs",
        steady(replace(server(0.1, 0.02, cpus=2), idle=0.0, others=1.92), 85),
        {"84m": []},
    ),
    Case(
        f"{LOW}: fires: it was busy for a few minutes of the hour, without any CPU left",
        target(
            Phase(70, replace(server(0.1, 0.02, cpus=2), idle=1.9, others=0.02)),
            Phase(25, replace(server(2, 0.4, cpus=2), idle=0.02, others=0.38)),
            Phase(10, replace(server(0.1, 0.02, cpus=2), idle=1.9, others=0.02)),
        ),
        {},
        {"100m": 1},
    ),
    Case(f"{LOW}: fires: by the threads", steady(server(7, 0.3), 85), {"84m": [low(BY_THREADS, **TARGET)]}),
    Case(f"{LOW}: fires: by the CPUs", steady(server(2, 0.45, cpus=2), 85), {"84m": [low(BY_CPUS, **TARGET)]}),
    Case(
        f"{LOW}: fires: by the hottest worker's interpreter",
        steady(
            Server([Worker(20, 0.2, 0.85), Worker(10, 0.15, 0.3), Worker(10.1, 0.15, 0.3), Worker(10.2, 0.15, 0.3)]),
            85,
        ),
        {"84m": [low(BY_HOTTEST, **TARGET)]},
    ),
    *six(INTERPRETER, CALM, server(4, 0.84), server(4, 0.94), interpreter, early=14, late=22),
    Case(
        f"{INTERPRETER}: missing server: without CPU time nothing is known of interpreters",
        steady(server(4, 0.94, host=False)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{INTERPRETER}: silent: workers compress, and no thread waits for the interpreter lock",
        steady(replace(server(4, 0.94), lock_wait=0.1)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{INTERPRETER}: fires: threads wait for the lock",
        steady(replace(server(4, 0.94), lock_wait=2.9), 23),
        {},
        {"22m": 1},
    ),
    *six(CPU, CALM, server(4, 0.44, cpus=2), server(4, 0.47, cpus=2, affinity=2), cpu, early=14, late=22),
    Case(
        f"{CPU}: missing server: without CPU time nothing is known of CPUs",
        steady(server(4, 0.94, cpus=2, host=False)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{CPU}: silent: others leave half of the CPUs",
        steady(replace(server(4, 0.1, cpus=2), idle=1.0, others=0.6)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{CPU}: silent: a nearly idle server on a host whose CPUs others use",
        steady(replace(server(0.1, 0.02, cpus=2), idle=0.0, others=1.92), 90),
        {"89m": []},
        nothing_fires=["39m", "89m"],
    ),
    Case(
        f"{CPU}: silent: others use the CPUs, and no request waits for one",
        steady(replace(server(4, 0.1, cpus=2), idle=0.02, others=1.58)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{CPU}: boundary: a thread that waits for a CPU on average is a ticket, less is none",
        [
            *steady(replace(server(4, 0.1, cpus=2), idle=0.02, others=1.58, ready=1.1), 23),
            *series([Phase(23, replace(server(4, 0.1, cpus=2), idle=0.02, others=1.58, ready=0.9))], **OTHER),
        ],
        {},
        {"22m": 1},
    ),
    Case(
        f"{CPU}: fires: others use what the workers could use, and requests wait",
        steady(replace(server(4, 0.1, cpus=2, affinity=2, queue=10), idle=0.02, others=1.58), 23),
        {"22m": [cpu("0.4 of 2 CPUs are in use by 4 workers, and 1.6 by others, with 0.0 idle.", **TARGET)]},
    ),
    Case(
        f"{CPU}: fires: others grow with the load, and have nearly used up what is idle",
        steady(replace(server(4, 0.1, cpus=2, affinity=2, queue=10), idle=0.16, others=1.44, follow=True), 23),
        {"22m": [cpu("0.4 of 2 CPUs are in use by 4 workers, and 1.4 by others, with 0.2 idle.", **TARGET)]},
    ),
    Case(
        f"{CPU}: silent: others with the same share who do not grow with it",
        steady(replace(server(4, 0.1, cpus=2, affinity=2), idle=0.16, others=1.44)),
        {"39m": []},
    ),
    Case(
        f"{CPU}: fires: a quota stops the workers, whose mean use is far below it, and requests wait",
        [*steady(server(4, 0.1, cpus=2, affinity=2, queue=10), 23), *quota(0.3)],
        {
            "22m": [
                cpu(
                    "0.4 of 2 CPUs are in use by 4 workers. A quota stopped the workers in 30 % of its periods.",
                    **TARGET,
                )
            ]
        },
    ),
    Case(
        f"{CPU}: silent: a quota stops the workers, and no request waits",
        [*steady(server(4, 0.1, cpus=2, affinity=2)), *quota(0.3)],
        {"39m": []},
    ),
    Case(
        f"{CPU}: boundary: a quota that stops the workers in less than a quarter of its periods",
        [*steady(server(4, 0.1, cpus=2, affinity=2, queue=10)), *quota(0.24)],
        {"39m": []},
    ),
    *six(
        SHARING,
        CALM,
        server(2, 0.28, sharing=4, affinity=1),
        server(2, 0.5, cpus=2, sharing=4, affinity=1),
        sharing,
        early=14,
        late=22,
    ),
    Case(
        f"{SHARING}: silent: nearly idle workers hardly ever meet there", steady(server(2, 0.2, sharing=4)), {"39m": []}
    ),
]
