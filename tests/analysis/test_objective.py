"""Burn rates by hand-computed numbers, when an objective is not judged, and the load at which it would be missed."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.objective import LoadLimit, ObjectiveFigures, find_load_limit, judge_objective
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.response_times.totals import SlowRequests

SLO = Slo(1.0, 0.99)


def judged(
    short: SlowRequests,
    long: SlowRequests | None = None,
    *,
    slo: Slo = SLO,
    interval: float = 0.2,
) -> ObjectiveFigures:
    return judge_objective(slo, [short, long] if long else [short], interval)


def of(
    requests: int, slower: float, lost: int = 0, seconds: float = 300.0, *, waited: float = 0.0, refused: int = 0
) -> SlowRequests:
    return SlowRequests(seconds, requests, slower, lost, waited, refused)


def hour(requests: int, slower: float, lost: int = 0) -> SlowRequests:
    return of(requests, slower, lost, 3600.0)


def test_burn_rates() -> None:
    """Of 995 completed and 5 lost requests, 20 slow and 5 lost are 2.5 %: two and a half times what 99 % permits."""
    figures = judged(of(995, 20.0, 5), hour(9990, 40.0, 10))
    short, long = figures.windows
    assert (short.requests, short.slow, short.lost, short.seconds) == (1000, 20.0, 5, 300.0)
    assert short.share == pytest.approx(0.025)
    assert short.rate == pytest.approx(2.5)
    assert long.share == pytest.approx(0.005)
    assert long.rate == pytest.approx(0.5)
    assert figures.level is None


@pytest.mark.parametrize(
    ("short", "long", "level"),
    [
        (0.145, 0.145, "fast"),
        (0.145, 0.143, "slow"),
        (0.143, 0.5, "slow"),
        (0.061, 0.061, "slow"),
        (0.5, 0.059, None),
        (0.059, 0.5, None),
        (0.0, 1.0, None),
        (1.0, 1.0, "fast"),
    ],
)
def test_both_windows_must_burn(short: float, long: float, level: str | None) -> None:
    """14.4 times as fast as permitted in both windows is fast, 6 times is slow: the short one shows that it still
    burns."""
    assert judged(of(10_000, 10_000 * short), hour(100_000, 100_000 * long)).level == level


@pytest.mark.parametrize(("requests", "known"), [(0, False), (99, False), (100, True)])
def test_too_few_requests(requests: int, known: bool) -> None:
    """Below a hundred requests in a window there is no rate, and no level, however slow they are."""
    figures = judged(of(requests, float(requests)), hour(100_000, 100_000.0))
    assert (figures.windows[0].rate is not None) is known
    assert (figures.windows[0].share is not None) is known
    assert figures.level == ("fast" if known else None)


def test_lost_requests_count_to_the_fewest() -> None:
    """A server that loses all requests completes none."""
    assert judged(of(0, 0.0, 100), hour(0, 0.0, 100)).level == "fast"


@pytest.mark.parametrize(("seconds", "level"), [(60.0, None), (500.0, None), (520.0, "fast"), (3600.0, "fast")])
def test_a_young_history(seconds: float, level: str | None) -> None:
    """Before history began, nothing is taken to have burnt: with all requests bad (a rate of 100), the hour's budget is
    burnt fast after 14.4 / 100 of an hour, and slowly after 6 / 100."""
    figures = judged(of(1000, 1000.0, seconds=min(300.0, seconds)), of(10_000, 10_000.0, seconds=seconds))
    assert figures.level == ("slow" if seconds == 500.0 else level)


def test_one_window_is_not_enough() -> None:
    """Without the long window there is no level."""
    assert judged(of(1000, 1000.0)).level is None


def test_waiting_and_refused_requests_are_bad() -> None:
    """All requests that waited beyond the threshold have missed the objective, whatever uWSGI says; so have refused
    ones, which count as requests."""
    figures = judged(of(1000, 0.0, waited=1000.0), of(9000, 900.0, waited=600.0, seconds=3600.0))
    assert figures.unjudged is None
    assert [burn.share for burn in figures.windows] == [1.0, pytest.approx(1500 / 9000)]
    assert figures.level == "fast"
    refused = judged(of(900, 0.0, refused=100), hour(9000, 1.0)).windows[0]
    assert (refused.requests, refused.refused, refused.share) == (1000, 100, pytest.approx(0.1))


def test_samples_too_rare_for_the_threshold() -> None:
    """If a slow server stretches the pace of samples, a short threshold is not judged any more."""
    figures = judged(of(1000, 900.0), hour(9000, 8000.0), interval=0.6)
    assert figures.unjudged == ("not judged: the server is sampled every 600 ms, which shows thresholds from 1.2 s on")
    assert figures.level is None
    assert judged(of(1000, 900.0), hour(9000, 8000.0), interval=0.55).unjudged is None


def minutes(*loads: tuple[float, float], each: int = 2) -> list[SlowRequests]:
    """Minutes at loads in requests per second, each with a share of slow requests."""
    return [SlowRequests(60.0, round(60 * load), 60 * load * slow, 0) for load, slow in loads for _ in range(each)]


CROSSING = ((10.0, 0.0), (12.0, 0.01), (14.0, 0.01), (16.0, 0.02), (18.0, 0.04), (20.0, 0.08))


def test_the_load_at_which_it_crosses() -> None:
    """At 18 requests a second 4 % are slow, at 20 8 %: 5 % are at 18.5, which is 1.85 times a load of 10."""
    assert find_load_limit(minutes(*CROSSING), 10.0) == LoadLimit(pytest.approx(1.85), reached=True)
    assert find_load_limit(reversed(minutes(*CROSSING)), 37.0) == LoadLimit(pytest.approx(0.5), reached=True)


def test_it_never_crosses() -> None:
    """Then it is said up to what load it did not, if that is no less than the present one."""
    fine = minutes(*[(load, 0.01) for load, _ in CROSSING])
    assert find_load_limit(fine, 10.0) == LoadLimit(pytest.approx(2.0), reached=False)
    assert find_load_limit(fine, 20.5) is None


def test_slow_at_low_load_too() -> None:
    """Where load is not the cause, there is no limit: slow at every load, or only at a low one."""
    assert find_load_limit(minutes(*[(load, 0.2) for load, _ in CROSSING]), 10.0) is None
    assert find_load_limit(minutes(*[(30.0 - load, slow) for load, slow in CROSSING]), 10.0) is None
    assert find_load_limit(minutes((10.0, 0.0), (12.0, 0.2), *CROSSING[2:]), 10.0) is None


def test_the_load_did_not_vary() -> None:
    """From loads within a quarter nothing is concluded."""
    assert find_load_limit(minutes(*[(10.0 + 0.4 * step, 0.01 * step) for step in range(6)]), 10.0) is None
    assert find_load_limit(minutes(*[(10.0 + 0.6 * step, 0.01 * step) for step in range(6)]), 10.0)


def test_too_little_is_known() -> None:
    """Fewer than twelve minutes, fewer than a hundred requests in a group of minutes, or no load now."""
    assert find_load_limit(minutes(*CROSSING)[1:], 10.0) is None
    assert find_load_limit(minutes(*[(load / 20, slow) for load, slow in CROSSING]), 0.5) is None
    assert find_load_limit(minutes(*CROSSING), 0.0) is None
    assert find_load_limit(minutes(*CROSSING), None) is None
    assert find_load_limit([], 10.0) is None


def test_minutes_without_requests_do_not_count() -> None:
    """An idle night says nothing about load."""
    assert find_load_limit([*minutes((0.0, 0.0), each=40), *minutes(*CROSSING)], 10.0) == find_load_limit(
        minutes(*CROSSING), 10.0
    )
