"""A full queue, or busy threads with a queue, cut demand off: what-if then promises a throughput, and no time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from uwsgi_headroom.analysis.what_if.measured import Measured, Observed, Setting
from uwsgi_headroom.analysis.what_if.predict import predict_settings
from uwsgi_headroom.documents.what_if import build_what_if

WAITING = Setting(2, 8)


def measured(window: Observed, peak: Observed | None = None) -> Measured:
    """2x4 with requests that sleep 200 ms."""
    return Measured(
        setting=Setting(2, 4), cpus=2.0, window=window, peak=peak, cpu_per_request=0.0, waits={"sleep": 0.2}
    )


FULL = Observed(throughput=40.0, response_time=0.2, concurrency=8.0, offered_at_least=48.9, requests=2400)
CALM = Observed(throughput=20.0, response_time=0.2, concurrency=4.0, requests=1200)


@pytest.mark.parametrize(("window", "peak"), [(FULL, None), (FULL, CALM), (CALM, FULL)])
def test_no_time_is_promised_at_a_load_that_was_cut_off(window: Observed, peak: Observed | None) -> None:
    """Neither if the window was full nor if the peak was: the most throughput is all that is known."""
    result = predict_settings(measured(window, peak), [WAITING])
    (prediction,) = result.predictions
    assert prediction.most_throughput == pytest.approx(80, rel=0.02)
    for at in prediction.at:
        assert (at.sustained, at.response_time, at.queue_wait, at.total_time) == (True, None, None, None)
    assert "but more may have arrived" in result.cautions[0]
    assert "at least 49 requests at once for 8 threads" in result.cautions[0]
    assert build_what_if("shop", 0.0, 60.0, result).peak_is_floor is True


def test_a_load_beyond_the_most_is_still_not_sustained() -> None:
    """The present setting does not serve what it was offered: that needs no time."""
    result = predict_settings(measured(FULL), [])
    assert [at.sustained for at in result.today.at] == [False, False]


def test_where_all_was_served_times_are_predicted() -> None:
    """And no caution speaks of demand."""
    result = predict_settings(measured(CALM), [WAITING])
    assert all(at.total_time == pytest.approx(0.2, rel=0.05) for at in result.predictions[0].at)
    assert not any("asked for" in caution for caution in result.cautions)
    assert build_what_if("shop", 0.0, 60.0, result).peak_is_floor is False


def test_a_floor_of_unknown_size_has_no_number() -> None:
    """A queue was full, but the busy threads are not known."""
    result = predict_settings(measured(replace(FULL, offered_at_least=0.0)), [WAITING])
    assert "a listen queue was full. So it is not known" in result.cautions[0]
