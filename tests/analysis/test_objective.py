"""Burn rates by hand-computed numbers, when an objective is not judged or is a finding, and the load that misses it."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import figures_of
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings.kind import Finding, first_act
from uwsgi_headroom.analysis.findings.queue import BURNS, find_missed
from uwsgi_headroom.analysis.objective import LoadLimit, Objective, find_load_limit, judge_objective
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.response_times.totals import SlowRequests

SLO = Slo(1.0, 0.99)


def judged(*windows: SlowRequests, interval: float = 0.2) -> Objective:
    return judge_objective(SLO, windows, interval)


def of(
    requests: int, slower: float, lost: int = 0, seconds: float = 300.0, *, waited: float = 0.0, refused: int = 0
) -> SlowRequests:
    return SlowRequests(seconds, requests, slower, lost, waited, refused)


def hour(requests: int, slower: float, lost: int = 0) -> SlowRequests:
    return of(requests, slower, lost, 3600.0)


def test_burn_rates():
    """Of 995 completed and 5 lost requests, 20 slow and 5 lost are 2.5 %: two and a half times what 99 % permits."""
    figures = judged(of(995, 20.0, 5), hour(9990, 40.0, 10))
    short, long = figures.windows
    assert (short.requests, short.slow, short.lost, short.seconds) == (1000, 20.0, 5, 300.0)
    assert (short.share, short.rate, long.share, long.rate) == pytest.approx((0.025, 2.5, 0.005, 0.5))
    assert figures.level is None


@pytest.mark.parametrize(
    ("windows", "level"),
    [
        # 14.4 times as fast as permitted in both windows is fast, 6 times is slow.
        ((of(10_000, 1450), hour(100_000, 14_500)), "fast"),
        ((of(10_000, 1450), hour(100_000, 14_300)), "slow"),
        ((of(10_000, 1430), hour(100_000, 50_000)), "slow"),
        ((of(10_000, 610), hour(100_000, 6100)), "slow"),
        ((of(10_000, 5000), hour(100_000, 5900)), None),
        ((of(10_000, 590), hour(100_000, 50_000)), None),
        ((of(10_000, 0), hour(100_000, 100_000)), None),
        # Without the long window, or with less than a hundred requests in one, there is no level.
        ((of(1000, 1000),), None),
        ((of(99, 99), hour(100_000, 100_000)), None),
        ((of(100, 100), hour(100_000, 100_000)), "fast"),
        ((of(0, 0, 100), hour(0, 0, 100)), "fast"),  # a server that loses all requests completes none
        # Before history began, nothing is taken to have burnt: with all requests bad, the hour's budget is burnt fast
        # after 14.4 / 100 of an hour, and slowly after 6 / 100.
        ((of(1000, 1000, seconds=60.0), of(10_000, 10_000, seconds=60.0)), None),
        ((of(1000, 1000), of(10_000, 10_000, seconds=500.0)), "slow"),
        ((of(1000, 1000), of(10_000, 10_000, seconds=520.0)), "fast"),
        # All requests that waited beyond the threshold have missed the objective, whatever uWSGI says.
        ((of(1000, 0, waited=1000.0), of(9000, 900, waited=600.0, seconds=3600.0)), "fast"),
    ],
)
def test_both_windows_must_burn(windows, level):
    """The short one shows that it still burns."""
    assert judged(*windows).level == level


@pytest.mark.parametrize(
    ("short", "requests", "share"),
    [
        (of(99, 99), 99, None),
        (of(100, 100), 100, 1.0),
        (of(1000, 0, waited=1000.0), 1000, 1.0),
        (of(9000, 900, waited=600.0), 9000, 1500 / 9000),
        (of(900, 0, refused=100), 1000, 0.1),  # refused requests count as requests
    ],
)
def test_the_share_of_bad_requests(short, requests, share):
    """Slow, waiting, lost and refused ones; below a hundred requests there is none."""
    (burn,) = judged(short).windows
    assert (burn.requests, burn.share) == (requests, share and pytest.approx(share))
    assert (burn.rate is None) == (share is None)


@pytest.mark.parametrize(("interval", "is_judged"), [(0.55, True), (0.6, False)])
def test_samples_too_rare_for_the_threshold(interval, is_judged):
    """If a slow server stretches the pace of samples, a short threshold is not judged any more."""
    figures = judged(of(1000, 900.0), hour(9000, 8000.0), interval=interval)
    assert (figures.unjudged is None) == (figures.level == "fast") == is_judged


def minutes(*loads: tuple[float, float], each: int = 2) -> list[SlowRequests]:
    """Minutes at loads in requests per second, each with a share of slow requests."""
    return [SlowRequests(60.0, round(60 * load), 60 * load * slow, 0) for load, slow in loads for _ in range(each)]


CROSSING = ((10.0, 0.0), (12.0, 0.01), (14.0, 0.01), (16.0, 0.02), (18.0, 0.04), (20.0, 0.08))
FINE = minutes(*[(load, 0.01) for load, _ in CROSSING])


@pytest.mark.parametrize(
    ("known", "now", "limit"),
    [
        # At 18 requests a second 4 % are slow, at 20 8 %: 5 % are at 18.5, which is 1.85 times a load of 10.
        (minutes(*CROSSING), 10.0, (1.85, True)),
        (minutes(*CROSSING)[::-1], 37.0, (0.5, True)),
        ([*minutes((0.0, 0.0), each=40), *minutes(*CROSSING)], 10.0, (1.85, True)),  # an idle night
        # Where it never crosses, it is said up to what load it did not, if that is no less than the present one.
        (FINE, 10.0, (2.0, False)),
        (FINE, 20.5, None),
        # Where load is not the cause, there is no limit: slow at every load, or only at a low one.
        (minutes(*[(load, 0.2) for load, _ in CROSSING]), 10.0, None),
        (minutes(*[(30.0 - load, slow) for load, slow in CROSSING]), 10.0, None),
        (minutes((10.0, 0.0), (12.0, 0.2), *CROSSING[2:]), 10.0, None),
        # From loads within a quarter nothing is concluded.
        (minutes(*[(10.0 + 0.4 * step, 0.01 * step) for step in range(6)]), 10.0, None),
        (minutes(*[(10.0 + 0.6 * step, 0.01 * step) for step in range(6)]), 10.0, (1.3, False)),
        # Fewer than twelve minutes, fewer than a hundred requests in a group of minutes, or no load now.
        (minutes(*CROSSING)[1:], 10.0, None),
        (minutes(*[(load / 20, slow) for load, slow in CROSSING]), 0.5, None),
        (minutes(*CROSSING), 0.0, None),
        (minutes(*CROSSING), None, None),
        ([], 10.0, None),
    ],
)
def test_the_load_that_misses_it(known, now, limit):
    """It is said as a multiple of the present load."""
    assert find_load_limit(known, now) == (limit and LoadLimit(pytest.approx(limit[0]), reached=limit[1]))


def found(windows: list[SlowRequests], harakiris: int = 0) -> list[Finding]:
    figures = figures_of(replace(window(60, worker(1, 100)), harakiris=harakiris))
    return list(find_missed(replace(figures, objective=judged(*windows))))


def both(slower: float = 0.0, lost: int = 0, waited: float = 0.0, refused: int = 0) -> list[SlowRequests]:
    """The same share of bad requests in five minutes and in an hour; these are numbers of a thousand."""
    return [SlowRequests(seconds, 1000 - lost - refused, slower, lost, waited, refused) for seconds in (300.0, 3600.0)]


@pytest.mark.parametrize(
    ("slow", "severity"), [(10, None), (11, "info"), (59, "info"), (60, "warning"), (143, "warning"), (144, "critical")]
)
def test_how_bad_it_is(slow, severity):
    """From a burn rate of 6 on it is a warning, from 14.4 on critical."""
    assert [finding.severity for finding in found(both(slow))] == ([severity] if severity else [])


def test_a_young_history_warns():
    """Before it began nothing counts as burnt, so it is not critical yet; a burn rate of 6 is a warning as ever."""
    (finding,) = found([SlowRequests(100.0, 1000, 68.0, 0)] * 2)
    assert finding.kind is BURNS
    assert "burn rate 6.8" in finding.evidence


@pytest.mark.parametrize(
    ("missed", "harakiris", "share", "advice"),
    [
        (both(slower=200), 0, "20 %", "threads, interpreters, CPU"),
        (both(waited=900), 0, "90 %", "the finding about the listen queue"),
        (both(lost=61), 0, "6.1 %", "uWSGI's log"),
        (both(lost=61), 3, "6.1 %", "`harakiri` killed 3 workers"),
        (both(refused=500), 0, "50 %", "the full listen queue"),
        (both(slower=100, lost=90), 0, "19 %", "threads, interpreters, CPU"),
        (both(slower=2, lost=90), 0, "9.2 %", "uWSGI's log"),
    ],
)
def test_advice_follows_what_was_missed(missed, harakiris, share, advice):
    """It names what most of the misses were."""
    (finding,) = found(missed, harakiris)
    assert share in finding.evidence
    assert advice in (finding.change if harakiris else first_act(finding.change))
