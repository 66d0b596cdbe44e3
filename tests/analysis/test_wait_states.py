"""What requests spend their time on, from windows with known true figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import compute_balance
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits, is_contended
from uwsgi_headroom.history.window import WaitWindow
from uwsgi_headroom.record import State


def figures(requests: int, waits: WaitWindow | None) -> WaitFigures | None:
    of = replace(window(10, worker(1, requests, each=0.4)), waits=waits)
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


def known(requests: int, *, each: float | None = 0.1, static: int = 0, stuck: float = 0.0) -> WaitFigures:
    """With one thread that computes and three that wait for a backend, two of them for pg."""
    of = replace(window(10, worker(1, requests, each=each, static=static)), waits=WAITS)
    result = compute_waits(of, compute_flow(of), stuck)
    assert result
    assert result.per_request
    return result


@pytest.mark.parametrize("stuck", [0.0, 1.0, 2.5, 3.0, 3.9])
@pytest.mark.parametrize("static", [0, 50])
def test_the_parts_add_up_to_the_mean_response_time(stuck: float, static: int) -> None:
    """Also with static files, and beside stuck requests: the mean is uWSGI's own."""
    result = known(100, static=static, stuck=stuck)
    assert result.per_request
    assert sum(result.per_request.values()) == pytest.approx(0.1)
    assert (result.total, result.stuck) == (4, stuck)


def test_a_request_beside_many_files() -> None:
    """A hundredth of a thread was for the only request that uWSGI times: what four threads do says nothing of it."""
    of = replace(window(10, worker(1, 100, each=0.1, static=99)), waits=WAITS)
    result = compute_waits(of, compute_flow(of))
    assert result
    assert (result.per_request, result.backends_per_request) == (None, None)


def test_stuck_requests_are_beside_a_mean_request() -> None:
    """Three threads that are stuck are not in it; their most likely state is that of most threads."""
    result = known(100, stuck=3.0)
    assert result.threads == {"cpu": 1, "backend": 3}
    assert result.per_request == {"cpu": pytest.approx(0.1), "backend": 0}
    assert result.backends_per_request == {"pg": 0, "b": 0}


def test_requests_that_last_are_beside_a_mean_request() -> None:
    """Long polls: ten threads wait, and those that were completed occupied half a thread, and slept."""
    row = replace(
        window(10, worker(1, 100, each=0.05)),
        waits=WaitWindow(
            observed_seconds=10, disagreement_seconds=0, seconds={"lock": 100.0, "sleep": 5.0}, backends={}
        ),
    )
    result = compute_waits(row, compute_flow(row))
    assert result
    assert result.threads == {"lock": 10, "sleep": 0.5}
    assert result.per_request == {"lock": 0, "sleep": pytest.approx(0.05)}
    assert (result.stuck, result.lasting) == (0, 10)


@pytest.mark.parametrize(("requests", "parts"), [(30, None), (300, {"client": 0, "sleep": pytest.approx(0.05)})])
def test_websockets_lend_their_state_to_no_request(requests: int, parts: Mapping[State, float] | None) -> None:
    """Fourteen threads wait for clients, whose requests do not end; completed requests sleep for 50 ms. At three a
    second, a hundredth of the threads' time says nothing of what they do; at thirty it does."""
    busy = 0.05 * requests
    row = replace(
        window(10, worker(1, requests, each=0.05)),
        waits=WaitWindow(10, 0, seconds={"client": 140.0, "sleep": busy}, backends={}),
    )
    result = compute_waits(row, compute_flow(row), old=14)
    assert result
    assert result.lasting == pytest.approx(14)
    assert result.per_request == parts


def test_websockets_beside_requests_that_samples_missed() -> None:
    """Half a thread by Little's law, 0.3 in the samples: the four threads that stood all the time lend nothing."""
    row = replace(
        window(10, worker(1, 100, each=0.05)),
        waits=WaitWindow(10, 0, seconds={"client": 40.0, "sleep": 3.0}, backends={}),
    )
    result = compute_waits(row, compute_flow(row), old=4)
    assert result
    assert (result.lasting, result.per_request) == (4, {"client": 0, "sleep": pytest.approx(0.05)})


@pytest.mark.parametrize(("old", "slept"), [(0, 0.025), (2, 0.05), (9, 0.05)])
def test_a_few_websockets_beside_many_requests(old: int, slept: float) -> None:
    """Two threads whose requests were in service all the time are two of four; more than Little's law has room for do
    not count. Without such requests, the same threads may be those of requests that end after the window."""
    row = replace(
        window(10, worker(1, 400, each=0.05)),
        waits=WaitWindow(10, 0, seconds={"client": 20.0, "sleep": 19.0}, backends={}),
    )
    result = compute_waits(row, compute_flow(row), old=old)
    assert result
    assert result.per_request
    assert result.per_request["sleep"] == pytest.approx(slept, rel=0.06)


@pytest.mark.parametrize(("lost", "is_known"), [(0, True), (4, True), (30, False)])
def test_requests_that_are_lost_hide_what_others_do(lost: int, is_known: bool) -> None:
    """Where workers end all the time, most threads serve what is lost, or start: the rest says nothing of a request."""
    each = msgspec.structs.replace(worker(1, 100, each=0.05), lost=lost)
    seconds = {"sleep": 25.0, "cpu": 15.0}
    row = replace(window(10, each), waits=WaitWindow(10, 20, seconds=seconds, backends={}))
    result = compute_waits(row, compute_flow(row))
    assert result
    assert (result.per_request is not None) == is_known


def test_everything_is_stuck() -> None:
    """What was completed before is too little to be seen: nothing says what it spent its time on."""
    of = replace(window(10, worker(1, 100, each=0.1)), waits=WAITS)
    result = compute_waits(of, compute_flow(of), 9.0)
    assert result
    assert (result.stuck, result.lasting) == (4, 4)
    assert (result.per_request, result.backends_per_request) == (None, None)


def test_running_time_is_not_known() -> None:
    """A thread at ten requests a second is 0.1 s of each."""
    assert known(100, each=None).per_request == {"cpu": pytest.approx(0.1), "backend": pytest.approx(0.3)}


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


@pytest.mark.parametrize(("cpu", "lock", "contended"), [(117.0, 42.0, False), (117.0, 66.0, True), (57.0, 42.0, True)])
def test_more_than_one_cpu_is_not_the_interpreter_alone(cpu: float, lock: float, contended: bool) -> None:
    """1.95 CPUs are not used by one interpreter: that 0.7 of six threads wait for its lock on full CPUs does not make
    it the limit, while a thread that always waits does."""
    row = worker(1, 100, cpu=cpu, busy=360, lock=lock)
    found = compute_balance(window(60, row, waits={"interpreter_lock": lock / 60})).workers[0]
    assert is_contended(found) is contended
