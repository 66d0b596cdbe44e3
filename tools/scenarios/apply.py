"""Follows the advice of `check` on a real uWSGI under the same load, and measures what was promised.

Checks a sick server, starts it again with the settings that the check's JSON advises, or with the row's own change
where that is no setting of uWSGI, and checks again; two steps at most. The exit status is 1 if a row is missed.
Promised and measured:

* The harm is gone, or is explained by a demand that the full queue or the busy threads hid before. Where the row makes
  the change, the first finding is gone, too; or what the row says that the change ends, and nothing else.
* Each option that such a row sets stands in the advice.
* "Serves at least X/s": X within 15 % of the throughput under as many clients as the threads and the queue hold.
* Where no queue was full: the response time, with the queue, is the time in service before, within 25 % or 20 ms.

Each row has an open-loop load, which does not ease as the server slows, at a rate that one step can serve.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from tools.scenarios import actions, rows
from tools.scenarios.checking import Seen, codes_of
from tools.scenarios.rows import queues
from tools.scenarios.rows.workers import RECYCLED
from tools.scenarios.run import counted, run_all, see
from tools.scenarios.scenario import Event, Expected, Load, Scenario, Server
from tools.scenarios.servers import why_not

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
    ends: the codes that this change ends, if users still feel something else, whose advice is followed in other rows;
    empty for all. quick: steady and short, for the tests."""

    scenario: Scenario
    outside: Callable[[Scenario], Scenario] | None = None
    what: str = ""
    ends: tuple[str, ...] = ()
    quick: bool = False


def _sick(
    name: str, server: Server, *loads: Load, seconds: float = 8.0, lead: float = 3.0, alone: bool = False
) -> Scenario:
    return Scenario(name, server, SICK, loads, seconds=seconds, lead=lead, alone=alone)


def _without_path(scenario: Scenario) -> Scenario:
    return replace(scenario, loads=tuple(replace(load, path="/") for load in scenario.loads))


def _with_server(scenario: Scenario, **changes: Any) -> Scenario:
    return replace(scenario, server=replace(scenario.server, **changes))


def _advised(
    row: Scenario | str,
    outside: Callable[[Scenario], Scenario] | str | None = None,
    what: str = "",
    ends: tuple[str, ...] = (),
) -> Applied:
    """row: a scenario, or the name of one in the table. outside: a change, or options of uWSGI, which name it."""
    scenario = row if isinstance(row, Scenario) else next(each for each in rows.ROWS if each.name == row)
    if isinstance(outside, str):
        named = re.sub(r"--(\S+)", r"`\1`", outside).replace(" `", ", `")
        return Applied(scenario, partial(_set, options=outside), what or named, ends)
    return Applied(scenario, outside, what, ends)


def _set(scenario: Scenario, options: str) -> Scenario:
    """Adds options. One that is there already gets the new value."""
    kept = list(scenario.server.options)
    for option, _, value in (each.partition(" ") for each in re.split(r" (?=--)", options)):
        if option in kept and option != "--env":
            del kept[kept.index(option) : kept.index(option) + 2]
        kept += [option, value] if value else [option]
    return _with_server(scenario, options=tuple(kept))


def _stop_and_reload_apart(scenario: Scenario) -> Scenario:
    return replace(_with_server(scenario, die_on_term=True), events=(Event(5, actions.reload),))


def _deploy_by_chain(scenario: Scenario) -> Scenario:
    changed = _set(scenario, "--lazy-apps --touch-chain-reload {directory}/reload")
    return replace(changed, events=(Event(4, actions.deploy_slow_by_chain),), seconds=20)


def _without_kept(scenario: Scenario) -> Scenario:
    options = tuple(option.replace("--http11-socket", "--http-socket") for option in scenario.server.options)
    return _with_server(scenario, options=options)


def _without_map(scenario: Scenario) -> Scenario:
    options = tuple(option for option in scenario.server.options if option != "--map-socket" and ":" not in option)
    return _with_server(scenario, options=options)


ROWS = (
    Applied(_sick("1x1 at 95 %", Server(), Load(part=0.95, io_ms=100), seconds=12), quick=True),
    Applied(_sick("prefork 8x1 at 90 %", Server(8), Load(part=0.9, io_ms=200))),
    Applied(_sick("prefork 8x1 at 120 %", Server(8), Load(part=1.2, io_ms=100, most=150), lead=8), quick=True),
    Applied(_sick("4x8 io at 110 %", Server(4, 8), Load(part=1.1, io_ms=400, most=150), lead=14)),
    Applied(_sick("UNIX queue of 40 overflowing", Server(2, 1, ("--listen", "40")), Load(part=2, io_ms=200), lead=5)),
    Applied(
        _sick(
            "TCP queue of 40 overflowing",
            Server(2, 1, ("--listen", "40", "--http-socket", "{tcp}")),
            Load(part=2, io_ms=200, socket="tcp"),
            lead=5,
        )
    ),
    Applied(
        _sick(
            "cheaper at its ceiling",
            Server(4, 1, ("--cheaper", "2", "--cheaper-initial", "2")),
            Load(part=1.2, io_ms=300),
            lead=14,
        )
    ),
    Applied(_sick("long polls in every thread", Server(1, 8), Load(rate=1.25, io_ms=8000), seconds=18, lead=18)),
    Applied(
        _sick(
            "max-requests far too tight",
            Server(4, 1, ("--max-requests", "5", *RECYCLED)),
            Load(part=0.4, io_ms=50),
            seconds=10,
            lead=4,
        ),
        quick=True,
    ),
    Applied(
        _sick(
            "2x8, an extension sleeps with the interpreter lock", Server(2, 8), Load(rate=120, io_ms=20, path="/hold")
        )
    ),
    Applied(
        _sick("2x8, a lock of the application", Server(2, 8), Load(rate=120, io_ms=20, path="/lock")),
        _without_path,
        "the application without its lock",
    ),
    Applied(_sick("1x8 on the CPU", Server(1, 8), Load(rate=25, cpu_ms=50), lead=5, alone=True)),
    Applied(
        replace(_sick("2x2, beside burners", Server(2, 2), Load(rate=20, cpu_ms=40), lead=5, alone=True), burners=4),
        partial(replace, burners=0),
        "the busy other programs stopped",
    ),
    Applied(
        _sick("pinned on one CPU by taskset", Server(2, 2, cpus="0"), Load(rate=24, cpu_ms=50), lead=5, alone=True),
        partial(_with_server, cpus=""),
        "all CPUs in its affinity mask",
    ),
    Applied(
        _sick("cgroup quota of half a CPU", Server(2, 2, quota=0.5), Load(rate=16, cpu_ms=50), lead=5, alone=True),
        partial(_with_server, quota=0.0),
        "no CPU quota",
    ),
    _advised("all workers reach max-requests together"),
    _advised("static files for slow clients"),
    _advised("a connection opened before the fork", "--lazy-apps"),
    _advised("a full reload waits for a request", "--worker-reload-mercy 2", ends=("reload_waits",)),
    _advised("SIGTERM without die-on-term", _stop_and_reload_apart, "`die-on-term`, and a reload by SIGHUP"),
    _advised("full reload of a slow application", _deploy_by_chain, "`lazy-apps` and `touch-chain-reload`"),
    _advised("a full cache", "--cache2 name=pages,items=5000", "`items` 5000 of the cache"),
    _advised("a spooler that falls behind", "--spooler-processes 8"),
    _advised("one stuck request", "--harakiri 10"),
    _advised(
        _sick("bursts overflow the queue of 40", Server(2, 1, queues.SHORT), *BURSTS, seconds=12),
        "--listen 100",
        ends=("clients_refused",),
    ),
    Applied(
        _sick(
            "bursts overflow the 40 of net.core.somaxconn",
            Server(2, 1, queues.SHORT, somaxconn=40),
            *BURSTS,
            seconds=12,
        ),
        lambda scenario: _with_server(_set(scenario, "--listen 100"), somaxconn=100),
        "net.core.somaxconn 100, and `listen` 100",
        ends=("clients_refused",),
    ),
    _advised("heads above buffer-size, with the log", "--buffer-size 32768"),
    _advised(
        _sick(
            "the http router gives up before the answer",
            Server(4, 4, (*ROUTER, "--http-timeout", "1")),
            Load(rate=4, io_ms=2500, socket="tcp"),
            Load(rate=5, io_ms=20, socket="tcp"),
        ),
        "--http-timeout 10",
    ),
    _advised(
        "a leak reaches the cgroup's memory limit",
        f"--reload-on-rss 45 {' '.join(RECYCLED)}",
        ends=("out_of_memory", "requests_lost"),
    ),
    _advised("2x2, clients keep their connections", _without_kept, "`http-socket` instead of `http11-socket`"),
    _advised("full worker by map-socket", _without_map, "no `map-socket`"),
    _advised("an executor of two threads", "--env EXECUTOR=16", "an executor of 16 threads"),
    _advised("a thread that was started before the fork", "--lazy-apps"),
    _advised("a timer that runs in a worker", "--env IMPORT=mule --mules 1", "`mules` 1 and `target='mule'`"),
    _advised("reload-on-rss below what a worker has"),
    _advised("clients give up while their requests wait", "--listen 15", ends=("clients_left",)),
    _advised("requests that call their own server", _without_path, "the code called directly"),
)


STEPS = 2
"""How many changes an advice may take."""

WITHIN = 0.15
"""How far the throughput may be from what was promised."""

SLOWER = (0.25, 0.02)
"""How much longer a response may take than promised: a part of it, or seconds."""

BESIDE = 6
"""How many rows that need no CPU run at a time: their requests sleep."""

HARMS = {"clients_refused", "queue_wait", "queue_filling", "respawn_loop", "saturation", "cheaper_does_not_scale"}
"""Codes that must be gone after the change, with all that is critical. A cause may stay as a warning."""


class Step(NamedTuple):
    seen: Seen
    change: str
    serves: float | None


class Result(NamedTuple):
    """steps: the changes made, in order; after: the last check; most: requests per second under more clients than the
    last setting's threads; None without a promise."""

    row: Applied
    steps: tuple[Step, ...]
    after: Seen | None
    most: float | None = None
    missed: tuple[str, ...] = ()


def follow(row: Applied) -> Result:
    try:
        return _follow(row)
    except (AssertionError, OSError) as error:
        return Result(row, (), None, missed=(f"the scenario itself failed: {type(error).__name__}: {error}",))


def _follow(row: Applied) -> Result:
    scenario, steps = _open_loop(row.scenario), list[Step]()
    seen = see(scenario)
    most_steps = 1 if row.ends else STEPS
    while len(steps) < most_steps and (_harms(seen) or (row.outside and seen.grave and not steps)):
        changed = _change(scenario, seen) if steps or not row.outside else _change_outside(row, scenario, seen)
        if changed is None:
            break
        scenario, step = changed
        steps.append(step)
        seen = see(scenario)
    if not steps:
        return Result(row, (), seen, missed=("no harm, or no change that a setting makes, was seen",))
    most = None if steps[-1].serves is None else see(_crowd(scenario)).figures.get("throughput")
    missed = tuple(_misses(row, steps, seen, most))
    return Result(row, tuple(steps), seen, most, missed)


def _open_loop(scenario: Scenario) -> Scenario:
    """The scenario with its rates fixed, so that a larger server gets the same load."""
    return replace(scenario, loads=tuple(replace(counted(load, scenario.server), part=0.0) for load in scenario.loads))


def _crowd(scenario: Scenario) -> Scenario:
    main = max(scenario.loads, key=lambda load: load.rate)
    clients = min(300, 2 * scenario.server.capacity)
    crowd = Load(clients=clients, io_ms=main.io_ms, cpu_ms=main.cpu_ms, path=main.path, socket=main.socket)
    return replace(scenario, loads=(crowd,), seconds=max(6.0, 5 * main.io_ms / 1000), lead=2)


def _change_outside(row: Applied, scenario: Scenario, seen: Seen) -> tuple[Scenario, Step] | None:
    """The scenario after the row's own change; None if the advice does not name an option that it sets."""
    advice = seen.grave[0]["change"] or "" if seen.grave else ""
    named = re.findall(r"`([\w-]+)", advice)
    if not row.outside or not set(re.findall(r"`([\w-]+)`", row.what)) <= set(named):
        return None
    return row.outside(scenario), Step(seen, row.what, None)


def _change(scenario: Scenario, seen: Seen) -> tuple[Scenario, Step] | None:
    for each in seen.grave:  # this application sleeps on purpose
        sleeps = re.findall(r"on purpose: Raise `(\w+)` from \d+ to (\d+)", each["change"] or "")
        if settings := each["settings"] or {option: int(value) for option, value in sleeps}:
            change = ", ".join(f"`{option}` {value}" for option, value in settings.items())
            server = set_options(scenario.server, settings)
            return replace(scenario, server=server), Step(seen, change, each["serves"])
    return None


def set_options(server: Server, settings: Mapping[str, int]) -> Server:
    options = list(server.options)
    for option, value in settings.items():
        if option == "processes":
            server = replace(server, processes=value)
        elif option == "threads":
            server = replace(server, threads=value)
        elif f"--{option}" in options:
            options[options.index(f"--{option}") + 1] = str(value)
        else:
            options += [f"--{option}", str(value)]
    return replace(server, options=tuple(options))


def _harms(seen: Seen) -> set[str]:
    return {
        each["code"]
        for finding in seen.grave
        for each in (finding, *finding["harms"])
        if each["code"] in HARMS or each["severity"] == "critical"
    }


def _misses(row: Applied, steps: Sequence[Step], after: Seen, most: float | None) -> Iterator[str]:
    before, promised = steps[-1].seen, steps[-1].serves
    had, still = set(codes_of(before.grave)), set(codes_of(after.grave))
    if row.ends:
        left = still & set(row.ends)
    else:
        left = _harms(after) | (still & {before.first} if row.outside and not row.scenario.burners else set())
    if left:
        yield f"still {', '.join(sorted(left))}"
    if promised is not None and most is not None and abs(promised / most - 1) > WITHIN:
        yield f"promised {promised:.1f}/s, serves {most:.1f}/s"
    service = before.figures.get("response_time")
    # With the last two, the time in service before was itself a wait for the interpreter.
    if promised is None or service is None or had & {"clients_refused", "interpreter_bound", "interpreter_lock_held"}:
        return
    response = _response(after)
    part, seconds = SLOWER
    if response > service + max(part * service, seconds):
        yield f"response {response * 1000:.0f} ms, {service * 1000:.0f} ms promised"


def _response(seen: Seen) -> float:
    """The mean response time in seconds, with the wait in the listen queue."""
    return seen.figures.get("response_time", 0.0) + seen.figures.get("queue_wait", 0.0)


def _row(result: Result) -> str:
    after = result.after
    before = result.steps[0].seen if result.steps else after
    promised = result.steps[-1].serves if result.steps else None
    size = result.row.scenario.server
    return " | ".join(
        [
            result.row.scenario.name,
            f"{size.processes}x{size.threads}: {_describe(before)}",
            ", then ".join(step.change for step in result.steps) or "none",
            "-" if promised is None else f"{promised:.1f}/s",
            ("" if result.most is None else f"{result.most:.1f}/s; ") + _describe(after),
            "; ".join(("missed", *result.missed)) if result.missed else "ok",
        ]
    )


def _describe(seen: Seen | None) -> str:
    if seen is None:
        return "-"
    return f"{seen.outcome} {seen.first or ''}".strip() + f", {_response(seen):.2f} s"


def _say(result: Result) -> None:
    print(("✗ " if result.missed else "✓ ") + _row(result), flush=True)
    if result.missed:
        for seen in (*[step.seen for step in result.steps], *([result.after] if result.after else [])):
            print(f"    {seen.verdict} {seen.grave[0]['change'] if seen.grave else ''} {seen.figures} {seen.tally}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.scenarios.apply", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows whose name contains this text (default: all)")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.names or any(name in row.scenario.name for name in options.names)]
    rows = [row for row in rows if not why_not(row.scenario)]
    begun = time.monotonic()
    results = run_all(rows, follow, _say, BESIDE)
    seconds = time.monotonic() - begun
    missed = sum(bool(result.missed) for result in results)
    print(f"{len(results) - missed} kept, {missed} missed; {seconds:.0f} s.")
    return min(1, missed)


if __name__ == "__main__":
    sys.exit(main())
