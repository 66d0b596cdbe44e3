"""Headroom by limit, and which limit comes first."""

import pytest

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import compute_workers
from uwsgi_headroom.analysis.capacity import LIMITS, Headroom, ServerLoad, compute_headroom, compute_shares
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.history.window import Window

BOTH = ("hottest_interpreter", "interpreters")
ALWAYS = [limit for limit in LIMITS if limit != "lock"]
"""The limits that every server has."""


def headroom_of(
    of: Window, threads: int | None = 32, cpus: float | None = 8.0, follow: bool | None = None, **more: object
) -> Headroom:
    flow, workers, cpu = compute_flow(of), compute_workers(of), compute_shares(of.cpu, follow)
    return compute_headroom(ServerLoad(flow=flow, workers=workers, threads=threads, cpus=cpus, cpu=cpu, **more))


@pytest.mark.parametrize(
    ("load", "busy", "own", "others", "first"),
    [
        (0.95, 8.0, 1.9, 0.1, "cpu"),
        (0.95, 8.0, 0.95, 0.0, "interpreters"),
        (0.5, 8.0, 0.5, 0.0, "threads"),
        (0.2, 8.0, 0.2, 1.8, "threads"),
        (0.2, 2.0, 0.2, 1.8, "cpu"),
        (0.95, 7.3, 0.95, 1.0, "interpreters"),
    ],
)
def test_of_several_limits_the_cause_is_first(load, busy, own, others, first):
    """Threads are full because they wait for an interpreter, which waits for a CPU; if others use most of the CPUs, it
    may also be the threads. In both cases the factor is the smallest."""
    rows = window(60, worker(1, 300, cpu=60 * load, busy=60 * busy), cpu=(own, 2.0 - own - others, others))
    result = headroom_of(rows, 8, 2.0)
    assert result.first == first
    assert result.factor == min(result.by_limit.values())


@pytest.mark.parametrize(
    ("loads", "threads", "cpus", "first", "ceiling"),
    [
        ((0.4, 0.4), 20, 8.0, "hottest_interpreter", "interpreters"),
        ((0.4, 0.2), 4, 8.0, "threads", "threads"),
        ((0.4, 0.2), 20, 1.0, "cpu", "cpu"),
        ((0.9, 0.2), 8, 8.0, "hottest_interpreter", "interpreters"),
        ((0.9, 0.2), 5, 8.0, "hottest_interpreter", "threads"),
    ],
)
def test_least_factor_is_first(loads, threads, cpus, first, ceiling):
    """The limit with the smallest factor comes first; the ceiling is the smallest among the limits of throughput."""
    rows = (worker(worker_id, 300, cpu=60 * load, busy=120.0) for worker_id, load in enumerate(loads, 1))
    result = headroom_of(window(60, *rows), threads, cpus)
    assert set(result.by_limit) == set(ALWAYS)
    assert (result.first, result.ceiling) == (first, ceiling)
    assert result.factor == min(result.by_limit.values())


@pytest.mark.parametrize(
    ("workers", "threads", "cpus", "by_limit"),
    [
        ((worker(1, 300, busy=60.0),), 32, 8.0, {"threads": 32}),  # without kernel facts
        ((worker(1, 300, cpu=6.0),), None, None, dict.fromkeys(BOTH, 10)),  # without cores
        ((worker(1, 300),), None, None, {}),
        # The hottest worker is at least as hot as the hottest known one; a sum without one would be too low.
        ((worker(1, 300, cpu=30.0), worker(2, 300)), None, 8.0, {"hottest_interpreter": 2}),
        # Without samples of busy threads, their use is that of Little's law.
        ((worker(1, 300, each=0.4),), 8, None, {"threads": 4}),
        # While all workers start, the headroom of threads is absent, not 0: it says nothing about load.
        ((worker(1, 10, busy=60.0),), 0, None, {}),
        ((worker(1, 10, busy=60.0),), None, None, {}),
        # The interpreter of a worker that cheaper ended adds no capacity.
        (
            (worker(1, 100, cpu=30.0), worker(2, 10, cpu=0.5, up=1.0)),
            None,
            None,
            {"hottest_interpreter": 2, "interpreters": 2},
        ),
    ],
)
def test_limits_of_unknown_use_are_left_out(workers, threads, cpus, by_limit):
    """Without any there is no headroom."""
    result = headroom_of(window(60, *workers), threads, cpus)
    assert result.by_limit == pytest.approx(by_limit)
    assert by_limit or (result.first, result.ceiling, result.factor) == (None, None, None)


@pytest.mark.parametrize(
    ("loads", "waiting", "limits"),
    [
        ((1.5, 1.5), 0.0, {"threads"}),  # as in numpy
        ((0.9, 0.5), 0.0, {"threads"}),  # the other worker of the same application
        ((0.9, 0.5), 1.0, {"threads", *BOTH}),
        ((0.9, 0.5), None, {"threads", *BOTH}),  # not visible
        ((0.8, 0.5), 0.0, {"threads", *BOTH}),  # so few may wait by chance
    ],
)
def test_work_outside_of_the_lock_limits_no_interpreter(loads, waiting, limits):
    """CPU time of requests that do not wait for the interpreter lock does not show when it is full."""
    lock = None if waiting is None else 60 * waiting
    rows = (worker(number, 300, cpu=60 * load, busy=150.0, lock=lock) for number, load in enumerate(loads, 1))
    assert set(headroom_of(window(60, *rows, waits={"backend": 5.0}), 16, None).by_limit) == limits


@pytest.mark.parametrize("shares", [None, (0.5, 1.4, 0.1), (0.0, 0.0, 2.0), (0.0, 2.0, None)])
def test_without_requests_headroom_is_not_known(shares):
    """There is no load that could grow: neither "over 100x" nor what a worker computes without a request says how far.
    CPU is visible all the same."""
    rows = window(60, worker(1, 0, cpu=30.0 if shares else 0.0, busy=0.0), cpu=shares)
    result = headroom_of(rows, 8, 2.0)
    assert result.no_requests
    assert (result.factor, result.first, result.ceiling, result.far, result.by_limit) == (None, None, None, (), {})
    assert set(result.idle) == set(LIMITS) - {"lock"}
    assert not result.is_upper_bound
    hidden = headroom_of(rows, cpus=None)  # as with requests: CPU may run out first
    assert (hidden.is_upper_bound, hidden.no_requests) == (not shares, True)


def room(own: float, idle: float, others: float | None, follow: bool | None = None) -> Headroom:
    """The CPU headroom beside other programs, of a server that may use 2 CPUs."""
    of = window(60, worker(1, 300, cpu=60 * own), cpu=(own, idle, others))
    return headroom_of(of, None, 2.0, follow)


@pytest.mark.parametrize(
    ("own", "idle", "others", "follow", "factor"),
    [
        # Beside a busy loop on each CPU there is no headroom; alone, the server can use all its CPUs.
        (0.15, 0.0, 1.85, None, 1.0),
        (0.15, 0.85, 1.0, None, 1.0 / 0.15),
        # A proxy that uses as much CPU as the server, and grows with it, halves the headroom.
        (0.25, 1.5, 0.25, False, 7),
        (0.25, 1.5, 0.25, True, 4),
        # If hardly any CPU is idle, a server gets a twentieth of them from the others, and more if more is idle.
        (0.005, 0.0, 1.995, None, 20),
        (0.005, 0.1, 1.895, None, 21),
        (0.005, 1.0, 0.995, None, None),  # much is idle: the factor is noise
    ],
)
def test_cpus_beside_others(own, idle, others, follow, factor):
    """Programs that stay leave the idle CPUs, and programs that follow the load take their part of them."""
    assert room(own, idle, others, follow).by_limit.get("cpu") == (factor and pytest.approx(factor))
    unknown = headroom_of(window(60, worker(1, 300, cpu=30.0)), cpus=2.0)
    assert unknown.by_limit["cpu"] == pytest.approx(4), "without idle time, the usable CPUs are the server's alone"


@pytest.mark.parametrize(("cpu", "cpus", "bound"), [(60.0, 8.0, False), (0.6, 8.0, False), (None, 8.0, True)])
def test_a_headroom_without_its_cpu_limit_is_an_upper_bound(cpu, cpus, bound):
    """The CPU limit is near, far, or unknown; only the unknown one may come before the limits that are known."""
    result = headroom_of(window(60, worker(1, 300, cpu=cpu, busy=120.0)), cpus=cpus)
    assert ("cpu" in result.by_limit, "cpu" in result.far) == (cpu == 60.0, cpu == 0.6)
    assert result.is_upper_bound is bound


@pytest.mark.parametrize(("cpu", "factor"), [(0.5, None), (60.0, 1.0)])
def test_little_cpu_is_no_idle_server_while_threads_are_not_visible(cpu, factor):
    """Requests that wait for a backend take threads and no CPU. (Seen on a uWSGI with `stats-no-cores`.)"""
    rows = window(60, worker(1, 300, cpu=cpu, busy=120.0))
    result = headroom_of(rows, threads=None)
    assert result.factor == (factor and pytest.approx(factor))
    assert not result.far
    assert result.is_upper_bound
