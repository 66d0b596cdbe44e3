"""Universal Scalability Law: X(N) = λ N / (1 + σ (N - 1) + κ N (N - 1)).

N. J. Gunther, "Guerrilla Capacity Planning", Springer 2007, chapter 4.
"""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.report.statistics.local_time import Floats
from uwsgi_headroom.report.statistics.refusal import Refusal

CONFIDENCE = 0.9
"""Of the intervals of the parameters."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A parameter with its interval (CONFIDENCE)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usl:
    """The fitted law.

    rate: λ, requests per second of one request at a time. contention: σ. coherency: κ.
    residuals: observed less fitted throughput of each used quarter, requests per second, in the order of
    `residual_concurrency`. error: root mean square of residuals over mean throughput. explained: R² of throughput.
    low, high: least and greatest concurrency of the data.
    peak_concurrency: sqrt((1 - σ) / κ); None if κ's interval contains 0: no peak is known. most_throughput: at the
    peak, or λ / σ, which is approached without a peak; None if neither is known. beyond_data: the peak, or the level
    approached, lies above the data's greatest concurrency: it is an extrapolation, and the page must say so.
    notes: sentences for the reader.
    """

    rate: Estimate
    contention: Estimate
    coherency: Estimate
    residual_concurrency: Floats
    residuals: Floats
    error: float
    explained: float
    low: float
    high: float
    peak_concurrency: Estimate | None
    most_throughput: Estimate | None
    beyond_data: bool
    notes: tuple[str, ...]

    def throughput(self, concurrency: Floats) -> Floats:
        """The fitted throughput. The caller keeps to low..high, or marks what is beyond as such."""
        raise NotImplementedError


def fit_usl(concurrency: Floats, throughput: Floats, weights: Floats | None = None, seed: int = 17) -> Usl | Refusal:
    """Fit the law to quarters of an hour in order of time.

    Refused if concurrency spans too little (a factor of 3), stays below 2, or throughput does not bend.
    """
    raise NotImplementedError
