"""Cases of the alerts about load against a limit."""

from __future__ import annotations

from collections.abc import Sequence

from tests.alerts.cases.case import Case, Firing, firing
from tests.alerts.series import RESERVE, Phase, Server, Worker, series

RULES = ("recording.yaml", "daily.yaml", "balance.yaml", "capacity.yaml")
TARGET = {"job": "uwsgi", "instance": "web1:9238", "server": "api"}
OTHER = {"job": "uwsgi-canary", "instance": "web1:9239", "server": "api"}
NORTH, SOUTH = ({**TARGET, "cluster": it} for it in ("north", "south"))

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
    queue: float = 0,
    sharing: int = 0,
    affinity: int = 8,
    cores: bool = True,
    host: bool = True,
) -> Server:
    """Even workers that each have `busy` of their threads busy with 10 requests/s, and use `load` CPU."""
    shares = [1 + 0.01 * place for place in range(workers)]
    each = [Worker(10 * share, busy / 10 / share, load * share / (sum(shares) / workers), threads) for share in shares]
    return Server([*each, *[RESERVE] * reserve], cpus, full, queue, sharing, affinity, cores, host)


def target(*phases: Phase, **labels: str) -> Sequence[dict[str, str]]:
    """The series of a server that goes through these phases."""
    return series(phases, **{**TARGET, **labels})


def steady(it: Server, minutes: int = 40) -> Sequence[dict[str, str]]:
    """The series of a server that does the same for all of the time."""
    return target(Phase(minutes, it))


CALM = server(2)
BUSY = server(7.6, 0.6, full=0.4, queue=10)
STARVED = server(7.6, 0.1, full=0.4, queue=10, reserve=2)


def _of(alert: str, severity: str, summary: str, description: str, **labels: str) -> Firing:
    return firing(alert, severity, f"uWSGI api on {labels['instance']}{summary}", description, **labels)


def full(description: str = "", **labels: str) -> Firing:
    return _of(FULL, "critical", " has hardly a thread free.", description or "TODO", **labels)


def low(description: str = "", **labels: str) -> Firing:
    return _of(LOW, "warning", " has room for little more load.", description or "TODO", **labels)


def interpreter(**labels: str) -> Firing:
    return _of(INTERPRETER, "warning", ": the interpreters of all workers are saturated.", "TODO", **labels)


def cpu(**labels: str) -> Firing:
    return _of(CPU, "warning", " uses nearly all the CPU it can get.", "TODO", **labels)


def sharing(**labels: str) -> Firing:
    return _of(SHARING, "warning", ": 4 workers are pinned to a CPU together with another worker.", "TODO", **labels)


def six(
    alert: str,
    calm: Server,
    below: Server,
    above: Server,
    wait: tuple[int, int],
    fires: Firing,
    on_other: Firing,
    on_north: Firing,
) -> list[Case]:
    """The cases that every alert has. wait: minutes after which it is not, and after which it is, seen to fire."""
    early, late = wait
    return [
        Case(f"{alert}: silent: a server with room", steady(calm, late), {f"{late}m": []}, nothing_fires=[f"{late}m"]),
        Case(f"{alert}: boundary: just below the threshold it is silent", steady(below, late + 5), {f"{late}m": []}),
        Case(
            f"{alert}: boundary: above it, it waits before it fires",
            target(Phase(80, calm), Phase(late + 5, above)),
            {f"{80 + early}m": []},
            {f"{80 + late}m": 1},
        ),
        Case(f"{alert}: fires: with its numbers", steady(above, 120), {"119m": [fires]}),
        Case(
            f"{alert}: counter reset: a full reload and a respawn do not hide it",
            target(Phase(100, above), Phase(30, above, reload=True), Phase(30, above, respawned=(2,))),
            count={"99m": 1, "129m": 1, "159m": 1},
        ),
        Case(
            f"{alert}: counter reset: neither a full reload nor a respawn makes it fire",
            target(Phase(100, calm), Phase(30, calm, reload=True), Phase(30, calm, respawned=(2,))),
            {f"{minute}m": [] for minute in range(99, 160, 5)},
        ),
        Case(
            f"{alert}: missing server: it resolves when the server is gone",
            target(Phase(100, above), Phase(80, None)),
            {"175m": []},
            {"99m": 1},
        ),
        Case(
            f"{alert}: duplicate series: a server that two exporters watch, and of two that differ in a label of "
            "Prometheus the one that it is about",
            [
                *target(Phase(120, above), **OTHER),
                *target(Phase(120, above), **NORTH),
                *target(Phase(120, calm), **SOUTH),
            ],
            {"119m": [on_other, on_north]},
        ),
    ]


CASES = [
    *six(FULL, CALM, server(7.1), BUSY, (9, 17), full(**TARGET), full(**OTHER), full(**NORTH)),
    Case(
        f"{FULL}: silent: with stats-no-cores threads are not known",
        steady(server(7.6, cores=False)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    Case(
        f"{FULL}: silent: cheaper adds a worker within minutes",
        target(
            Phase(20, server(4, reserve=2, workers=2)),
            Phase(5, server(7.8, reserve=2, workers=2, full=0.5)),
            Phase(30, server(5, reserve=1, workers=3)),
        ),
        {f"{minute}m": [] for minute in range(20, 55)},
    ),
    Case(
        f"{FULL}: fires: workers in reserve that are not spawned are named",
        steady(STARVED, 60),
        {"59m": [full(**TARGET)]},
    ),
    *six(LOW, CALM, server(6.2, 0.3), server(2, 0.9), (1, 79), low(**TARGET), low(**OTHER), low(**NORTH)),
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
    Case(f"{LOW}: fires: by the threads", steady(server(7, 0.3), 120), {"119m": [low(**TARGET)]}),
    Case(f"{LOW}: fires: by the CPUs", steady(server(2, 0.45, cpus=2), 120), {"119m": [low(**TARGET)]}),
    Case(
        f"{LOW}: fires: by the hottest worker's interpreter",
        steady(
            Server([Worker(20, 0.2, 0.85), Worker(10, 0.15, 0.3), Worker(10.1, 0.15, 0.3), Worker(10.2, 0.15, 0.3)]),
            120,
        ),
        {"119m": [low(**TARGET)]},
    ),
    *six(
        INTERPRETER,
        CALM,
        server(4, 0.88),
        server(4, 0.94),
        (14, 22),
        interpreter(**TARGET),
        interpreter(**OTHER),
        interpreter(**NORTH),
    ),
    Case(
        f"{INTERPRETER}: missing server: without CPU time nothing is known of interpreters",
        steady(server(4, 0.94, host=False)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    *six(
        CPU,
        CALM,
        server(4, 0.44, cpus=2),
        server(4, 0.47, cpus=2, affinity=2),
        (14, 22),
        cpu(**TARGET),
        cpu(**OTHER),
        cpu(**NORTH),
    ),
    Case(
        f"{CPU}: missing server: without CPU time nothing is known of CPUs",
        steady(server(4, 0.94, cpus=2, host=False)),
        {"39m": []},
        nothing_fires=["39m"],
    ),
    *six(
        SHARING,
        CALM,
        server(2, cpus=1, sharing=4, affinity=1),
        server(2, cpus=2, sharing=4, affinity=1),
        (14, 16),
        sharing(**TARGET),
        sharing(**OTHER),
        sharing(**NORTH),
    ),
]
