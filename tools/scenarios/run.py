"""Runs scenarios: starts the server and its load, runs `check` on the server, and keeps its result."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import TypeVar

from tools.scenarios import loads
from tools.scenarios.checking import check
from tools.scenarios.judge import Seen, differences
from tools.scenarios.scenario import Load, Scenario, Server
from tools.scenarios.servers import burning, started, why_not

R = TypeVar("R")
T = TypeVar("T")

BESIDE = 4
"""How many rows that need no CPU run at a time."""


@dataclass(frozen=True)
class Result:
    """A row and its result: what `check` reported and how it differs, or why the row was skipped."""

    row: Scenario
    seen: Seen | None
    different: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def mark(self) -> str:
        return "-" if self.skipped else "✗" if self.different else "✓"


def run_row(row: Scenario) -> Result:
    if reason := why_not(row):
        return Result(row, None, skipped=reason)
    try:
        seen = see(row)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return Result(row, None, (f"the scenario itself failed: {type(error).__name__}: {error}",))
    return Result(row, seen, tuple(differences(row, seen)))


def see(row: Scenario) -> Seen:
    """Starts the server and its load, runs the check, ends all programs."""
    with started(row.server) as place, burning(row.burners):
        addressed = [(counted(load, row.server), place.address_for(load)) for load in row.loads]
        with loads.running(addressed) as load:
            time.sleep(row.lead)
            seen = check(row, place)
        return replace(seen, tally=load.tally)


def run_rows(rows: Iterable[Scenario], report: Callable[[Result], None], beside: int = BESIDE) -> list[Result]:
    return run_all(list(rows), lambda row: row, run_row, report, beside)


def run_all(
    rows: Sequence[R],
    scenario_of: Callable[[R], Scenario],
    run: Callable[[R], T],
    report: Callable[[T], None],
    beside: int,
) -> list[T]:
    """Runs rows: first those that need no CPU, `beside` at a time, the longest first, then the others alone. Reports
    each result at once, and returns all in the order of the rows."""
    results: dict[int, T] = {}
    scenarios = [scenario_of(row) for row in rows]
    places = sorted(range(len(rows)), key=lambda place: -(scenarios[place].lead + scenarios[place].seconds))
    pool = ThreadPoolExecutor(beside)
    try:
        running = {pool.submit(run, rows[place]): place for place in places if not scenarios[place].alone}
        for future in as_completed(running):
            results[running[future]] = future.result()
            report(future.result())
    finally:  # after Ctrl-C, running scenarios end by themselves
        pool.shutdown(cancel_futures=True)
    for place, scenario in enumerate(scenarios):
        if scenario.alone:
            results[place] = run(rows[place])
            report(results[place])
    return [results[place] for place in range(len(rows))]


def counted(load: Load, server: Server) -> Load:
    """Returns the load with its rate in requests per second, if it was given as a part of the capacity."""
    if not load.part:
        return load
    return replace(load, rate=load.part * server.capacity * 1000 / (load.io_ms + load.cpu_ms))
