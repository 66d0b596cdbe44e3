"""Percentiles of response times, pooled over many quarters of an hour."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uwsgi_headroom.report.statistics.local_time import Floats, require_same_length

_ROUNDING = 1e-12
_HALVINGS = 45


def pool_percentiles(
    bounds: Sequence[float],
    by_time: Sequence[Floats],
    percentiles: Sequence[Floats] = (),
    shares: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
    wanted: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
) -> tuple[float, ...]:
    """Percentiles of all requests of all quarters, in seconds.

    bounds, by_time, percentiles: as in `ServerData`; columns of several servers with the same bounds may be
    concatenated. shares: of `percentiles`. The knots of each quarter's distribution are its buckets and its own
    percentiles; between knots it rises with the logarithm of time, before the first one with time. A wanted percentile
    above the last knot of too many requests is inf; without requests all are nan. Raises ValueError if lengths differ
    or bounds do not increase.
    """
    _require_sound(bounds, by_time, percentiles, shares)
    if not by_time:
        return tuple(math.nan for _ in wanted)
    counts = np.array(by_time, dtype=np.float64).reshape(len(bounds), -1)
    used = np.isfinite(counts).all(axis=0) & (counts >= 0).all(axis=0) & (counts.sum(axis=0) > 0)
    if not used.any():
        return tuple(math.nan for _ in wanted)
    own = np.array(percentiles, dtype=np.float64).reshape(len(percentiles), counts.shape[1])[:, used]
    pool = _Pool(np.array(bounds, dtype=np.float64), counts[:, used], own, shares)
    return tuple(pool.percentile(share) for share in wanted)


class _Pool:
    """The distributions of all quarters, as knots: rows of seconds and of the share of requests up to there."""

    def __init__(self, bounds: Floats, counts: Floats, own: Floats, shares: Sequence[float]) -> None:
        self._weights = counts.sum(axis=0)
        quarters = counts.shape[1]
        finite = np.isfinite(bounds)
        below = np.minimum(np.cumsum(counts, axis=0)[finite] / self._weights, 1.0)
        known = np.isfinite(own) & (own > 0)
        seconds = np.vstack(
            [np.zeros((1, quarters)), np.repeat(bounds[finite][:, None], quarters, axis=1), np.where(known, own, 0.0)]
        ).T
        share = np.vstack([np.zeros((1, quarters)), below, np.where(known, np.array(shares)[: len(own), None], 0.0)]).T
        order = np.argsort(seconds, axis=1, kind="stable")
        self._seconds = np.take_along_axis(seconds, order, axis=1)
        # A percentile and a bucket that contradict each other a little must not make a distribution fall.
        self._share = np.maximum.accumulate(np.take_along_axis(share, order, axis=1), axis=1)

    def percentile(self, share: float) -> float:
        end = float(self._seconds[:, -1].max())
        missing = share - self._share_up_to(end)
        if missing >= -_ROUNDING:
            return end if missing <= _ROUNDING else math.inf
        low, high = 0.0, end
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._share_up_to(middle) < share else (low, middle)
        return high

    def _share_up_to(self, seconds: float) -> float:
        last = self._seconds.shape[1] - 1
        left = np.count_nonzero(self._seconds <= seconds, axis=1)[:, None] - 1
        right = np.minimum(left + 1, last)
        start, end = (np.take_along_axis(self._seconds, place, axis=1) for place in (left, right))
        low, high = (np.take_along_axis(self._share, place, axis=1) for place in (left, right))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(start > 0, np.log(seconds / start) / np.log(end / start), seconds / end)
        part[left == last] = 0.0
        return float(np.average((low + part * (high - low))[:, 0], weights=self._weights))


def _require_sound(
    bounds: Sequence[float], by_time: Sequence[Floats], percentiles: Sequence[Floats], shares: Sequence[float]
) -> None:
    require_same_length(*by_time, *percentiles)
    if len(bounds) != len(by_time):
        raise ValueError(f"{len(bounds)} bounds, but {len(by_time)} columns of requests")
    if any(np.diff(bounds) <= 0) or any(bound <= 0 for bound in bounds):
        raise ValueError("bounds are not positive and increasing")
    if percentiles and len(percentiles) != len(shares):
        raise ValueError(f"{len(percentiles)} columns of percentiles, but {len(shares)} shares")
