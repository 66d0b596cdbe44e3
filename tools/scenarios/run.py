"""Runs scenarios: starts the server and its load, runs `check` on the server, and keeps its result."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace

from tools.scenarios import loads
from tools.scenarios.checking import check
from tools.scenarios.judge import Seen, differences
from tools.scenarios.scenario import Load, Scenario, Server
from tools.scenarios.servers import burning, started

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
    if reason := row.skip():
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
    """Runs scenarios: first those that need no CPU, `beside` at a time, then the others one by one. Reports each result
    at once, and returns all in the order of the rows."""
    rows = list(rows)
    results: dict[str, Result] = {}
    together = sorted((row for row in rows if not row.alone), key=lambda row: -(row.lead + row.seconds))
    pool = ThreadPoolExecutor(beside)
    try:
        for future in as_completed([pool.submit(run_row, row) for row in together]):
            results[future.result().row.name] = future.result()
            report(future.result())
    finally:  # after Ctrl-C, running scenarios end by themselves
        pool.shutdown(cancel_futures=True)
    for row in rows:
        if row.alone:
            results[row.name] = run_row(row)
            report(results[row.name])
    return [results[row.name] for row in rows]


def counted(load: Load, server: Server) -> Load:
    """Returns the load with its rate in requests per second, if it was given as a part of the capacity."""
    if not load.part:
        return load
    return replace(load, rate=load.part * server.capacity * 1000 / (load.io_ms + load.cpu_ms))
