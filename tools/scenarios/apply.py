"""Follows the advice of `check` on a real uWSGI under the same load, and measures what was promised.

`python3 -m tools.scenarios.apply` checks a sick server, starts it again with the settings that the check's JSON advises
(or with the scenario's own change of something outside uWSGI), and checks again; two steps at most. The exit status is
1 if a row is missed. Promised and measured:

* The harm is gone, or is explained by a demand that the full queue or the busy threads hid before. Where the row makes
  the change, the first finding is gone, too; or what the row says that the change ends, and nothing else.
* Each option that such a row sets stands in the advice.
* "Serves at least X/s": X within 15 % of the throughput under as many clients as the threads and the queue hold.
* Where no queue was full: the response time, with the queue, is the time in service before, within 25 % or 20 ms.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tools.scenarios.checking import Seen
from tools.scenarios.rows.applied import ROWS, Applied
from tools.scenarios.run import counted, run_all, see
from tools.scenarios.scenario import Load, Scenario, Server
from tools.scenarios.servers import why_not

STEPS = 2
"""How many changes an advice may take."""

WITHIN = 0.15
"""How far the throughput may be from what was promised."""

SLOWER = (0.25, 0.02)
"""How much longer a response may take than promised: a part of it, or seconds."""

BESIDE = 6
"""How many rows that need no CPU run at a time: their requests sleep."""

SATURATED_SECONDS = 6.0

HARMS = {"clients_refused", "queue_wait", "queue_filling", "respawn_loop", "saturation", "cheaper_does_not_scale"}
"""Codes that must be gone after the change, with all that is critical. A cause may stay as a warning."""


@dataclass(frozen=True)
class Step:
    """A check, the change that followed it, and what it promised."""

    seen: Seen
    change: str
    serves: float | None


@dataclass(frozen=True)
class Result:
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
    promised = steps[-1].serves
    most = None
    if promised is not None:
        crowd = _crowd(scenario)
        most = see(crowd).figures.get("throughput")
    missed = tuple(_misses(row, steps, seen, most))
    return Result(row, tuple(steps), seen, most, missed)


def _open_loop(scenario: Scenario) -> Scenario:
    """The scenario with its rates fixed, so that a larger server gets the same load."""
    return replace(scenario, loads=tuple(replace(counted(load, scenario.server), part=0.0) for load in scenario.loads))


def _crowd(scenario: Scenario) -> Scenario:
    """The scenario under more clients than it has threads, for its greatest throughput."""
    main = max(scenario.loads, key=lambda load: load.rate)
    crowd = Load(
        clients=min(300, 2 * scenario.server.capacity),
        io_ms=main.io_ms,
        cpu_ms=main.cpu_ms,
        path=main.path,
        socket=main.socket,
    )
    return replace(scenario, loads=(crowd,), seconds=max(SATURATED_SECONDS, 5 * main.io_ms / 1000), lead=2.0)


def _change_outside(row: Applied, scenario: Scenario, seen: Seen) -> tuple[Scenario, Step] | None:
    """The scenario after the row's own change; None if the advice does not name an option that it sets."""
    advice = seen.grave[0]["change"] or "" if seen.grave else ""
    named = re.findall(r"`([\w-]+)", advice)
    if not row.outside or not set(re.findall(r"`([\w-]+)`", row.what)) <= set(named):
        return None
    return row.outside(scenario), Step(seen, row.what, None)


def _change(scenario: Scenario, seen: Seen) -> tuple[Scenario, Step] | None:
    finding = next((finding for finding in seen.grave if finding["settings"]), None)
    if finding is None:
        return None
    settings: dict[str, int] = finding["settings"]
    change = ", ".join(f"`{option}` {value}" for option, value in settings.items())
    return replace(scenario, server=set_options(scenario.server, settings)), Step(seen, change, finding["serves"])


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


def _codes(seen: Seen) -> set[str]:
    return {each["code"] for finding in seen.grave for each in (finding, *finding["harms"])}


def _harms(seen: Seen) -> set[str]:
    return {
        each["code"]
        for finding in seen.grave
        for each in (finding, *finding["harms"])
        if each["code"] in HARMS or each["severity"] == "critical"
    }


def _misses(row: Applied, steps: Sequence[Step], after: Seen, most: float | None) -> Iterator[str]:
    before, promised = steps[-1].seen, steps[-1].serves
    if row.ends:
        left = _codes(after) & set(row.ends)
    else:
        left = _harms(after) | (_codes(after) & {before.first} if row.outside and not row.scenario.burners else set())
    if left:
        yield f"still {', '.join(sorted(left))}"
    if promised is not None and most is not None and abs(promised / most - 1) > WITHIN:
        yield f"promised {promised:.1f}/s, serves {most:.1f}/s"
    service = before.figures.get("response_time")
    if promised is None or service is None or "clients_refused" in _codes(before):
        return
    if "interpreter_bound" in _codes(before) or "interpreter_lock_held" in _codes(before):
        return  # the time in service before was itself a wait for the interpreter
    response = _response(after)
    part, seconds = SLOWER
    if response > service + max(part * service, seconds):
        yield f"response {response * 1000:.0f} ms, {service * 1000:.0f} ms promised"


def _response(seen: Seen) -> float:
    """The mean response time in seconds, with the wait in the listen queue."""
    return seen.figures.get("response_time", 0.0) + seen.figures.get("queue_wait", 0.0)


def run_rows(rows: Sequence[Applied], report: Callable[[Result], None], beside: int = BESIDE) -> list[Result]:
    return run_all(rows, lambda row: row.scenario, follow, report, beside)


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
    results = run_rows(rows, _say)
    seconds = time.monotonic() - begun
    missed = sum(bool(result.missed) for result in results)
    print(f"{len(results) - missed} kept, {missed} missed; {seconds:.0f} s.")
    return min(1, missed)


if __name__ == "__main__":
    sys.exit(main())
