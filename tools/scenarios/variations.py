"""Random variations of scenarios, for which the expectation must still hold."""

from __future__ import annotations

import random
from dataclasses import replace

from tools.scenarios.scenario import Load, Scenario

RANGE = (0.8, 1.2)
"""The range of factors for sizes and service times. The range for loads is part of each row."""

MOST_VARIED_MS = 5000.0
"""Longer requests keep their length, because they represent requests that occupy a thread."""


def vary(row: Scenario, number: int, seed: int) -> Scenario:
    """Returns a variation of a scenario, the same for the same number and seed."""
    chance = random.Random(f"{row.name} {number} {seed}")
    server = row.server
    if not row.fixed and not server.bare:
        processes = max(1, round(server.processes * chance.uniform(*RANGE)))
        threads = server.threads and max(1, round(server.threads * chance.uniform(*RANGE)))
        server = replace(server, processes=processes, threads=threads)
    growth = server.capacity / row.server.capacity
    longer = chance.uniform(*RANGE)
    loads = tuple(_vary_load(load, chance.uniform(*load.vary), growth, longer) for load in row.loads)
    return replace(row, name=f"{row.name} (variation {number})", server=server, loads=loads)


WIDE = (0.7, 1.4)
"""The range of factors for sizes and service times of `vary_widely`, which keeps the share of the threads in use."""

LONGER_CHECK = 1.2
"""The largest factor for the length of a check. It is never shorter, so that all events fall into it."""


def vary_widely(row: Scenario, seed: int) -> Scenario:
    """Returns the variation of a scenario that a seed stands for. Other service times at the same load share, another
    size of the same kind where the row permits it, other arrivals and a slightly longer check: an expert comes to the
    same verdict."""
    chance = random.Random(f"{row.name} wide {seed}")
    server = row.server
    if not row.fixed and not server.bare:
        threads = server.threads and _resize(server.threads, chance)
        server = replace(server, processes=_resize(server.processes, chance), threads=threads)
    growth = server.capacity / row.server.capacity
    longer = chance.uniform(*WIDE)
    varied = [_vary_load(load, 1.0, growth, longer) for load in row.loads]
    return replace(
        row,
        name=f"{row.name} (seed {seed})",
        server=server,
        loads=tuple(replace(load, seed=chance.randrange(2**31)) for load in varied),
        seconds=round(row.seconds * chance.uniform(1.0, LONGER_CHECK), 1),
    )


def _resize(number: int, chance: random.Random) -> int:
    """Returns another number of processes or threads; one stays one, and several stay several."""
    return 1 if number == 1 else max(2, round(number * chance.uniform(*WIDE)))


def _vary_load(load: Load, more: float, growth: float, longer: float) -> Load:
    """Returns the load scaled by `more` and by the server's `growth`, with requests `longer` by this factor."""
    is_long = load.io_ms > MOST_VARIED_MS
    return replace(
        load,
        part=load.part * more,
        rate=load.rate * more * growth / (1.0 if is_long or not load.cpu_ms + load.io_ms else longer),
        clients=round(load.clients * more * growth) or min(1, load.clients),
        io_ms=load.io_ms * (1.0 if is_long else longer),
        cpu_ms=load.cpu_ms * longer,
        think_ms=load.think_ms * longer,
    )
