"""Throughput and response time against concurrency: observed, in bins, the asymptotic bounds of
both, and the Universal Scalability Law.

Bounds: P. J. Denning and J. P. Buzen, "The Operational Analysis of Queueing Network Models", Computing Surveys 10 (3),
1978.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

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
    concurrency: Floats, throughput: Floats, response_time: Floats, weights: Floats | None = None, bins: int = 20
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


CONFIDENCE = 0.9
"""Of the intervals of the parameters."""

_LEAST_FITTED_QUARTERS = 96
_LEAST_GREATEST = 2.0
_LEAST_SPAN = 3.0
"""Greatest over least concurrency."""

_LEAST_BEND = 1.1
"""Response time at the greatest concurrency over that at the least, by the law: below, throughput is a line."""

_RESAMPLES = 400
_ENDLESS = 1e9
"""Concurrency that stands for the limit at infinity."""


class Estimate(NamedTuple):
    """A parameter with its interval (CONFIDENCE)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usl:
    """The fitted law.

    rate: lambda, requests per second of one request at a time. contention: sigma. coherency: kappa.
    residuals: observed less fitted throughput of each used quarter, requests per second, in the order of
    `residual_concurrency`. error: root mean square of residuals over mean throughput. explained: R² of throughput;
    nan if it does not vary.
    low, high: least and greatest concurrency of the data.
    peak_concurrency: sqrt((1 - sigma) / kappa); None if kappa's interval contains 0: no peak is known.
    most_throughput: at the peak, or lambda / sigma, which is approached without a peak; None if neither is known.
    beyond_data: the peak, or the level approached, lies above the data's greatest concurrency: it is an extrapolation,
    and the page must say so. notes: sentences for the reader.
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
        parameters = np.array([1.0, self.contention.value, self.coherency.value]) / self.rate.value
        return np.asarray(concurrency / (usl_terms(concurrency) @ parameters))


def fit_usl(concurrency: Floats, throughput: Floats, weights: Floats | None = None, seed: int = 17) -> Usl | Refusal:
    """Fit the law to quarters of an hour in order of time.

    Least squares of relative residuals of response time N / X in bins of concurrency, no parameter below 0. Intervals
    by a bootstrap of whole days (of shorter blocks, if there are fewer than 20 days). Quarters with less than one
    request in service are left out, as the law starts at one. Refused if concurrency spans too little or stays below 2,
    if throughput does not bend, or if slow requests rather than load raise concurrency.

    N. J. Gunther, "Guerrilla Capacity Planning", Springer 2007, chapter 4. As N = X R, the law is a polynomial of
    response time, R(N) = a + b (N - 1) + c N (N - 1), with lambda = 1 / a, sigma = b / a, kappa = c / a.

    That polynomial is fitted to the response times of binned quarters, with no parameter below 0.
    """
    weights = np.ones(len(concurrency)) if weights is None else weights
    require_same_length(concurrency, throughput, weights)
    used = is_positive(concurrency) & is_positive(throughput) & is_positive(weights)
    used[used] = np.asarray(concurrency)[used] >= 1
    observed = _Observed(*(np.asarray(column)[used] for column in (concurrency, throughput, weights)))
    refusal = observed.refusal()
    if refusal:
        return refusal
    bins = ResponseTimeBins(observed.concurrency, observed.throughput, observed.weights)
    best = bins.fit(np.ones(bins.blocks))
    random = np.random.default_rng(seed)
    choices = random.multinomial(bins.blocks, np.full(bins.blocks, 1 / bins.blocks), size=_RESAMPLES)
    fits = np.array([bins.fit(choice.astype(np.float64)) for choice in choices])
    fits = fits[fits[:, 0] > 0]
    if best[0] <= 0 or len(fits) < _RESAMPLES / 2:
        return Refusal("Response time is too irregular for the scalability law.")
    ends = usl_terms(np.array([observed.low, observed.high]))
    bend = np.quantile((fits @ ends[1]) / (fits @ ends[0]), (1 - CONFIDENCE) / 2)
    if bend < _LEAST_BEND:
        return Refusal(
            f"Throughput does not clearly bend between {observed.low:.3g} and {observed.high:.3g} requests in service, "
            "so the data show no ceiling."
        )
    if not _follows_throughput(observed, best):
        return Refusal(
            "Response time rises with requests in service, but not with throughput: slow requests raise concurrency, "
            "not load, so the data show no ceiling."
        )
    return _describe(observed, best, fits)


def _follows_throughput(observed: _Observed, best: Floats) -> bool:
    """Whether quarters of high throughput are slower than those of low throughput by half of what the law says.

    Where response times vary for another reason, slow quarters have more requests in service (N = X R), and a law that
    bends fits them, though load changes nothing.
    """
    order = np.argsort(observed.throughput, kind="stable")
    third = len(order) // 3
    low, high = order[:third], order[-third:]
    fitted = observed.concurrency / (usl_terms(observed.concurrency) @ best)
    seen, expected = (
        _response_time(observed.concurrency, throughput, high) / _response_time(observed.concurrency, throughput, low)
        - 1
        for throughput in (observed.throughput, fitted)
    )
    return bool(seen >= expected / 2)


def _response_time(concurrency: Floats, throughput: Floats, chosen: Integers) -> float:
    """Of all requests of the chosen quarters."""
    return float(np.sum(concurrency[chosen]) / np.sum(throughput[chosen]))


@dataclass(frozen=True, slots=True)
class _Observed:
    concurrency: Floats
    throughput: Floats
    weights: Floats

    @property
    def low(self) -> float:
        return float(self.concurrency.min())

    @property
    def high(self) -> float:
        return float(self.concurrency.max())

    def refusal(self) -> Refusal | None:
        known = len(self.concurrency)
        if known < _LEAST_FITTED_QUARTERS:
            return Refusal(
                f"The scalability law needs {_LEAST_FITTED_QUARTERS} quarters of an hour with at least one request in "
                f"service; there are {known}."
            )
        if self.high < _LEAST_GREATEST or self.high < _LEAST_SPAN * self.low:
            return Refusal(
                f"Requests in service range from {self.low:.3g} to {self.high:.3g} only; the scalability law needs a "
                f"factor of {_LEAST_SPAN:g}."
            )
        return None


def _describe(observed: _Observed, best: Floats, fits: Floats) -> Usl:
    rate, contention, coherency = (
        _estimate(value, values)
        for value, values in zip(
            (1 / best[0], best[1] / best[0], best[2] / best[0]),
            (1 / fits[:, 0], fits[:, 1] / fits[:, 0], fits[:, 2] / fits[:, 0]),
            strict=True,
        )
    )
    fitted = observed.concurrency / (usl_terms(observed.concurrency) @ best)
    residuals = observed.throughput - fitted
    mean = float(np.mean(observed.throughput))
    variation = float(np.sum((observed.throughput - mean) ** 2))
    peak, most, notes = _ceiling(best, fits, observed.high, contention, coherency)
    order = np.argsort(observed.concurrency, kind="stable")
    return Usl(
        rate=rate,
        contention=contention,
        coherency=coherency,
        residual_concurrency=observed.concurrency[order],
        residuals=residuals[order],
        error=math.sqrt(float(np.mean(residuals**2))) / mean,
        explained=1 - float(np.sum(residuals**2)) / variation if variation else math.nan,
        low=observed.low,
        high=observed.high,
        peak_concurrency=peak,
        most_throughput=most,
        beyond_data=most is not None and (peak is None or peak.value > observed.high),
        notes=notes,
    )


def _estimate(value: float, values: Floats) -> Estimate:
    low, high = np.quantile(values, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Estimate(float(value), min(float(low), float(value)), max(float(high), float(value)))


def _ceiling(
    best: Floats, fits: Floats, greatest: float, contention: Estimate, coherency: Estimate
) -> tuple[Estimate | None, Estimate | None, tuple[str, ...]]:
    """The peak's concurrency, the most throughput, and what to say about them."""
    with np.errstate(divide="ignore"):
        if coherency.low > 0:
            peak = _estimate(_peak(best[None, :])[0], _peak(fits))
            most = _estimate(_rate_at_peak(best[None, :])[0], _rate_at_peak(fits))
            beyond = f"Extrapolated: no quarter had more than {greatest:.3g} requests in service."
            return peak, most, (beyond,) if peak.value > greatest else ()
        if contention.low > 0 and best[2] == 0:
            most = _estimate(1 / best[1], 1 / fits[:, 1])
            return None, most, ("Extrapolated: this throughput is approached, but never reached.",)
    return None, None, ("Throughput bends, but the data do not show where it ends.",)


def _peak(fits: Floats) -> Floats:
    """sqrt((1 - sigma) / kappa); at least 1, where one request at a time is the most."""
    return np.maximum(np.sqrt(np.maximum(fits[:, 0] - fits[:, 1], 0) / fits[:, 2]), 1.0)


def _rate_at_peak(fits: Floats) -> Floats:
    """X at the peak; where kappa is 0, the limit lambda / sigma."""
    peak = np.minimum(_peak(fits), _ENDLESS)
    return np.asarray(peak / np.sum(usl_terms(peak) * fits, axis=1))
