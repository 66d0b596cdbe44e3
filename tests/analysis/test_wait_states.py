"""What requests spend their time on, from windows with known true figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import compute_balance
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits, is_contended
from uwsgi_headroom.history.window import WaitWindow


def figures(requests: int, waits: WaitWindow | None) -> WaitFigures | None:
    of = replace(window(10, worker(1, requests)), waits=waits)
    return compute_waits(of, compute_flow(of))


WAITS = WaitWindow(
    observed_seconds=10, disagreement_seconds=5, seconds={"cpu": 10.0, "backend": 30.0}, backends={"pg": 20.0, "b": 0.0}
)


def test_threads_and_seconds_per_request() -> None:
    """Three threads in a state at ten requests a second are 0.3 seconds of each request."""
    result = figures(100, WAITS)
    assert result
    assert result.threads == {"cpu": 1, "backend": 3}
    assert result.per_request == {"cpu": pytest.approx(0.1), "backend": pytest.approx(0.3)}
    assert (result.backends, result.backends_per_request) == ({"pg": 2, "b": 0}, {"pg": pytest.approx(0.2), "b": 0})
    assert (result.total, result.disagreement) == (4, 0.5)
    assert [result.share(state) for state in ("backend", "cpu", "sleep")] == [0.75, 0.25, 0]  # type: ignore[arg-type]


def test_only_sampled_time_counts() -> None:
    """With gaps, threads are per second that was sampled; the sum stays the concurrency."""
    result = figures(100, replace(WAITS, observed_seconds=5))
    assert result
    assert result.threads == {"cpu": 2, "backend": 6}
    assert result.total == 8


def test_nothing_served() -> None:
    """Without completed requests there are threads, but no time per request."""
    result = figures(0, WAITS)
    assert result
    assert (result.total, result.per_request, result.backends_per_request) == (4, None, None)


def test_nothing_in_service_and_nothing_known() -> None:
    """An idle server has no states and a share of 0; an unknown one has no figures."""
    idle = figures(0, WaitWindow(10, 0, {}, {}))
    assert idle
    assert (idle.threads, idle.total, idle.share("cpu")) == ({}, 0, 0)
    assert figures(100, None) is None


def test_a_lock_is_contended_although_the_cpu_is_hidden() -> None:
    """A worker of unknown interpreter load counts as one without load: its 1.5 requests in service are enough to tell
    that one of them waits for the lock."""
    rows = (worker(1, 100, cpu=cpu, busy=90, lock=60) for cpu in (None, 57.0))
    hidden, loaded = (compute_balance(window(60, row, waits={"interpreter_lock": 1.0})).workers[0] for row in rows)
    assert is_contended(hidden) is True
    assert is_contended(loaded) is None
