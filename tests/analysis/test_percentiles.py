"""Percentiles of response times, their intervals, and when they are not shown."""

import pytest
from msgspec.structs import replace

from tests.support.windows import by_share
from uwsgi_headroom.analysis.percentiles import SHARES, Percentile, compute_percentiles
from uwsgi_headroom.history.response_times.bins import END, LONGEST, Bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow

BINS = Bins()


def window(*groups: tuple[float, float], doubt: float = 0.0, interval: float = 0.2) -> ResponseTimeWindow:
    """Requests: (response time, number) pairs. doubt: the variance at each bin but the last with requests."""
    counts = [0.0] * len(BINS)
    for seconds, number in groups:
        counts[BINS.find(seconds)] += number
    last = max((place for place, count in enumerate(counts) if count), default=0)
    doubts = [doubt if place < last else 0.0 for place in range(len(BINS))]
    return ResponseTimeWindow(BINS, interval, round(sum(counts)), counts, doubts)


def percentiles(*groups: tuple[float, float], doubt: float = 0.0) -> dict[float, Percentile]:
    return by_share(compute_percentiles(window(*groups, doubt=doubt)))


@pytest.mark.parametrize("of", [None, window()])
def test_without_requests_there_are_none(of):
    """No window, or no requests in it."""
    assert compute_percentiles(of) is None


def test_a_percentile_is_in_its_bin():
    """It is interpolated between the edges of its bin."""
    found = percentiles((1.0, 900), (3.0, 100))
    (low, high), (lower, higher) = (BINS.edges_of(BINS.find(seconds)) for seconds in (1.0, 3.0))
    expected = (low + (high - low) * 500 / 900, high, lower + (higher - lower) * 0.9)
    assert [found[share].seconds for share in (0.5, 0.9, 0.99)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("requests", "shares"), [(1, ()), (2, (0.5,)), (19, (0.5, 0.9)), (20, SHARES[:3]), (100, SHARES)]
)
def test_a_percentile_needs_requests(requests, shares):
    """At least one request is slower: the 95th needs 20 requests, the 99th a hundred."""
    assert tuple(percentiles((1.0, requests))) == shares


def test_what_is_certain_has_a_narrow_interval():
    """Without doubt, the interval is the percentile's bin, or more where the next request is in another one."""
    found = percentiles((1.0, 1000), (7.0, 1000))
    (low, _), (lower, high) = (BINS.edges_of(BINS.find(seconds)) for seconds in (1.0, 7.0))
    assert [(found[share].low, found[share].high) for share in (0.9, 0.5)] == [(lower, high), (low, high)]


def below(seconds: float) -> Percentile:
    bound = pytest.approx(seconds)
    return Percentile(share=0.5, seconds=None, low=0.0, high=bound, under=bound)


def test_doubt_widens_the_interval():
    """The more doubtful the numbers are, the wider it is; the percentile is in it."""
    spread = [(edge, 10.0) for edge in BINS.edges[70:110]]
    medians = [percentiles(*spread, doubt=doubt)[0.5] for doubt in (0.0, 10.0, 40.0, 160.0)]
    assert all(median.low <= median.seconds <= median.high for median in medians)
    widths = [median.high - median.low for median in medians]
    assert widths == sorted(set(widths))


def test_below_the_time_between_samples():
    """Below 0.8 intervals, only the bound is said, which is no less than what may be; a lower end there is 0."""
    found = percentiles((0.03, 980), (0.3, 20), doubt=400.0)
    assert found[0.5] == below(0.16)
    assert found[0.95].seconds is None
    assert found[0.95].high > 0.25
    assert found[0.99].seconds == pytest.approx(0.3, rel=0.1)
    assert percentiles((0.03, 100), (0.5, 100), doubt=2.0)[0.9].low > 0.4
    assert percentiles((0.03, 90), (0.5, 100), doubt=400.0)[0.5].low == 0.0


@pytest.mark.parametrize("thirds", [57, 171, 1710, 99_999])
def test_no_percentile_is_lost_to_rounding(thirds):
    """Parts of requests add up to almost a whole number: a percentile at the edge of two bins is found."""
    counts = [0.0] * len(BINS)
    place = BINS.find(1.0)
    for _ in range(thirds):
        for near in (place - 1, place, place + 1):
            counts[near] += 1 / 3
    for extra in (0.0, sum(counts), sum(counts) / 9):
        counts[place + 5] = extra
        figures = compute_percentiles(ResponseTimeWindow(BINS, 0.2, 200, counts, [0.0] * len(BINS)))
        assert all(0.8 < percentile.seconds < 2.0 for percentile in by_share(figures).values())


@pytest.mark.parametrize(
    ("running", "mean", "most"),
    [
        (110.0, None, 110 / 6),  # requests 95 to 100 of 100
        (None, 1.1, 1.1 / 0.05),
        (110.0, 9.0, 110 / 6),
    ],
)
def test_the_mean_bounds_every_percentile(running, mean, most):
    """One request of a hundred takes as long as the 99th percentile, so that it is at most a hundred times the mean: of
    the same requests, whose sum is exact, or of those beside which it is shown."""
    found = by_share(compute_percentiles(replace(window((1.0, 90), (30.0, 10)), running=running), mean))
    assert found[0.95].low <= most
    assert [found[0.95].seconds, found[0.95].high] == pytest.approx([most, most])
    assert [found[0.9].seconds, found[0.99].seconds] == pytest.approx([1.0, 30.0], rel=0.1)


def test_a_tiny_mean_bounds_them_all():
    """Also below the time between samples."""
    found = by_share(compute_percentiles(replace(window((1.0, 90), (30.0, 10)), running=0.1)))
    assert found[0.5] == below(0.1 / 51)


def test_longer_than_all_bins():
    """The last bin has no end; what stands for it is finite, as the API needs."""
    for percentile in percentiles((10_000.0, 100)).values():
        assert LONGEST < percentile.seconds < END
        assert (percentile.low, percentile.high) == (LONGEST, END)


def test_a_trace_of_a_request_is_none():
    """A thousandth of a request in a far bin does not widen the interval, as requests that nothing is known of do."""
    assert percentiles((1.0, 500), (3000.0, 0.001))[0.99].high == BINS.edges_of(BINS.find(1.0))[1]
