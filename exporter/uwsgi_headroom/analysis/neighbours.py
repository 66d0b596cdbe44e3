"""Determines whether the CPU use of neighbours (other programs on the server's CPUs) grows with the server's load.

A batch job does not change when the server gets more requests. An nginx in front of the server, or a database behind
it, on the same host, grows with the server. The history distinguishes the two: from minute to minute, the CPU use of
others rises and falls with the server's requests, or it does not.

The test is the correlation of the *changes* from slice to slice, not of the values: two series that both drift often
correlate without any connection (C. W. J. Granger, P. Newbold, "Spurious Regressions in Econometrics", Journal of
Econometrics 2, 1974). For n changes with correlation r, t = r sqrt((n - 2) / (1 - r²)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, inf, sqrt

from uwsgi_headroom.analysis.littles_law import compute_flow, ratio
from uwsgi_headroom.history.window import CpuWindow, Window

SLICE_SECONDS = 60.0
"""Length of a slice. CPU time is read once a second, so the error of one reading is a sixtieth."""

LEAST_SLICES = 20
"""The fewest slices that can show a connection."""

LEAST_SPREAD = 0.1
"""The smallest standard deviation of the changes in requests per second, over their mean. A load that is steady, or
grows steadily, shows neither a connection nor the absence of one."""

LEAST_SIGNIFICANCE = 4.0
"""At or above this t-statistic, others follow the requests. Without a connection, chance reaches it once in four
hundred times with 20 slices, and once in a thousand with 60 (simulated with normal values: each is in two changes)."""

LEAST_EFFECT = 0.25
"""The smallest fraction of the others' CPU time that must be proportional to the requests. Below it, most of their use
does not grow with the load."""


@dataclass(frozen=True, slots=True)
class CpuShares:
    """CPUs used by the server's workers, idle, and used by others (None: unknown). Together they are the CPUs that the
    server could use if it were alone."""

    own: float
    idle: float
    others: float | None


def compute_shares(cpu: CpuWindow | None) -> CpuShares | None:
    """The mean CPU use in a window; None if unknown."""
    if cpu is None or not cpu.measured_seconds:
        return None
    others = cpu.others_seconds
    return CpuShares(
        own=cpu.own_seconds / cpu.measured_seconds,
        idle=cpu.idle_seconds / cpu.measured_seconds,
        others=None if others is None else others / cpu.measured_seconds,
    )


def extract_pair(window: Window) -> tuple[float, float] | None:
    """The figures of a slice for `follow_requests`; None if unknown, or if samples cover less than half of the
    slice."""
    shares, throughput = compute_shares(window.cpu), compute_flow(window).throughput
    if throughput is None or shares is None or shares.others is None:
        return None
    return (throughput, shares.others) if window.observed_seconds >= window.seconds / 2 else None


def follow_requests(slices: Sequence[tuple[float, float]]) -> bool | None:
    """Whether the CPU use of others grows with the requests. Each slice: requests per second, and CPUs used by others.

    None if there are too few slices, or the load is too steady.
    """
    if len(slices) < LEAST_SLICES:
        return None
    requests, others = [pair[0] for pair in slices], [pair[1] for pair in slices]
    mean_requests, mean_others = fsum(requests) / len(slices), fsum(others) / len(slices)
    changes, others_changes = _changes(requests), _changes(others)
    spread = ratio(sqrt(_covariance(changes, changes)), mean_requests)
    if spread is None or spread < LEAST_SPREAD:
        return None
    together, alone = _covariance(changes, others_changes), _covariance(changes, changes)
    if together <= 0:
        return False
    effect = ratio(together / alone * mean_requests, mean_others) or 0.0
    return effect >= LEAST_EFFECT and _significance(changes, others_changes) >= LEAST_SIGNIFICANCE


def _significance(first: Sequence[float], second: Sequence[float]) -> float:
    """The t-statistic of the correlation of two series."""
    explained = _covariance(first, second) ** 2
    unexplained = _covariance(first, first) * _covariance(second, second) - explained
    return sqrt((len(first) - 2) * explained / unexplained) if unexplained > 0 else inf


def _changes(values: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(values)]


def _covariance(first: Sequence[float], second: Sequence[float]) -> float:
    mean_first, mean_second = fsum(first) / len(first), fsum(second) / len(second)
    return fsum((a - mean_first) * (b - mean_second) for a, b in zip(first, second, strict=True)) / len(first)
