"""Throughput and response time against concurrency, in bins."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.report.statistics.local_time import Floats, Integers


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
    raise NotImplementedError
