"""What to change for more capacity, by what is short: CPUs, interpreters or threads."""

from __future__ import annotations

import math

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.formatting import percent
from uwsgi_headroom.analysis.memory_headroom import fits
from uwsgi_headroom.analysis.slots import ASYNC, name_slots
from uwsgi_headroom.reading import Reading

INTERPRETERS_BUSY = 0.45
"""Mean load of the interpreters from which more threads in them would rather wait for them than serve."""

CPU_FULL = 0.90
"""CPU used by the workers against what they may use at all."""

MORE = 1.5
"""By what the advice multiplies: a step whose effect shows, and that can be taken back."""


def add_capacity(figures: Figures, reading: Reading) -> str:
    """One step to take, in the imperative."""
    workers = [worker for worker in figures.balance.workers if worker.active] or figures.balance.workers
    loads = [worker.interpreter_load for worker in workers if worker.interpreter_load is not None]
    load = sum(loads) / len(loads) if loads else None
    cpus = reading.host.cpus
    if cpus and sum(loads) >= CPU_FULL * cpus.count:
        used = percent(sum(loads) / cpus.count)
        return f"Give it more CPUs, or move load to another host: the workers use {used} of theirs."
    if name_slots(reading) == ASYNC:
        return (
            "Raise `gevent` (or `async`), the number of requests that a worker may have at once; add `processes` if "
            "what they wait for is the workers' CPU."
        )
    processes = len(figures.snapshot.workers)
    each = round((figures.ceiling or 0) / processes) if processes else 0
    more = math.ceil(MORE * processes)
    room = fits(reading.host.memory, more - processes)
    if load is not None and load > INTERPRETERS_BUSY:
        return (
            f"Raise `processes` from {processes} to {more} ({room}): the interpreters are at {load:.2f} of a CPU each, "
            "and more threads would wait for them."
        )
    if each == 1:
        return (
            f"Raise `processes` from {processes} to {more} ({room}). Raise `threads` only if the application is safe "
            "to run in several threads."
        )
    if not each:
        return f"Raise `processes` from {processes} to {more} ({room})."
    idle = "" if load is None else f": the interpreters are at {load:.2f} of a CPU each"
    return (
        f"Raise `threads` from {each} to {math.ceil(MORE * each)}{idle}. If all requests wait for the same thing, such "
        "as a database, make that faster first."
    )
