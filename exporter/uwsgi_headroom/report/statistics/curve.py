"""Throughput and response time against concurrency: observed, in bins, and the asymptotic bounds of both.

Bounds: P. J. Denning and J. P. Buzen, "The Operational Analysis of Queueing Network Models", Computing Surveys 10 (3),
1978.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.local_time import Floats, Integers, require_same_length

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One value per bin, by rising concurrency; bins without data are left out.

    low, high: the edges of the bin. counts: quarters of an hour. concurrency, throughput: means, weighted.
    throughput_low, throughput_high: 10th and 90th percentile of the quarters' throughput. response_time: mean of all
    requests of the bin, which is weighted by throughput; nan where unknown.
    """

    low: Floats
    high: Floats
    counts: Integers
    concurrency: Floats
    throughput: Floats
    throughput_low: Floats
    throughput_high: Floats
    response_time: Floats


def throughput_curve(
    concurrency: Floats,
    throughput: Floats,
    response_time: Floats,
    weights: Floats | None = None,
    bins: int = 20,
) -> Curve:
    """The curve from one value per quarter of an hour each.

    concurrency: mean threads in service. throughput: requests per second. response_time: seconds. weights: for
    instance the covered share. bins: at most so many, of equal width with round edges. Quarters without concurrency or
    throughput are left out. Raises ValueError if lengths differ.
    """
    weights = np.ones(len(concurrency)) if weights is None else weights
    require_same_length(concurrency, throughput, response_time, weights)
    used = is_positive(concurrency) & is_positive(throughput) & is_positive(weights)
    concurrency, throughput, response_time, weights = (
        np.asarray(column, dtype=np.float64)[used] for column in (concurrency, throughput, response_time, weights)
    )
    width = round_width(float(concurrency.max()), bins) if len(concurrency) else 1.0
    places = np.floor(concurrency / width).astype(np.int64)
    filled, counts = np.unique(places, return_counts=True)
    rows = [_row(concurrency, throughput, response_time, weights, places == place) for place in filled]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    return Curve(
        low=np.asarray(filled * width),
        high=np.asarray((filled + 1) * width),
        counts=counts,
        concurrency=columns[0],
        throughput=columns[1],
        throughput_low=columns[2],
        throughput_high=columns[3],
        response_time=columns[4],
    )


def is_positive(column: Floats) -> NDArray[np.bool_]:
    """Where the column is known and above 0."""
    return np.asarray(np.isfinite(column) & (column > 0))


def round_width(greatest: float, bins: int) -> float:
    """The least round width with which so many bins reach above `greatest`."""
    needed = greatest / bins
    unit = 10.0 ** math.floor(math.log10(needed))
    return next(unit * factor for factor in _ROUND if unit * factor > needed)


def _row(
    concurrency: Floats, throughput: Floats, response_time: Floats, weights: Floats, inside: NDArray[np.bool_]
) -> tuple[float, ...]:
    rate, weight, seconds = throughput[inside], weights[inside], response_time[inside]
    timed = is_positive(seconds)
    low, high = np.quantile(rate, (0.1, 0.9))
    return (
        float(np.average(concurrency[inside], weights=weight)),
        float(np.average(rate, weights=weight)),
        float(low),
        float(high),
        float(np.average(seconds[timed], weights=(weight * rate)[timed])) if timed.any() else math.nan,
    )


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
