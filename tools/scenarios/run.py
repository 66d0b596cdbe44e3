"""Runs scenarios, their healthy twins and random variations of both: starts a server and its load, and runs `check`."""

import random
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from tools.scenarios.checking import Seen, check, differences
from tools.scenarios.rows import ROWS, find_twin
from tools.scenarios.scenario import Load, Scenario, Server
from tools.scenarios.servers import burning, loaded, started, why_not

R = TypeVar("R")
T = TypeVar("T")

BESIDE = 4
"""How many rows that need no CPU run at a time."""


class Result(NamedTuple):
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
    with started(row.server) as place, burning(row.burners):
        addressed = [(counted(load, row.server), place.address_for(load)) for load in row.loads]
        with loaded(addressed) as load:
            time.sleep(row.lead)
            seen = check(row, place)
        return replace(seen, tally=load.tally)


def run_all(rows: Sequence[R], run: Callable[[R], T], report: Callable[[T], None], beside: int = BESIDE) -> list[T]:
    """Runs rows: first those that need no CPU, `beside` at a time, the longest first, then the others alone. Reports
    each result at once, and returns all in the order of the rows. A row is a scenario or has one."""
    results: dict[int, T] = {}
    scenarios: list[Any] = [getattr(row, "scenario", row) for row in rows]
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
    if not load.part:
        return load
    return replace(load, rate=load.part * server.capacity * 1000 / (load.io_ms + load.cpu_ms))


VARIATIONS = 2


class Line(NamedTuple):
    """A line of the table: a row, or a twin that is no row, and its variations."""

    row: Scenario
    is_twin: bool
    variations: tuple[Scenario, ...]


def plan(rows: Iterable[Scenario], seed: int) -> list[Line]:
    """Rows and their twins, each once, with variations by this seed and those after it."""
    lines: dict[str, Line] = {}
    names = {row.name for row in ROWS}
    for each in (each for row in rows for each in (row, find_twin(row))):
        if each is not None and each.name not in lines:
            variations = tuple(vary(each, number) for number in range(seed, seed + VARIATIONS))
            lines[each.name] = Line(each, each.name not in names, variations)
    return list(lines.values())


def render_marks(lines: Sequence[Line], results: Mapping[str, Result]) -> Iterator[str]:
    """A line for each row and each twin: the marks of itself and of its variations; then how many are as expected."""
    width = max((len(line.row.name) for line in lines), default=0)
    for line in lines:
        marks = " ".join(results[run.name].mark for run in (line.row, *line.variations))
        yield f"{line.row.name:{width}}  {marks}"
    yield ""
    for kind, is_twin in (("Rows", False), ("Twins that are no rows", True)):
        of_kind = [line for line in lines if line.is_twin == is_twin]
        yield f"{kind}: {count([results[line.row.name] for line in of_kind])}"
        yield f"Their variations: {count([results[run.name] for line in of_kind for run in line.variations])}"
    for reason in sorted({result.skipped for result in results.values() if result.skipped}):
        yield f"Not run: {reason}."


def count(results: Sequence[Result]) -> str:
    """How many are as expected, and how many were not run, as a sentence."""
    different, skipped = sum(bool(each.different) for each in results), sum(bool(each.skipped) for each in results)
    run = len(results) - skipped
    return f"{run - different} of {run} as expected, {different} not; {skipped} not run."


WIDE = (0.7, 1.4)
"""The range of factors for sizes and service times. The share of the threads in use stays."""

MOST_VARIED_MS = 5000.0
"""Longer requests keep their length, because they represent requests that occupy a thread."""

LONGER_CHECK = 1.2
"""The largest factor for the length of a check. It is never shorter, so that all events fall into it."""


def vary(row: Scenario, seed: int) -> Scenario:
    """The variation of a scenario that a seed stands for: other service times at the same load share, another size
    where the row permits it, other arrivals and a slightly longer check. An expert comes to the same verdict."""
    chance = random.Random(f"{row.name} wide {seed}")
    server = row.server
    if row.resized and not server.bare:
        threads = server.threads and _resize(server.threads, chance)
        server = replace(server, processes=_resize(server.processes, chance), threads=threads)
    growth = server.capacity / row.server.capacity
    longer = chance.uniform(*WIDE)
    varied = [_vary_load(load, growth, longer) for load in row.loads]
    return replace(
        row,
        name=f"{row.name} (seed {seed})",
        server=server,
        loads=tuple(replace(load, seed=chance.randrange(2**31)) for load in varied),
        seconds=round(row.seconds * chance.uniform(1.0, LONGER_CHECK), 1),
    )


def _resize(number: int, chance: random.Random) -> int:
    """Another number of processes or threads; one stays one, and several stay several."""
    return 1 if number == 1 else max(2, round(number * chance.uniform(*WIDE)))


def _vary_load(load: Load, growth: float, longer: float) -> Load:
    is_long = load.io_ms > MOST_VARIED_MS
    return replace(
        load,
        rate=load.rate * growth / (1.0 if is_long or not load.cpu_ms + load.io_ms else longer),
        clients=round(load.clients * growth) or min(1, load.clients),
        io_ms=load.io_ms * (1.0 if is_long else longer),
        cpu_ms=load.cpu_ms * longer,
        think_ms=load.think_ms * longer,
    )
