"""Random variations of scenarios, for which the expectation still has to hold."""

from __future__ import annotations

import random
from dataclasses import replace

from tools.scenarios.scenario import Load, Scenario

RANGE = (0.8, 1.2)
"""Factors between which sizes and service times vary. Loads vary between those that their row allows."""

MOST_VARIED_MS = 5000.0
"""Longer requests keep their length: they stand for ones that hold a thread."""


def vary(row: Scenario, number: int, seed: int) -> Scenario:
    """One variation of a scenario: the same for the same number and seed."""
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
    """More of a load for a server that grew, and longer requests."""
    is_long = load.io_ms > MOST_VARIED_MS
    return replace(
        load,
        part=load.part * more,
        rate=load.rate * more * growth / (1.0 if is_long or not load.cpu_ms + load.io_ms else longer),
        clients=round(load.clients * more * growth) or min(1, load.clients),
        io_ms=load.io_ms * (1.0 if is_long else longer),
        cpu_ms=load.cpu_ms * longer,
    )
