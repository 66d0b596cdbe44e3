"""The closed form agrees with queueing theory where that is exact, and with a simulation of requests elsewhere."""

import random
from itertools import pairwise
from statistics import fmean

import pytest

from tests.analysis.closed_form_errors import compare, draw, summarize
from tests.analysis.request_simulation import SWITCH_SECONDS, Simulation, System, Work, exponential_factors
from uwsgi_headroom.analysis.repairman import Model, find_times, flow_equivalent
from uwsgi_headroom.analysis.usable import erlang_wait


def closed_throughput(customers: int, demand: float, delay: float, servers: float = 1.0) -> float:
    """Cycles per second of so many customers that alternate between servers (seconds `demand`) and a delay."""
    probabilities = [1.0]  # of 0, 1, ... customers at the servers
    throughput = 0.0
    for present in range(1, customers + 1):
        likely = list(enumerate(probabilities, 1))
        throughput = present / (delay + demand * sum(number / min(number, servers) * each for number, each in likely))
        rest = [throughput * demand / min(number, servers) * each for number, each in likely]
        probabilities = [max(0.0, 1 - sum(rest)), *rest]
    return throughput


EXPONENTIAL = exponential_factors()


@pytest.mark.parametrize("threads", [1, 2, 4, 12])
def test_one_interpreter(threads):
    """One worker with enough CPUs is the machine repairman: exact with any number of requests."""
    chain = flow_equivalent(Model(0.2, 0.6, 8.0), 1, threads)
    assert [served for served, _ in chain] == pytest.approx(
        [closed_throughput(number, 0.2, 0.6) for number in range(1, threads + 1)]
    )


@pytest.mark.parametrize("cpus", [0.5, 1, 2, 4, 8])
def test_workers_with_one_thread_share_the_cpus(cpus):
    """Eight single-threaded workers and c CPUs are a station of c servers and a delay."""
    exact = closed_throughput(8, 0.2, 0.3, cpus)
    assert flow_equivalent(Model(0.2, 0.3, cpus), 8, 1)[-1][0] == pytest.approx(exact, rel=0.04)


@pytest.mark.parametrize(("servers", "rate"), [(1, 5), (1, 8), (4, 20), (4, 32), (16, 140)])
def test_the_listen_queue(servers, rate):
    """Single-threaded workers with a CPU each are M/M/c: the wait is Erlang's."""
    times = find_times(flow_equivalent(Model(0.1, 0.0, float(servers)), servers, 1), rate)
    assert times.service == pytest.approx(0.1)
    assert times.queue_wait == pytest.approx(erlang_wait(servers, 0.1 * rate, 0.1))


def test_requests_that_do_not_vary_wait_half_as_long():
    """In the queue of one thread (Pollaczek and Khinchine)."""
    chain = flow_equivalent(Model(0.1, 0.0, 1.0), 1, 1)
    assert find_times(chain, 7.0, spread=0.0).queue_wait == pytest.approx(find_times(chain, 7.0).queue_wait / 2)


@pytest.mark.parametrize("workers", [1, 4, 32])
def test_processor_sharing(workers):
    """Requests that only compute share one CPU as in M/M/1: s / (1 - utilization), with any number of workers."""
    times = find_times(flow_equivalent(Model(0.1, 0.0, 1.0), workers, 64 // workers), 7.0)
    assert times.service + times.queue_wait == pytest.approx(0.1 / 0.3, rel=0.03)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_lock_of_the_application_is_one_more_server(*, is_shared):
    """It permits no more than one request at a time, of each worker or of all."""
    model = Model(0.001, 0.02, 8.0, serial=0.01, serial_is_shared=is_shared)
    locks = 1 if is_shared else 4
    served = [each for each, _ in flow_equivalent(model, 4, 16)]
    assert all(more > 0.999 * less for less, more in pairwise(served))
    assert 0.97 * locks / 0.01 < served[-1] <= locks / 0.01
    assert served[0] == pytest.approx(1 / 0.031, rel=0.01)


def test_the_largest_setting_has_finite_figures():
    """64x64 and 4x1024, near their most throughput."""
    for processes, threads in ((64, 64), (4, 1024), (1024, 4)):
        chain = flow_equivalent(Model(0.002, 0.5, 2.0), processes, threads)
        assert len(chain) == 4096
        times = find_times(chain, 0.9 * chain[-1][0])
        assert 0.5 < times.service < 5.0
        assert times.queue_wait >= 0


def test_the_closed_form_is_close_to_the_simulation():
    """Over servers drawn by a seed. Bounds: those of 300 servers by `python3 -m tests.analysis.closed_form_errors 300`,
    with room for the noise of the shorter runs here."""
    chance = random.Random(51)
    found = summarize(compare(*draw(chance), 1200) for _ in range(16))
    _, middle, most, largest, _ = found["most throughput"]
    assert (middle < 0.01, most < 0.06, largest < 0.13) == (True, True, True), found
    for name in ("time in service at 50%", "time with queue at 50%", "time in service at 80%"):
        bias, middle, most, largest, _ = found[name]
        assert (abs(bias) < 0.05, middle < 0.04, most < 0.25, largest < 0.75) == (True, True, True, True), (name, found)


def test_the_simulation_has_the_throughput_of_mean_value_analysis():
    """The oracle itself: one interpreter lock, and CPUs that single-threaded workers share."""
    work = Work(locked=0.2, unlocked=0.0, waiting=0.6, factors=EXPONENTIAL)
    full = Simulation(System(processes=1, threads=4, cpus=8), work, 1).run(3000, warm_up=700)
    assert full.throughput == pytest.approx(closed_throughput(4, 0.2, 0.6), rel=0.03)
    work = Work(locked=0.2, unlocked=0.0, waiting=0.3, factors=EXPONENTIAL)
    full = Simulation(System(processes=8, threads=1, cpus=2), work, 1).run(4000, warm_up=1000)
    assert full.throughput == pytest.approx(closed_throughput(8, 0.2, 0.3, 2), rel=0.03)


def test_the_simulation_has_erlangs_queue():
    """The oracle itself: intervals and service times from decks vary a little less than independent ones."""
    work = Work(locked=0.1, unlocked=0.0, waiting=0.0, factors=EXPONENTIAL)
    outcome = Simulation(System(processes=4, threads=1, cpus=4), work, 1).run(16_000, 32, warm_up=4000)
    exact = 0.1 + erlang_wait(4, 3.2, 0.1)
    assert fmean(outcome.service) == pytest.approx(0.1, rel=0.02)
    assert 0.9 * exact <= fmean(outcome.total) <= 1.05 * exact


def test_a_lock_is_passed_on_after_the_switch_interval():
    """The oracle itself: a request that only needs the lock for a moment waits for one interval of another at most."""
    work = Work(locked=1.0, unlocked=0.0, waiting=0.0, factors=(0.002, 1.998))
    outcome = Simulation(System(processes=1, threads=2, cpus=2), work, 1).run(40)
    assert min(outcome.service) <= 0.002 + 1.0 / 8 + SWITCH_SECONDS
