"""Asymptotic bounds of throughput and response time.

P. J. Denning and J. P. Buzen, "The Operational Analysis of Queueing Network Models", Computing Surveys 10 (3), 1978.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from uwsgi_headroom.report.statistics.curve import is_positive
from uwsgi_headroom.report.statistics.local_time import Floats, require_same_length
from uwsgi_headroom.report.statistics.refusal import Refusal

_LEAST_QUARTERS = 20
_LOW_LOAD = 0.1
"""Share of the quarters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """X(N) <= min(N / R0, 1 / Dmax) and R(N) >= max(R0, N Dmax).

    concurrency: N, as given. throughput: the upper bound, requests per second. response_time: the lower bound, seconds.
    base_response_time: R0. largest_demand: Dmax, seconds per request at the bottleneck; nan if not known, which leaves
    N / R0 alone. knee: N* = R0 / Dmax, the concurrency from which requests must wait; nan if not known.
    """

    concurrency: Floats
    throughput: Floats
    response_time: Floats
    base_response_time: float
    largest_demand: float
    knee: float


def base_response_time(concurrency: Floats, response_time: Floats, throughput: Floats) -> float | Refusal:
    """R0: mean response time, in seconds, of the tenth of the quarters with the lowest concurrency.

    An upper estimate of the response time without load, as these quarters had some. Refused below 20 quarters.
    """
    require_same_length(concurrency, response_time, throughput)
    used = is_positive(concurrency) & is_positive(response_time) & is_positive(throughput)
    known = int(np.count_nonzero(used))
    if known < _LEAST_QUARTERS:
        return Refusal(
            f"The response time at low load needs {_LEAST_QUARTERS} quarters of an hour with requests, not {known}."
        )
    order = np.argsort(concurrency[used], kind="stable")[: math.ceil(_LOW_LOAD * known)]
    return float(np.average(response_time[used][order], weights=throughput[used][order]))


def asymptotic_bounds(concurrency: Floats, base: float, largest_demand: float | None = None) -> Bounds:
    """The bounds at each concurrency.

    base: R0 in seconds. largest_demand: Dmax, for a limit that has m equal parts (CPUs, interpreters) the demand at one
    of them: seconds per request / m. Raises ValueError if either is not positive.
    """
    demand = math.nan if largest_demand is None else largest_demand
    if not base > 0 or demand <= 0:
        raise ValueError(f"a response time of {base} and a demand of {demand} seconds")
    concurrency = np.asarray(concurrency, dtype=np.float64)
    return Bounds(
        concurrency=concurrency,
        # fmin and fmax ignore nan.
        throughput=np.fmin(concurrency / base, 1 / demand),
        response_time=np.fmax(base, concurrency * demand),
        base_response_time=base,
        largest_demand=demand,
        knee=base / demand,
    )
