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
    )
