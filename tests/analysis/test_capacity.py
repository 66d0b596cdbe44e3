"""Headroom by limit, and which limit comes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.windows import the_example, window, worker
from uwsgi_headroom.analysis.balance import compute_balance
from uwsgi_headroom.analysis.capacity import LEAST_LOAD, LIMITS, Headroom, Load, compute_headroom, compute_shares
from uwsgi_headroom.analysis.demand import SocketDemand
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.history.window import Window

BOTH = ("hottest_interpreter", "interpreters")
ALWAYS = [limit for limit in LIMITS if limit != "lock"]
"""The limits that every server has."""


def headroom_of(of: Window, threads: int | None = 32, cpus: float | None = 8.0, **more: object) -> Headroom:
    flow, balance, cpu = compute_flow(of), compute_balance(of), compute_shares(of.cpu)
    return compute_headroom(Load(flow=flow, balance=balance, threads=threads, cpus=cpus, cpu=cpu, **more))


def test_one_hot_worker_of_four():
    """The hottest interpreter has no room, while threads and CPUs could take twice the load: it is the first limit, and
    the interpreters are the ceiling."""
    result = headroom_of(the_example())
    used = 27.8 * 0.0833
    expected = {"hottest_interpreter": 1.0, "interpreters": 4 / used, "threads": 32 / 14, "cpu": 8 / used}
    assert result.by_limit == pytest.approx(expected, abs=0.01)
    assert (result.first, result.ceiling) == ("hottest_interpreter", "interpreters")
    assert result.factor == result.by_limit["hottest_interpreter"]


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


@pytest.mark.parametrize(("part", "there"), [(LEAST_LOAD * 0.99, False), (LEAST_LOAD * 1.01, True), (0.0, False)])
def test_hardly_used_limits_are_absent(part, there):
    """The headroom of a resource with a utilization below a hundredth is noise, and that of an idle one is infinite."""
    result = headroom_of(window(60, worker(1, 10, cpu=60 * part, busy=60 * 8 * part)), threads=8, cpus=1.0)
    assert set(result.by_limit) == (set(ALWAYS) if there else set())


MAPPED = (SocketDemand("a.sock", (1,), 4, 3.9, 4.2, True), SocketDemand("b.sock", (2,), 4, 1.0, 0.0, False))


def test_a_worker_with_a_socket_of_its_own_has_its_own_threads_as_limit():
    """All threads of the first worker are busy. Those of the other one are free, and serve none of its requests."""
    rows = window(60, worker(1, 2400, cpu=6.0, busy=60 * 3.9), worker(2, 600, cpu=6.0, busy=60.0))
    shared, mapped, unknown = (
        headroom_of(rows, threads, cpus, by_socket=sockets)
        for threads, cpus, sockets in ((8, 2.0, ()), (8, 2.0, MAPPED), (None, None, MAPPED))
    )
    limits = [each.by_limit["threads"] for each in (shared, mapped, unknown)]
    assert limits == pytest.approx([8 / 4.9, 4 / 3.9, 4 / 3.9])
    assert (mapped.first, mapped.factor) == ("threads", limits[1])


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


@pytest.mark.parametrize(
    ("one", "threads", "factor", "first"),
    [
        (worker(1, 0, cpu=0.0, busy=480.0), 8, 1.0, "threads"),  # stuck requests hold all threads: it is reached
        (worker(1, 1, cpu=0.01, busy=0.1), 32, None, None),  # a single request is a load, which is next to nothing
        (worker(1, 10, cpu=90.0, busy=600.0), 8, 1 / 1.5, "cpu"),  # more is in use than the capacity
    ],
)
def test_the_ends_of_the_scale(one, threads, factor, first):
    """Requests are known, however few, and a factor below 1 shows by how much a limit is exceeded."""
    result = headroom_of(window(60, one), threads, cpus=1.0)
    assert (result.factor, result.first, result.no_requests) == (factor and pytest.approx(factor), first, False)


def room(own: float, idle: float, others: float | None, follow: bool | None = None) -> Headroom:
    """The CPU headroom beside other programs, of a server that may use 2 CPUs."""
    of = window(60, worker(1, 300, cpu=60 * own), cpu=(own, idle, others))
    return headroom_of(of, None, 2.0, others_follow=follow)


@pytest.mark.parametrize(
    ("own", "idle", "others", "follow", "factor"),
    [
        # Beside a busy loop on each CPU there is no headroom; alone, the server can use all its CPUs.
        (0.15, 0.0, 1.85, None, 1.0),
        (0.15, 0.85, 1.0, None, 1.0 / 0.15),
        (0.15, 1.85, 0.0, None, 2 / 0.15),
        # A proxy that uses as much CPU as the server, and grows with it, halves the headroom.
        (0.25, 1.5, 0.25, False, 7),
        (0.25, 1.5, 0.25, True, 4),
        (0.25, 1.5, None, True, 7),
        # If hardly any CPU is idle, a server gets a twentieth of them from the others, and more if more is idle.
        (0.005, 0.0, 1.995, None, 20),
        (0.1, 0.0, 1.9, None, 1),
        (0.2, 0.1, 1.7, None, 1.5),
        (0.005, 0.1, 1.895, None, 21),
        # If much is idle, the factor is noise.
        (0.005, 1.0, 0.995, None, None),
        (0.0, 0.0, 2.0, None, None),
        (0.0, 0.5, 1.5, True, None),
    ],
)
def test_cpus_beside_others(own, idle, others, follow, factor):
    """Programs that stay leave the idle CPUs, and programs that follow the load take their part of them."""
    assert room(own, idle, others, follow).by_limit.get("cpu") == (factor and pytest.approx(factor))
    unknown = headroom_of(window(60, worker(1, 300, cpu=30.0)), cpus=2.0)
    assert unknown.by_limit["cpu"] == pytest.approx(4), "without idle time, the usable CPUs are the server's alone"


cpus = st.floats(0, 64)


@given(cpus, cpus, cpus)
def test_cpu_headroom_is_at_least_reached(own, idle, others):
    """The factor is at least 1, and at most as large if other programs follow as if they stay."""
    stay, follow = (room(own, idle, others, follow).by_limit.get("cpu") for follow in (False, True))
    assert stay is None or stay >= 1
    assert follow is None or follow >= 1
    if stay is not None and own > 0:
        assert follow is not None
        assert follow <= stay * (1 + 1e-9)


@pytest.mark.parametrize(("cpu", "cpus", "bound"), [(60.0, 8.0, False), (0.6, 8.0, False), (None, 8.0, True)])
def test_a_headroom_without_its_cpu_limit_is_an_upper_bound(cpu, cpus, bound):
    """The CPU limit is near, far, or unknown; only the unknown one may come before the limits that are known."""
    result = headroom_of(window(60, worker(1, 300, cpu=cpu, busy=120.0)), cpus=cpus)
    assert ("cpu" in result.by_limit, "cpu" in result.far) == (cpu == 60.0, cpu == 0.6)
    assert result.is_upper_bound is bound


@pytest.mark.parametrize(
    ("hottest", "threads", "first", "unknown"),
    [(0.39, 64, "cpu", ("lock",)), (0.4, 64, "lock", ()), (0.9, 8, "lock", ())],
)
def test_a_lock_that_is_used_enough_is_a_limit(hottest, threads, first, unknown):
    """Below 40 % it is only said that there is one. Once it and the threads are reached, the lock is the cause."""
    use = 0.9 if threads == 8 else 0.35
    rows = window(60, worker(1, 300, cpu=6.0, busy=60 * 7.9), cpu=(0.1, 0.3, 0.1))
    lock = LockFigures("worker", 0.1, use, hottest, limit=5 / use, least_limit=5 / use, most_limit=5 / use)
    result = headroom_of(rows, threads, 2.0, lock=lock)
    assert (result.first, result.unknown) == (first, unknown)
    assert result.by_limit.get("lock") == (None if unknown else pytest.approx(1 / use))


@pytest.mark.parametrize(("cpu", "factor"), [(0.5, None), (60.0, 1.0)])
def test_little_cpu_is_no_idle_server_while_threads_are_not_visible(cpu, factor):
    """Requests that wait for a backend take threads and no CPU. (Seen on a uWSGI with `stats-no-cores`.)"""
    rows = window(60, worker(1, 300, cpu=cpu, busy=120.0))
    result = headroom_of(rows, threads=None)
    assert result.factor == (factor and pytest.approx(factor))
    assert not result.far
    assert result.is_upper_bound
