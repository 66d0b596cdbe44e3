"""Chooses settings to predict around the one that was observed, where nobody names any."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from uwsgi_headroom.analysis.what_if.setting import (
    MOST_IN_ALL,
    MOST_PROCESSES,
    MOST_SETTINGS,
    MOST_THREADS,
    Setting,
)


def choose_settings(observed: Setting, cpus: float) -> tuple[Setting, ...]:
    """At most MOST_SETTINGS, sorted, the observed one among them: as many threads split otherwise, and more and fewer
    of each."""
    chosen = {observed}
    for setting in _candidates(observed, cpus):
        if len(chosen) == MOST_SETTINGS:
            break
        if setting.processes <= MOST_PROCESSES and setting.threads <= MOST_THREADS and setting.in_all <= MOST_IN_ALL:
            chosen.add(setting)
    return tuple(sorted(chosen))


def _candidates(observed: Setting, cpus: float) -> Iterator[Setting]:
    """The most interesting ones first."""
    processes, threads, in_all = observed.processes, observed.threads, observed.in_all
    yield _split(in_all, 2 * processes)
    if processes > 1:
        yield _split(in_all, processes // 2)
    yield Setting(2 * processes, threads)
    yield Setting(processes, 2 * threads)
    yield Setting(in_all, 1)
    yield _split(in_all, max(1, ceil(cpus)))
    yield Setting(ceil(1.5 * processes), threads)
    yield Setting(processes, ceil(1.5 * threads))
    yield Setting(2 * processes, 2 * threads)
    yield Setting(max(1, processes // 2), threads)
    yield Setting(processes, max(1, threads // 2))
    yield _split(in_all, 4 * processes)
    yield Setting(4 * processes, threads)
    yield Setting(processes, 4 * threads)


def _split(in_all: int, processes: int) -> Setting:
    """About this many threads in all, in so many processes."""
    return Setting(processes, max(1, round(in_all / processes)))
