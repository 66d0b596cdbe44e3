"""What requests spend their time on, from windows with known true figures."""

import pytest
from msgspec.structs import replace

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import compute_workers
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits, is_contended
from uwsgi_headroom.history.window import WaitWindow, WorkerWindow


def waits_of(one: WorkerWindow, waits: WaitWindow | None, **beside: float) -> WaitFigures | None:
    """The figures of ten seconds of a worker. beside: threads that are `stuck`, or whose requests are `old`."""
    of = replace(window(10, one), waits=waits)
    return compute_waits(of, compute_flow(of), **beside)


def seen(disagreement: float = 0.0, **seconds: float) -> WaitWindow:
    return WaitWindow(10, disagreement, seconds, {})


WAITS = WaitWindow(10, 5, {"cpu": 10.0, "backend": 30.0}, {"pg": 20.0, "b": 0.0})
"""One thread that computes and three that wait for a backend, two of them for pg."""


def test_threads_and_seconds_per_request():
    """Three threads in a state at ten requests a second are 0.3 seconds of each request."""
    found = waits_of(worker(1, 100, each=0.4), WAITS)
    assert found.threads == {"cpu": 1, "backend": 3}
    backends = [(each.name, each.threads, each.per_request) for each in found.backends]
    assert backends == [("pg", 2, pytest.approx(0.2)), ("b", 0, 0)]
    assert (found.total, found.disagreement) == (4, 0.5)
    assert [found.share(state) for state in ("backend", "cpu", "sleep")] == [0.75, 0.25, 0]


@pytest.mark.parametrize("stuck", [0.0, 1.0, 2.5, 3.0, 3.9])
@pytest.mark.parametrize("static", [0, 50])
def test_the_parts_add_up_to_the_mean_response_time(stuck, static):
    """Also with static files, and beside stuck requests: the mean is uWSGI's own."""
    found = waits_of(worker(1, 100, each=0.1, static=static), WAITS, stuck=stuck)
    assert sum(found.per_request.values()) == pytest.approx(0.1)
    assert (found.total, found.stuck) == (4, stuck)


@pytest.mark.parametrize(
    ("one", "waits", "beside", "lasting", "per_request"),
    [
        (worker(1, 100, each=0.4), WAITS, {}, 0, {"cpu": 0.1, "backend": 0.3}),
        (worker(1, 100, each=None), WAITS, {}, 0, {"cpu": 0.1, "backend": 0.3}),  # running time is not known
        (worker(1, 0), WAITS, {}, 4, None),
        # A hundredth of a thread was for the only request that uWSGI times.
        (worker(1, 100, each=0.1, static=99), WAITS, {}, 3.99, None),
        # Stuck threads are not in a mean request; their most likely state is that of most threads.
        (worker(1, 100, each=0.1), WAITS, {"stuck": 3.0}, 3, {"cpu": 0.1, "backend": 0}),
        (worker(1, 100, each=0.1), WAITS, {"stuck": 9.0}, 4, None),
        # Long polls: ten threads wait, and those that were completed occupied half a thread, and slept.
        (worker(1, 100, each=0.05), seen(lock=100.0, sleep=5.0), {}, 10, {"lock": 0, "sleep": 0.05}),
        # WebSockets lend their state to no request. A hundredth of the threads' time says nothing of what others do.
        (worker(1, 30, each=0.05), seen(client=140.0, sleep=1.5), {"old": 14}, 14, None),
        (worker(1, 300, each=0.05), seen(client=140.0, sleep=15.0), {"old": 14}, 14, {"client": 0, "sleep": 0.05}),
        # Half a thread by Little's law, 0.3 in the samples.
        (worker(1, 100, each=0.05), seen(client=40.0, sleep=3.0), {"old": 4}, 4, {"client": 0, "sleep": 0.05}),
    ],
)
def test_what_a_mean_request_does(one, waits, beside, lasting, per_request):
    """Threads that hold requests which do not end are beside it, and where too little is left, nothing is said."""
    found = waits_of(one, waits, **beside)
    assert (found.lasting, found.stuck) == pytest.approx((lasting, min(4, beside.get("stuck", 0))))
    assert found.per_request == (per_request and pytest.approx(per_request))


@pytest.mark.parametrize(("old", "slept"), [(0, 0.025), (2, 0.05), (9, 0.05)])
def test_a_few_websockets_beside_many_requests(old, slept):
    """Two threads whose requests were in service all the time are two of four; more than Little's law has room for do
    not count. Without such requests, the same threads may be those of requests that end after the window."""
    found = waits_of(worker(1, 400, each=0.05), seen(client=20.0, sleep=19.0), old=old)
    assert found.per_request["sleep"] == pytest.approx(slept, rel=0.06)


@pytest.mark.parametrize(("lost", "is_known"), [(0, True), (4, True), (30, False)])
def test_requests_that_are_lost_hide_what_others_do(lost, is_known):
    """Where workers end all the time, most threads serve what is lost, or start: the rest says nothing of a request."""
    found = waits_of(worker(1, 100, each=0.05, lost=lost), seen(20.0, sleep=25.0, cpu=15.0))
    assert (found.per_request is not None) == is_known


def test_only_sampled_time_counts():
    """With gaps, threads are per second that was sampled; the sum stays the concurrency."""
    found = waits_of(worker(1, 100, each=0.4), replace(WAITS, observed_seconds=5))
    assert (found.threads, found.total) == ({"cpu": 2, "backend": 6}, 8)


def test_nothing_in_service_and_nothing_known():
    """An idle server has no states and a share of 0; an unknown one has no figures."""
    found = waits_of(worker(1, 0), seen())
    assert (found.threads, found.total, found.share("cpu")) == ({}, 0, 0)
    assert waits_of(worker(1, 100), None) is None


@pytest.mark.parametrize(
    ("cpu", "busy", "lock", "contended"),
    [
        (None, 90, 60.0, True),  # a worker of unknown interpreter load counts as one without load
        (57.0, 90, 60.0, None),
        # 1.95 CPUs are not used by one interpreter, unless a thread always waits for its lock.
        (117.0, 360, 42.0, False),
        (117.0, 360, 66.0, True),
        (57.0, 360, 42.0, True),
    ],
)
def test_a_contended_interpreter_lock(cpu, busy, lock, contended):
    """As many requests in service wait for it as the CPU time of the worker shows."""
    row = worker(1, 100, cpu=cpu, busy=busy, lock=lock)
    found = compute_workers(window(60, row, waits={"interpreter_lock": lock / 60}))[0]
    assert is_contended(found) is contended
