"""Formulas for the hours that are not simulated request by request.

The wait of M/G/c is that of M/M/c (A. K. Erlang, 1917) times (1 + cv²)/2, the approximation of A. M. Lee and P. A.
Longton (1959), which is within a few percent for these variations.
"""

from __future__ import annotations

from math import erf, exp, log, sqrt
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def variation(sigma: float) -> float:
    """(1 + cv²)/2 of a lognormal service time, sigma being that of its logarithm."""
    return exp(sigma**2) / 2


def part_delayed(rate: Array, servers: int, service: float) -> Array:
    """Erlang C: the part of the requests that find all threads busy; 1 from the capacity on."""
    offered = np.asarray(rate, dtype=float) * service
    blocked = np.ones_like(offered)
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    stable = np.minimum(offered / servers, 0.999999)
    return np.asarray(np.where(offered >= servers, 1.0, blocked / (1 - stable * (1 - blocked))))


def mean_wait(rate: Array, servers: int, service: float, sigma: float) -> Array:
    """Mean seconds in the queue; infinite from the capacity on."""
    rate = np.asarray(rate, dtype=float)
    free = servers - rate * service
    wait = part_delayed(rate, servers, service) * service / np.maximum(free, 1e-9) * variation(sigma)
    return np.asarray(np.where(free > 0, wait, np.inf))


def part_slower(threshold: float, service: float, sigma: float) -> float:
    """The part of lognormal service times of this mean that exceeds the threshold."""
    mean = log(service) - sigma**2 / 2
    return (1 - erf((log(threshold) - mean) / (sigma * sqrt(2)))) / 2
