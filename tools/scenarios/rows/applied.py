"""The sick scenarios whose advice is followed: each with an open-loop load, which does not ease as the server slows.

Requests come at a rate that one step can serve. `outside` makes the change where it is not a setting of uWSGI.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tools.scenarios import actions, rows
from tools.scenarios.rows import queues
from tools.scenarios.rows.workers import RECYCLED
from tools.scenarios.scenario import Event, Expected, Load, Scenario, Server

SICK = Expected("critical")
ROUTER = ("--http", "{tcp}", "--http-to", "{directory}/app", "--socket", "{directory}/app")
"""uWSGI's own `http` router, in front of its workers."""
BURSTS = (
    Load(part=0.2, io_ms=50),
    *[Load(clients=60, requests=2, io_ms=50, start=6.0 * number) for number in range(1, 7)],
)
"""Every six seconds 60 clients come at once: whenever the check begins, it has some of them."""


@dataclass(frozen=True)
class Applied:
    """A scenario whose advice is followed. outside: makes the change, which `what` names; None: the advised settings.
    Options of uWSGI in `what` must stand in the advice. ends: the codes that this change ends, if users still feel
    something else, whose advice is followed in other rows; empty for all. quick: steady and short, for the tests."""

    scenario: Scenario
    outside: Callable[[Scenario], Scenario] | None = None
    what: str = ""
    ends: tuple[str, ...] = ()
    quick: bool = False


def _row(
    name: str, server: Server, *loads: Load, seconds: float = 8.0, lead: float = 3.0, alone: bool = False
) -> Scenario:
    return Scenario(name, server, SICK, loads, seconds=seconds, lead=lead, alone=alone)


def _without_path(scenario: Scenario) -> Scenario:
    return replace(scenario, loads=tuple(replace(load, path="/") for load in scenario.loads))


def _without_burners(scenario: Scenario) -> Scenario:
    return replace(scenario, burners=0)


def _with_all_cpus(scenario: Scenario) -> Scenario:
    return replace(scenario, server=replace(scenario.server, cpus="", quota=0.0))


def _named(name: str) -> Scenario:
    return next(row for row in rows.ROWS if row.name == name)


def _options(*options: str, without: Sequence[str] = ()) -> Callable[[Scenario], Scenario]:
    """Adds options, after leaving out others with their values."""

    def change(scenario: Scenario) -> Scenario:
        kept = list(scenario.server.options)
        for option in without:
            del kept[kept.index(option) : kept.index(option) + 2]
        return replace(scenario, server=replace(scenario.server, options=(*kept, *options)))

    return change


def _stop_and_reload_apart(scenario: Scenario) -> Scenario:
    events = (Event(5.0, actions.reload),)
    return replace(scenario, server=replace(scenario.server, die_on_term=True), events=events)


def _deploy_by_chain(scenario: Scenario) -> Scenario:
    changed = _options("--lazy-apps", "--touch-chain-reload", "{directory}/reload")(scenario)
    return replace(changed, events=(Event(4.0, actions.deploy_slow_by_chain),), seconds=20.0)


def _raise_somaxconn(scenario: Scenario) -> Scenario:
    raised = _options("--listen", "100", without=("--listen",))(scenario)
    return replace(raised, server=replace(raised.server, somaxconn=100))


def _without_map(scenario: Scenario) -> Scenario:
    return _options(without=("--map-socket", "--map-socket"))(scenario)


ROWS = (
    Applied(_row("1x1 at 95 %", Server(), Load(part=0.95, io_ms=100), seconds=12.0), quick=True),
    Applied(_row("prefork 8x1 at 90 %", Server(8), Load(part=0.9, io_ms=200))),
    Applied(_row("prefork 8x1 at 120 %", Server(8), Load(part=1.2, io_ms=100, most=150), lead=8.0), quick=True),
    Applied(_row("4x8 io at 110 %", Server(4, 8), Load(part=1.1, io_ms=400, most=150), lead=14.0)),
    Applied(_row("UNIX queue of 40 overflowing", Server(2, 1, ("--listen", "40")), Load(part=2, io_ms=200), lead=5.0)),
    Applied(
        _row(
            "TCP queue of 40 overflowing",
            Server(2, 1, ("--listen", "40", "--http-socket", "{tcp}")),
            Load(part=2, io_ms=200, socket="tcp"),
            lead=5.0,
        )
    ),
    Applied(
        _row(
            "cheaper at its ceiling",
            Server(4, 1, ("--cheaper", "2", "--cheaper-initial", "2")),
            Load(part=1.2, io_ms=300),
            lead=14.0,
        )
    ),
    Applied(_row("long polls in every thread", Server(1, 8), Load(rate=1.25, io_ms=8000), seconds=18.0, lead=18.0)),
    Applied(
        _row(
            "max-requests far too tight",
            Server(4, 1, ("--max-requests", "5", *RECYCLED)),
            Load(part=0.4, io_ms=50),
            seconds=10.0,
            lead=4.0,
        ),
        quick=True,
    ),
    Applied(
        _row("2x8, an extension sleeps with the interpreter lock", Server(2, 8), Load(rate=120, io_ms=20, path="/hold"))
    ),
    Applied(
        _row("2x8, a lock of the application", Server(2, 8), Load(rate=120, io_ms=20, path="/lock")),
        _without_path,
        "the application without its lock",
    ),
    Applied(_row("1x8 on the CPU", Server(1, 8), Load(rate=25, cpu_ms=50), lead=5.0, alone=True)),
    Applied(
        replace(_row("2x2, beside burners", Server(2, 2), Load(rate=20, cpu_ms=40), lead=5.0, alone=True), burners=4),
        _without_burners,
        "the busy other programs stopped",
    ),
    Applied(
        _row("pinned on one CPU by taskset", Server(2, 2, cpus="0"), Load(rate=24, cpu_ms=50), lead=5.0, alone=True),
        _with_all_cpus,
        "all CPUs in its affinity mask",
    ),
    Applied(
        _row("cgroup quota of half a CPU", Server(2, 2, quota=0.5), Load(rate=16, cpu_ms=50), lead=5.0, alone=True),
        _with_all_cpus,
        "no CPU quota",
    ),
    Applied(_named("all workers reach max-requests together")),
    Applied(_named("static files for slow clients")),
    Applied(_named("a connection opened before the fork"), _options("--lazy-apps"), "`lazy-apps`"),
    Applied(
        _named("a full reload waits for a request"),
        _options("--worker-reload-mercy", "2"),
        "`worker-reload-mercy` 2",
        ends=("reload_waits",),
    ),
    Applied(_named("SIGTERM without die-on-term"), _stop_and_reload_apart, "`die-on-term`, and a reload by SIGHUP"),
    Applied(_named("full reload of a slow application"), _deploy_by_chain, "`lazy-apps` and `touch-chain-reload`"),
    Applied(
        _named("a full cache"),
        _options("--cache2", "name=pages,items=5000", without=("--cache2",)),
        "`items` 5000 of the cache",
    ),
    Applied(_named("a spooler that falls behind"), _options("--spooler-processes", "8"), "`spooler-processes` 8"),
    Applied(_named("one stuck request"), _options("--harakiri", "10"), "`harakiri` 10"),
    Applied(
        _row("bursts overflow the queue of 40", Server(2, 1, queues.SHORT), *BURSTS, seconds=12.0),
        _options("--listen", "100", without=("--listen",)),
        "`listen` 100",
        ends=("clients_refused",),
    ),
    Applied(
        _row(
            "bursts overflow the 40 of net.core.somaxconn",
            Server(2, 1, queues.SHORT, somaxconn=40),
            *BURSTS,
            seconds=12.0,
        ),
        _raise_somaxconn,
        "net.core.somaxconn 100, and `listen` 100",
        ends=("clients_refused",),
    ),
    Applied(_named("heads above buffer-size, with the log"), _options("--buffer-size", "32768"), "`buffer-size` 32768"),
    Applied(
        _row(
            "the http router gives up before the answer",
            Server(4, 4, (*ROUTER, "--http-timeout", "1")),
            Load(rate=4, io_ms=2500, socket="tcp"),
            Load(rate=5, io_ms=20, socket="tcp"),
        ),
        _options("--http-timeout", "10", without=("--http-timeout",)),
        "`http-timeout` 10",
    ),
    Applied(
        _named("a leak reaches the cgroup's memory limit"),
        _options("--reload-on-rss", "45", *RECYCLED),
        "`reload-on-rss` 45 and `min-worker-lifetime` 0",
        ends=("out_of_memory", "requests_lost"),
    ),
    Applied(
        _named("2x2, clients keep their connections"),
        _options("--http-socket", "{directory}/web", without=("--http11-socket",)),
        "`http-socket` instead of `http11-socket`",
    ),
    Applied(_named("full worker by map-socket"), _without_map, "no `map-socket`"),
    Applied(_named("an executor of two threads"), _options("--env", "EXECUTOR=16"), "an executor of 16 threads"),
    Applied(_named("a thread that was started before the fork"), _options("--lazy-apps"), "`lazy-apps`"),
    Applied(
        _named("a timer that runs in a worker"),
        _options("--env", "IMPORT=mule", "--mules", "1"),
        "`mules` 1 and `target='mule'`",
    ),
    Applied(_named("reload-on-rss below what a worker has")),
    Applied(
        _named("clients give up while their requests wait"),
        _options("--listen", "15"),
        "`listen` 15",
        ends=("clients_left",),
    ),
    Applied(_named("requests that call their own server"), _without_path, "the code called directly"),
)
