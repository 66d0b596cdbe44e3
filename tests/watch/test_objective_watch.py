"""An objective from the batches of the last hour: judged as of the last batch, its load limit once a minute."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.objective import LoadLimit, ObjectiveFigures
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.estimator import Division
from uwsgi_headroom.response_times.totals import BatchHistory, Misses
from uwsgi_headroom.watch.judging import ObjectiveWatch

SLO = Slo(1.0, 0.99)
BINS = Bins((SLO.threshold,))


def flow(throughput: float, queue_wait: float | None = 0.0) -> Flow:
    return Flow(
        requests=1,
        throughput=throughput,
        response_time=0.1,
        littles_law=1.0,
        observed=1.0,
        queue_wait=queue_wait,
        queue_length=0.0,
    )


def add(history: BatchHistory, at: float, requests: int, slow: int) -> None:
    """Adds a batch of 5 s that ends at `at`."""
    counts = [0.0] * len(BINS)
    counts[BINS.find(0.1)], counts[BINS.find(3.0)] = float(requests - slow), float(slow)
    history.add(at, 5.0, 0.2, requests, 0, Division(counts, [0.0] * len(BINS)), Misses(requests, slow))


def judge(watch: ObjectiveWatch, now: Flow, *, threads_known: bool = True) -> ObjectiveFigures:
    return watch.judge(now, 0.2, threads_known=threads_known)


def test_without_data_it_is_not_judged() -> None:
    """Before the first batch, and with stats-no-cores even if there are earlier ones, which is the reason then."""
    history = BatchHistory(BINS)
    young = judge(ObjectiveWatch(SLO, history), flow(1.0))
    add(history, 10.0, 500, 0)
    hidden = judge(ObjectiveWatch(SLO, history), flow(1.0), threads_known=False)
    assert (young.unjudged, young.windows, young.level) == ("not judged yet", (), None)
    assert hidden.unjudged is not None
    assert "stats-no-cores" in hidden.unjudged
    assert hidden.windows == ()


def test_windows_end_with_the_last_batch() -> None:
    """The last five minutes and the last hour are judged, as soon as another batch has ended."""
    history = BatchHistory(BINS)
    watch = ObjectiveWatch(SLO, history)
    for place in range(1, 721):
        add(history, 1000.0 + 5 * place, 10, 1 if place > 660 else 0)
    figures = judge(watch, flow(2.0))
    assert [(burn.seconds, burn.requests, burn.slow) for burn in figures.windows] == [(300, 600, 60), (3600, 7200, 60)]
    assert [burn.rate for burn in figures.windows] == [pytest.approx(10), pytest.approx(10 / 12)]
    add(history, 4605.0, 10, 10)
    later = judge(watch, flow(2.0))
    assert [burn.slow for burn in later.windows] == [69, 70]


def test_the_wait_of_the_window_changes_nothing() -> None:
    """The count of each batch has the wait of its own time."""
    history = BatchHistory(BINS)
    add(history, 10.0, 500, 0)
    watch = ObjectiveWatch(SLO, history)
    judged, waiting = judge(watch, flow(2.0)), judge(watch, flow(2.0, queue_wait=3.0))
    assert judged.unjudged is None
    assert waiting == judged


def test_load_limit_of_the_last_hour() -> None:
    """Load that grew from 10 to 21 requests a second within the hour, and was slow from 18 on, has a limit between."""
    history = BatchHistory(BINS)
    for place in range(1, 721):
        minute = (place - 1) // 12
        load = 10 + minute // 5
        add(history, 5.0 * place, 5 * load, load if load >= 18 else 0)
    watch = ObjectiveWatch(SLO, history)
    figures = judge(watch, flow(10.0))
    assert isinstance(figures.load_limit, LoadLimit)
    assert figures.load_limit.reached
    assert 1.6 < figures.load_limit.multiple < 1.9
