"""Workers that share the requests unevenly: the present setting is predicted as it is, others with even workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import compute_balance
from uwsgi_headroom.analysis.what_if.measured import Measured, Observed, Setting, find_uneven_shares
from uwsgi_headroom.analysis.what_if.predict import predict_settings

EVEN = Measured(
    setting=Setting(4, 8),
    cpus=4.0,
    window=Observed(throughput=50.0, response_time=0.26, concurrency=13.0),
    cpu_per_request=0.04,
    waits={"backend": 0.18, "cpu": 0.04, "interpreter_lock": 0.04},
)


def test_the_present_setting_has_its_shares() -> None:
    """It is slower than with even workers; another setting is the same, and a sentence says which is which."""
    even = predict_settings(EVEN, [Setting(8, 4)], (1.0,))
    uneven = predict_settings(replace(EVEN, shares=(0.55, 0.15, 0.15, 0.15)), [Setting(8, 4)], (1.0,))
    times = [found.today.at[0].response_time or 0.0 for found in (even, uneven)]
    assert times[1] > 1.03 * times[0]
    others = [found.predictions[0].at[0].response_time for found in (even, uneven)]
    assert others[1] == pytest.approx(others[0], rel=0.03)
    assert not any("One worker takes" in sentence for sentence in even.cautions)
    assert any("One worker takes 55 % of the requests." in sentence for sentence in uneven.cautions)


@pytest.mark.parametrize(
    ("requests", "shares"),
    [
        ((4300, 1900, 1900, 1900), (0.43, 0.19, 0.19, 0.19)),
        ((2530, 2490, 2490, 2490), ()),
        ((10, 0, 0, 0), (1.0, 0.0, 0.0, 0.0)),
    ],
)
def test_only_shares_beyond_chance_count(requests: tuple[int, ...], shares: tuple[float, ...]) -> None:
    """Differences that chance explains are none."""
    workers = [worker(number, count) for number, count in enumerate(requests, 1)]
    assert find_uneven_shares(compute_balance(window(60.0, *workers))) == pytest.approx(shares)


def test_shares_of_workers_that_come_and_go() -> None:
    """With cheaper mode, workers have small shares because they were up for a part of the time."""
    workers = [worker(1, 4000, up=60.0), worker(2, 4000, up=60.0), worker(3, 500, up=10.0)]
    assert find_uneven_shares(compute_balance(window(60.0, *workers))) == ()
