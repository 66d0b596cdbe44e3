"""Asymptotic bounds of throughput and response time.

P. J. Denning and J. P. Buzen, "The Operational Analysis of Queueing Network Models", Computing Surveys 10 (3), 1978.
"""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.report.statistics.local_time import Floats
from uwsgi_headroom.report.statistics.refusal import Refusal


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
    """R0: mean response time, in seconds, of the quarters in the lowest tenth of observed concurrency.

    An upper estimate of the response time without load, as these quarters had some. Refused below 20 quarters.
    """
    raise NotImplementedError


def asymptotic_bounds(concurrency: Floats, base: float, largest_demand: float | None = None) -> Bounds:
    """The bounds at each concurrency.

    base: R0 in seconds. largest_demand: Dmax, for a limit that has m equal parts (CPUs, interpreters) the demand at one
    of them: seconds per request / m. Raises ValueError if either is not positive.
    """
    raise NotImplementedError
