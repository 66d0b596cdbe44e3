"""All rows, in the order of the report."""

from __future__ import annotations

from tools.scenarios.rows import (
    coroutines,
    cpu,
    facts,
    kernel,
    outside,
    own_threads,
    places,
    queues,
    real,
    refused,
    threads,
    waits,
    workers,
)
from tools.scenarios.scenario import Scenario

ROWS: tuple[Scenario, ...] = (
    *threads.ROWS,
    *coroutines.ROWS,
    *queues.ROWS,
    *workers.ROWS,
    *places.ROWS,
    *cpu.ROWS,
    *waits.ROWS,
    *kernel.ROWS,
    *own_threads.ROWS,
    *outside.ROWS,
    *facts.ROWS,
    *refused.ROWS,
    *real.ROWS,
)

assert len({row.name for row in ROWS}) == len(ROWS), "two rows have the same name"


def find_rows(names: list[str]) -> list[Scenario]:
    """Returns the rows whose name contains one of the texts, or all for no text. Raises LookupError for a text in no
    name."""
    for name in names:
        if not any(name.lower() in row.name.lower() for row in ROWS):
            raise LookupError(f"no scenario has {name!r} in its name")
    return [row for row in ROWS if not names or any(name.lower() in row.name.lower() for name in names)]
