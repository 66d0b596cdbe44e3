"""Fits the response time of the Universal Scalability Law, a polynomial of concurrency, to binned quarters.

R(N) = a + b (N - 1) + c N (N - 1), with no parameter below 0.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from uwsgi_headroom.report.statistics.local_time import Floats, Integers

_BINS = 60
_LONGEST_BLOCK = 96
"""Quarters of an hour: a day."""

_LEAST_BLOCKS = 20


class ResponseTimeBins:
    """Response times N / X in bins of concurrency, by block of time: a day, or less if there are few days.

    The response time of a bin is that of all its requests, so a quarter with one request that hangs counts little.
    blocks: their number. Sums by block and bin make a bootstrap of blocks cheap.
    """

    def __init__(self, concurrency: Floats, throughput: Floats, weights: Floats) -> None:
        known = len(concurrency)
        length = max(min(_LONGEST_BLOCK, known // _LEAST_BLOCKS), 1)
        block = np.arange(known) // length
        self.blocks = int(block[-1]) + 1
        edges = np.geomspace(concurrency.min(), concurrency.max(), _BINS + 1)[1:-1]
        cell = block * _BINS + np.searchsorted(edges, concurrency, side="right")
        self._weights = self._sums(cell, weights)
        self._concurrency = self._sums(cell, weights * concurrency)
        self._throughput = self._sums(cell, weights * throughput)

    def _sums(self, cell: Integers, values: Floats) -> Floats:
        sums = np.bincount(cell, weights=values, minlength=self.blocks * _BINS)
        return np.asarray(sums, dtype=np.float64).reshape(self.blocks, _BINS)

    def fit(self, times: Floats) -> Floats:
        """a, b, c of the blocks, each counted so many times."""
        weights = times @ self._weights
        filled = weights > 0
        total = (times @ self._concurrency)[filled]
        concurrency, response_time = total / weights[filled], total / (times @ self._throughput)[filled]
        scale = np.sqrt(weights[filled]) / response_time
        solution, _ = nnls(usl_terms(concurrency) * scale[:, None], response_time * scale)
        return np.asarray(solution)


def usl_terms(concurrency: Floats) -> Floats:
    """1, N - 1 and N (N - 1), in a last axis of three."""
    concurrency = np.asarray(concurrency, dtype=np.float64)
    return np.stack([np.ones_like(concurrency), concurrency - 1, concurrency * (concurrency - 1)], axis=-1)
