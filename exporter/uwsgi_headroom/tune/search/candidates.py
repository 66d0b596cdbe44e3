"""Chooses which settings are worth a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.analysis.what_if.grid import choose_settings
from uwsgi_headroom.tune.loads.load import Load

MOST_THREADS = (1, 2, 4, 8, 16)
"""Threads of a process that are tried; beyond 16, one interpreter rarely has CPU for more."""

ALIKE = 0.97
"""Settings whose predictions are within 3 % count as equally good: the smallest of them is tried."""

POOR = 0.75
"""A setting that is predicted below this part of the best is tried only if nothing else is left."""

ROOM = 2
"""Threads in all, as a multiple of what the load keeps busy: more cannot help."""

MOST_PREDICTED = 24


def list_settings(present: Setting, load: Load, busy: float, cpus: float) -> tuple[Setting, ...]:
    """The settings to predict, without the present one, smallest first. busy: threads that were in use, on average."""
    count = max(1, round(cpus))
    most = max(ROOM * (load.clients or round(4 * busy)), 2 * count, present.in_all)
    processes = sorted({1, count, 2 * count, 3 * count, 4 * count, 8 * count, present.processes, 2 * present.processes})
    grid = {Setting(number, threads) for number in processes for threads in MOST_THREADS}
    around = set(choose_settings(present, cpus))
    # Fewer threads than CPUs cannot be the best, unless the load is small.
    least = min(load.clients or 1, count)
    fitting = [setting for setting in grid | around if least <= setting.in_all <= most and setting != present]
    return tuple(sorted(fitting, key=_size)[:: ceil(len(fitting) / MOST_PREDICTED) or 1])


def estimate_memory(setting: Setting, measured: Mapping[Setting, float]) -> float | None:
    """The memory of a setting in bytes, from that of others: in proportion to the processes, the master counting as
    one of them, from the nearest that was measured. None if none was."""
    if not measured:
        return None
    nearest = min(measured, key=lambda other: (abs(other.processes - setting.processes), other.threads))
    return measured[nearest] * (setting.processes + 1) / (nearest.processes + 1)


def choose(scores: Mapping[Setting, float], count: int, present: Setting) -> list[Setting]:
    """At most `count` settings to run, the most promising first: of those that are predicted alike the smallest, and
    with different numbers of processes, because the model may be wrong about what these cost."""
    chosen: list[Setting] = []
    left = {setting: score for setting, score in scores.items() if setting != present and score > 0}
    best = max(scores.values(), default=0.0)
    while left and len(chosen) < count:
        taken = {setting.processes for setting in chosen}
        others = {setting: score for setting, score in left.items() if setting.processes not in taken}
        if not others or max(others.values()) < POOR * best:
            others = left
        top = max(others.values())
        pick = min((setting for setting, score in others.items() if score >= ALIKE * top), key=_size)
        chosen.append(pick)
        del left[pick]
    return chosen


def guess(present: Setting, settings: Sequence[Setting], cpus: float) -> Mapping[Setting, float]:
    """Scores without a model: settings near twice as many processes as CPUs, with as many threads in all as today."""
    wanted = max(1.0, 2 * cpus)

    def distance(setting: Setting) -> float:
        return abs(setting.processes - wanted) / wanted + abs(setting.in_all - present.in_all) / present.in_all

    return {setting: 1 / (1 + distance(setting)) for setting in settings}


def smallest(settings: Iterable[Setting]) -> Setting:
    """The setting with the fewest threads in all, then the fewest processes."""
    return min(settings, key=_size)


def _size(setting: Setting) -> tuple[int, int]:
    return setting.in_all, setting.processes
