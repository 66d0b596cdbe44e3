"""Cases of the alerts about load near a limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.alerts.cases.case import Case, Firing, acts, firing
from tests.alerts.cases.promtool_series import RESERVE, Phase, Server, Worker, series

RULES = ("recording.yaml", "capacity.yaml")
TARGET = {"job": "uwsgi", "instance": "web1:9238", "server": "api"}
OTHER = {"job": "uwsgi-canary", "instance": "web1:9239", "server": "api"}
NORTH, SOUTH = ({**TARGET, "cluster": cluster} for cluster in ("north", "south"))

FULL, LOW = "UwsgiConcurrencyNearCapacity", "UwsgiHeadroomLow"
INTERPRETER, CPU, SHARING = "UwsgiInterpreterBound", "UwsgiCpuBound", "UwsgiWorkersShareOneCpu"
HOST = "UwsgiHostFull"


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
CROWDED = replace(server(4, 0.1, cpus=2, affinity=2, queue=10), idle=0.02, others=1.58)
IDLE = replace(server(0.1, 0.02, cpus=2), idle=0.0, others=1.92)
POLLING = replace(server(7.6, 0.94, cpus=4, full=0.4), kernel=0.45, coroutines=True)
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


def waits(**threads: float) -> list[dict[str, str]]:
    """What so many threads do, by state."""
    labels = ",".join(f'{name}="{value}"' for name, value in TARGET.items())
    name = "uwsgi_wait_thread_seconds_total"
    return [
        {"series": f'{name}{{state="{state}",{labels}}}', "values": f"0+{60 * number:g}x20"}
        for state, number in threads.items()
    ]


def own(name: str, value: float = 1, **labels: str) -> dict[str, str]:
    """A figure of the exporter's own, of a window."""
    text = ",".join(f'{label}="{text}"' for label, text in {**TARGET, **labels}.items())
    return {"series": f"uwsgi_{name}{{{text}}}", "values": f"{value:g}+0x90"}


LIMITED = (
    "If a few clients send more requests than usual, rate-limit these clients in the web server (`limit_req` in nginx)."
)
HOW_MUCH = (
    "Run `uwsgi-headroom check` on the host: it says what to set `threads` or `processes` to, and how many requests "
    "per second uWSGI can then serve."
)
PROCESSES = (
    "While CPUs are free, add `processes`, not `threads`: each worker's interpreter uses 0.60 of a CPU, and additional "
    "threads would only wait for it."
)
SEE_FIRST = (
    "If the threads wait for a lock, for slow clients or for a backend at its limit, fix that cause first. If the "
    "threads wait for none of these, raise "
)
MORE = SEE_FIRST + "`threads` or `processes`, but change only one of these two settings at a time."
SAFE_IN_THREADS = SEE_FIRST + "`processes`; raise `threads` only if the application is thread-safe."
NOT_SEEN = (
    "Run `sudo uwsgi-headroom check --all` on the host to see what the threads wait for (the exporter lacks the "
    "permission to see this: docs/waits.md). Do not raise `threads` or `processes` before you know what the threads "
    "wait for: additional threads would probably also wait if the cause is a lock, slow clients, or a backend at its "
    "limit."
)
BY_STATE = {
    "lock": "Run `uwsgi-headroom check --code` on the host to see which line of code holds the application's lock: on "
    "average, 4.5 of 7.5 busy threads wait for this lock. Change this code so that it holds the lock for less time; if "
    "the lock belongs to a connection pool, make the pool larger. Do not add threads: they would wait for the same "
    "lock.",
    "client": "Let the web server in front of uWSGI buffer requests and responses: on average, 4.5 of 7.5 busy threads "
    "wait for slow clients. Do not add threads: they would also wait for slow clients.",
    "backend": "Check whether the backend (a database or another service) is at its limit: on average, 4.5 of 7.5 busy "
    "threads wait for it. If the backend is at its limit, make it faster, or let it handle more requests at once. If "
    "the backend is not at its limit, raise `threads` or `processes`, but change only one of these two settings at a "
    "time.",
    "sleep": MORE,
}
"""The first act, by what most threads do."""


def _low(factor: str, act: str, by_limit: str) -> str:
    return (
        acts(
            act,
            "At the busiest time of day, run `uwsgi-headroom check` on the host: it says which setting to raise, and "
            "how many requests per second uWSGI can then serve.",
            "If a scheduled job or a single client causes the peak load, move the job to another time, or rate-limit "
            "the client.",
        )
        + f"In the busiest 5 % of the last 1h, a load at most {factor} times as high would have reached a limit. "
        f"Headroom for each limit, where 1 means that the limit is reached: {by_limit}."
    )


FEWER_THREADS = "Use more `processes` with fewer `threads` each."
BY_INTERPRETER = _low("1.09", FEWER_THREADS, "hottest interpreter 1.09, all interpreters 1.11, cpu 2.22, threads 4.00")
BY_THREADS = _low("1.14", NOT_SEEN, "threads 1.14, hottest interpreter 3.28, all interpreters 3.33, cpu 6.67")
BY_CPUS = _low(
    "1.11",
    "Give uWSGI more CPUs, or move load to another host.",
    "cpu 1.11, hottest interpreter 2.19, all interpreters 2.22, threads 4.00",
)
BY_HOTTEST = _low("1.18", FEWER_THREADS, "hottest interpreter 1.18, all interpreters 2.29, threads 3.74, cpu 4.57")


def _of(alert: str, severity: str, summary: str, description: str, since: str = "00:05", **labels: str) -> Firing:
    return firing(alert, severity, f"uWSGI api on {labels['instance']}{summary}", description, since, **labels)


def full(act: str = PROCESSES, busy: str = "30.4 of 32", percent: int = 40, each: int = 749, **labels: str) -> Firing:
    """The page of BUSY."""
    return _of(
        FULL,
        "critical",
        f" is overloaded: {busy} threads are busy on average, and requests wait in the listen queue",
        acts(act, HOW_MUCH, LIMITED)
        + f"For {percent} % of the time, all running threads are busy at once. On average, a request waits 246 ms in "
        f"the listen queue, and is then in service for {each} ms. uWSGI completes 40.6 requests/s.",
        **labels,
    )


def low(description: str = BY_INTERPRETER, **labels: str) -> Firing:
    """The ticket of a server with interpreters at 0.9 of a CPU."""
    factor = re.findall(r"load at most ([0-9.]+) times", description)[0]
    return _of(
        LOW,
        "warning",
        f": headroom is down to {factor}x: if the load grows a little, requests will wait",
        description,
        "01:01",
        **labels,
    )


def interpreter(**labels: str) -> Firing:
    """The ticket of a server with interpreters at 0.94 of a CPU."""
    return _of(
        INTERPRETER,
        "warning",
        ": the interpreters of all workers are saturated, at 0.94 of a CPU each",
        acts(
            "Add `processes`: the workers use 3.8 of 8 CPUs. Do not add threads: an interpreter runs only one thread "
            "at a time.",
            "If no CPU is free, give the host more CPUs, or move load to another host.",
            "Make the requests use less CPU time: `uwsgi-headroom check` on the host names the kinds of requests that "
            "take the most time.",
        )
        + "Each interpreter uses 0.94 of a CPU and can use at most 1. With these workers, uWSGI cannot serve more than "
        "40.6 requests/s. If the load grows, only the response time grows (now 394 ms on average).",
        **labels,
    )


def cpu(
    title: str = "its workers use nearly all CPUs that they may use (1.9 of 2 CPUs)", used: str = "1.9", **labels: str
) -> Firing:
    """The ticket of a server that uses 1.88 of 2 CPUs."""
    return _of(
        CPU,
        "warning",
        f": {title}",
        acts(
            (
                "Raise the CPU quota: CPUQuota in systemd, --cpus in Docker, resources.limits.cpu in Kubernetes. "
                if "quota" in title
                else ""
            )
            + "If `cpu-affinity`, or the CPU mask that the service manager sets, allows fewer CPUs than the host has, "
            "widen it: the workers' masks allow 2 CPUs each.",
            "Give the host more CPUs, or move load to another host. More `processes` or `threads` do not help: they "
            "would share the same CPUs.",
            "Make the requests use less CPU time: `uwsgi-headroom check` on the host names the kinds of requests that "
            "take the most time.",
        )
        + f"4 workers use {used} of 2 CPUs. If the load grows, so does the response time (now 394 ms on average).",
        **labels,
    )


def host(title: str, used: str, others: str, since: str = "00:05", **labels: str) -> Firing:
    """The ticket of a host without an idle CPU."""
    fired = firing(
        HOST,
        "warning",
        f"All CPUs of web1:9238 are busy, and {title} too little CPU time",
        acts(
            "Run `top -o %CPU` on the host to see which program uses the CPUs. If your users do not need this program, "
            "stop it or move it to another host.",
            "Move one of the uWSGI servers to another host, or give this host more CPUs.",
            "If one uWSGI server matters more than the other programs on the host, give its systemd unit a higher "
            "CPUWeight.",
        )
        + f"CPUs in use by each uWSGI server: {used}. Seen from one of the uWSGI servers, all other programs together "
        f"use {others} of 2 CPUs.",
        since,
        **{**TARGET, **labels},
    )
    exp_labels = {name: value for name, value in fired["exp_labels"].items() if name != "server"}
    link = {"runbook_url": f"http://web1:9238/runbooks/{HOST}?server="}
    return {"exp_labels": exp_labels, "exp_annotations": {**fired["exp_annotations"], **link}}


def sharing(**labels: str) -> Firing:
    """The ticket of four workers on two CPUs."""
    return _of(
        SHARING,
        "warning",
        ": 4 workers are pinned to one CPU each, which they share with other workers",
        acts(
            "Remove `cpu-affinity`, and reload uWSGI.",
            "If you need `cpu-affinity`, make sure that `processes` multiplied by `cpu-affinity` does not exceed the "
            "number of CPUs.",
            "In a container, do not set `cpu-affinity`: uWSGI counts the host's CPUs, not the container's.",
        )
        + "Each of these 4 workers may run on only one CPU, to which another worker is pinned as well. Workers that "
        "share a CPU wait for each other even if other CPUs are idle.",
        "00:03",
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
        {"19m": [full(SAFE_IN_THREADS, "3.8 of 4", 80, 94, **TARGET)]},
    ),
    Case(
        f"{FULL}: fires: more threads, where workers have several and interpreters idle",
        [*steady(server(7.6, 0.1, full=0.4, queue=10), 20), WAITS],
        {"19m": [full(MORE, **TARGET)]},
    ),
    Case(
        f"{FULL}: fires: neither threads nor processes, where nobody sees what the threads wait for",
        steady(server(7.6, 0.1, full=0.4, queue=10), 20),
        {"19m": [full(NOT_SEEN, **TARGET)]},
    ),
    *[
        Case(
            f"{FULL}: fires: its first act follows from what most threads do: {state}",
            [*steady(server(7.6, 0.1, full=0.4, queue=10), 20), WAITS, *waits(**{state: 4.5, "cpu": 3})],
            {"19m": [full(act, **TARGET)]},
        )
        for state, act in BY_STATE.items()
    ],
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
    Case(
        f"{LOW}: silent: by the exporter's own figures, something else than threads limits the server",
        [*steady(server(7, 0.3), 85), own("headroom_ratio", limit="other", window="5m")],
        {"84m": []},
    ),
    Case(
        f"{LOW}: silent: by the exporter's own figures, the headroom is not known",
        [*steady(server(7, 0.3), 85), own("window_seconds", window="5m")],
        {"84m": []},
    ),
    Case(
        f"{LOW}: fires: by the exporter's own figures, threads come before the other limit",
        [
            *steady(server(7, 0.3), 85),
            own("headroom_ratio", 1.14, limit="threads", window="5m"),
            own("headroom_ratio", 2, limit="other", window="5m"),
        ],
        {"84m": [low(BY_THREADS, **TARGET)]},
    ),
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
    Case(
        f"{INTERPRETER}: silent: all async cores are in use, and the workers only look for a free one",
        steady(POLLING),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{INTERPRETER}: silent: bursts fill all async cores, and the workers look for a free one",
        steady(replace(POLLING, workers=server(4, 0.94).workers, full=0.12)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{INTERPRETER}: fires: the requests in all async cores compute",
        steady(replace(POLLING, kernel=0.15), 23),
        {},
        {"22m": 1},
    ),
    Case(
        f"{INTERPRETER}: fires: much of the time is the kernel's, and async cores are free",
        steady(replace(POLLING, workers=server(4, 0.94).workers, full=0), 23),
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
        f"{CPU}: fires: a quota stops the workers, whose mean use is far below it, and requests wait",
        [*steady(server(4, 0.1, cpus=2, affinity=2, queue=10), 23), *quota(0.3)],
        {"22m": [cpu("a CPU quota throttles its workers in 30 % of the quota's periods", "0.4", **TARGET)]},
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
    Case(f"{HOST}: silent: a server with room", steady(CALM), {"39m": []}, nothing_fires=["39m"]),
    Case(f"{HOST}: silent: others leave half of the CPUs", steady(replace(CROWDED, idle=1.0, others=0.6)), {"39m": []}),
    Case(
        f"{HOST}: silent: nine nearly idle servers on a host whose CPUs others use",
        [line for place in range(9) for line in target(Phase(90, IDLE), server=f"idle{place}")],
        {"89m": []},
        nothing_fires=["39m", "89m"],
    ),
    Case(
        f"{HOST}: silent: others use the CPUs, and no request waits for one",
        steady(replace(CROWDED, queue=0)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{HOST}: silent: others with the same share who do not grow with it",
        steady(replace(CROWDED, queue=0, idle=0.16, others=1.44)),
        {"39m": []},
    ),
    Case(
        f"{HOST}: silent: a server that uses the CPUs itself, which is another ticket",
        steady(replace(server(4, 0.47, cpus=2, affinity=2), idle=0.05, others=0.07)),
        {"39m": []},
    ),
    Case(
        f"{HOST}: boundary: a thread that waits for a CPU on average is a ticket, less is none",
        [
            *steady(replace(CROWDED, queue=0, ready=1.1), 23),
            *series([Phase(23, replace(CROWDED, queue=0, ready=0.9))], **OTHER),
        ],
        {"14m": []},
        {"22m": 1},
    ),
    Case(
        f"{HOST}: fires: others use what the workers could use, and requests wait",
        steady(CROWDED, 23),
        {"22m": [host("1 uWSGI server on this host gets", "api 0.4", "1.6")]},
    ),
    Case(
        f"{HOST}: fires: one ticket for all servers, and not for those that hardly use CPU",
        [
            *steady(CROWDED, 23),
            *target(Phase(23, replace(server(4, 0.08, cpus=2, queue=10), idle=0.02, others=1.2)), server="blog"),
            *target(Phase(23, IDLE), server="idle"),
        ],
        {"22m": [host("2 uWSGI servers on this host get", "api 0.4, blog 0.3, idle 0.1", "1.9")]},
    ),
    Case(
        f"{HOST}: counter reset: a full reload and a respawn do not hide it",
        target(Phase(22, CROWDED), Phase(20, CROWDED, reload=True), Phase(20, CROWDED, respawned=(2,))),
        count={"22m": 1, "41m": 1, "61m": 1},
    ),
    Case(
        f"{HOST}: missing server: it resolves when the server is gone",
        target(Phase(22, CROWDED), Phase(30, None)),
        {"51m": []},
        {"22m": 1},
    ),
    Case(
        f"{HOST}: duplicate series: of two hosts that differ in a label of Prometheus, the one that is full",
        [*target(Phase(23, CROWDED), **NORTH), *target(Phase(23, CALM), **SOUTH)],
        {"22m": [host("1 uWSGI server on this host gets", "api 0.4", "1.6", cluster="north")]},
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
