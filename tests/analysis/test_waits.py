"""What requests spend their time on, and the findings about it."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.analysis.judging import by_code, describe, figures_of
from tests.analysis.simulated_backend import Backend, constant, run, wave
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import compute_workers
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.findings import waits as wait_rows
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits, is_contended
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, measure_server
from uwsgi_headroom.history.window import WaitWindow, Window, WorkerWindow
from uwsgi_headroom.record import State, Waits
from uwsgi_headroom.words.formats import rate


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
        (57.0, 360, 0.0, False),
    ],
)
def test_a_contended_interpreter_lock(cpu, busy, lock, contended):
    """As many requests in service wait for it as the CPU time of the worker shows."""
    row = worker(1, 100, cpu=cpu, busy=busy, lock=lock)
    found = compute_workers(window(60, row, waits={"interpreter_lock": lock / 60}))[0]
    assert is_contended(found) is contended
    # Where requests compute under a lock of the application, they wait for that one.
    behind = replace(found, lock_waited=0.7)
    assert is_contended(behind) is (False if cpu == 117.0 and not contended else None)


CODES = {
    "slow_clients",
    "application_lock",
    "interpreter_lock_held",
    "backend_saturated",
    "waits_for_backend",
    "computes_outside_the_lock",
}

States = Mapping[State, float]


def of_16_threads(
    waits: States, *, cpu: float = 0.1, lock: float = 0.0, backends: Mapping[str, float] | None = None
) -> Window:
    """A minute of a 2x8 with 20 requests per second in each worker. cpu: of each worker; lock: threads of each that
    wait for its interpreter lock."""
    busy = sum(waits.values()) / 2
    rows = [worker(number, 1200, each=busy / 20, cpu=60 * cpu, busy=60 * busy, lock=60 * lock) for number in (1, 2)]
    return window(60, *rows, waits=waits, backends=backends)


def the_server(**more: object) -> Server:
    return Server(processes=2, threads=8, cpus=8.0, **more)


FOUND = run(Backend(constant(0.05), servers=2), wave(12, 52, 10), 120, 1).find_saturation()


def test_a_saturated_backend():
    """It is named with its address, as the cause of the waiting; neither threads nor processes are advised."""
    record = describe(the_server(), waits=Waits(addresses={"postgres": "10.0.0.5:5432"}))
    states: States = {"backend": 15.5, "cpu": 0.3}
    figures, nameless = (
        figures_of(replace(of_16_threads(states, backends=backends), queue_seconds={"web": 600.0}), record)
        for backends in ({"postgres": 15.5}, None)
    )
    assert [finding.code for finding in collect_findings(figures)] == ["waits_for_backend"]
    saturated = replace(figures, saturation=replace(FOUND, name="postgres"))
    block, *_ = collect_findings(saturated)
    assert (block.kind, block.settings) == (wait_rows.SATURATED, ())
    assert "postgres at 10.0.0.5:5432" in block.title
    assert rate(FOUND.high) in block.change
    with pytest.raises(CannotPredictError, match=r"^The backend postgres is saturated: in any other"):
        measure_server(saturated)
    unnamed, *_ = collect_findings(replace(nameless, saturation=FOUND))
    bursts, *_ = collect_findings(replace(figures, saturation=replace(FOUND, many=7.9)))
    assert unnamed.kind is bursts.kind is wait_rows.SATURATED
    assert "`--backends`" in unnamed.change
    assert rate(FOUND.high) not in bursts.change


def test_a_saturated_backend_while_threads_are_free():
    """It is good to know if it filled most threads at times; short bursts are not, until requests wait."""
    figures = figures_of(of_16_threads({"backend": 5.0}), the_server())
    first, *_ = collect_findings(replace(figures, saturation=FOUND))
    assert (first.code, first.severity) == ("backend_saturated", "info")
    assert not CODES & by_code(collect_findings(replace(figures, saturation=replace(FOUND, many=7.9)))).keys()


@pytest.mark.parametrize(("connected", "room"), [(10.0, 1.0), (8.0, 1.25)])
def test_a_pool_is_a_limit(connected, room):
    """Of two workers, each with five connections, so many are in use."""
    record = describe(the_server(), waits=Waits(pools={1: 5, 2: 5}))
    headroom = figures_of(of_16_threads({"lock": 4.0, "backend": connected}), record).headroom
    assert (headroom.first, headroom.by_limit["lock"]) == ("lock", pytest.approx(room))


BUSY = of_16_threads({"lock": 8.0})


def test_what_if_knows_nothing_of_other_threads():
    """How much they do at once, in another setting, is not known; that of a lock that is known is."""
    figures = figures_of(BUSY, the_server())
    with pytest.raises(CannotPredictError, match=r"^Requests wait for a lock, or for threads that serve no request:"):
        measure_server(figures)
    lock = LockFigures("worker", 0.02, 0.8, 0.8, 50.0, 50.0, 50.0)
    assert measure_server(replace(figures, lock=lock)).lock == lock
