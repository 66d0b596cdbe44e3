"""Percentiles of response times, pooled over many quarters of an hour."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.report.statistics.local_time import Floats


def pool_percentiles(
    bounds: Sequence[float],
    by_time: Sequence[Floats],
    percentiles: Sequence[Floats] = (),
    shares: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
    wanted: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
) -> tuple[float, ...]:
    """Percentiles of all requests of all quarters, in seconds.

    bounds, by_time, percentiles: as in `ServerData`; columns of several servers with the same bounds may be
    concatenated. shares: of `percentiles`. Each quarter's distribution is linear between its knots, which are its
    buckets and its own percentiles. A wanted percentile above the last knot of too many requests is inf; without
    requests all are nan. Raises ValueError if lengths differ or bounds do not increase.
    """
    raise NotImplementedError
