"""The simulation agrees with queueing theory, where that has exact results."""

from __future__ import annotations

from math import factorial

import pytest

from tests.support.mean_value_analysis import closed_throughput, closed_throughput_of_servers
from uwsgi_headroom.analysis.what_if.runs import mean
from uwsgi_headroom.analysis.what_if.simulation import Outcome, Simulation, System, Work, exponential_factors

EXPONENTIAL = exponential_factors()


def _run(system: System, work: Work, requests: int, rate: float | None = None) -> Outcome:
    return Simulation(system, work, seed=1).run(requests, rate, warm_up=requests // 4)


def _erlang_wait(servers: int, seconds: float, rate: float) -> float:
    """The mean wait of M/M/c (L. Kleinrock, "Queueing Systems", volume 1, 1975, section 3.5)."""
    offered = rate * seconds
    tail = offered**servers / factorial(servers) / (1 - offered / servers)
    waits = tail / (sum(offered**number / factorial(number) for number in range(servers)) + tail)
    return waits * seconds / (servers - offered)


def test_mva_of_a_single_server() -> None:
    """The analysis that the tests rest on has the known results of one and of two customers."""
    assert closed_throughput(1, 0.1, 0.3) == pytest.approx(2.5)
    assert closed_throughput(2, 0.1, 0.1) == pytest.approx(2 / 0.25)
    assert closed_throughput(200, 0.1, 1.0) == pytest.approx(10)


@pytest.mark.parametrize("threads", [1, 2, 4, 12])
def test_one_interpreter_lock(threads: int) -> None:
    """Threads that alternate between the lock of one worker and waiting have the throughput of mean value analysis."""
    work = Work(locked=0.2, unlocked=0.0, waiting=0.6, factors=EXPONENTIAL)
    outcome = _run(System(processes=1, threads=threads, cpus=8), work, 3000)
    assert outcome.throughput == pytest.approx(closed_throughput(threads, 0.2, 0.6), rel=0.03)
    assert outcome.busy == pytest.approx(threads)


def test_several_workers_with_enough_cpus() -> None:
    """Each worker is a network of its own."""
    work = Work(locked=0.2, unlocked=0.0, waiting=0.6, factors=EXPONENTIAL)
    outcome = _run(System(processes=3, threads=5, cpus=3), work, 6000)
    assert outcome.throughput == pytest.approx(3 * closed_throughput(5, 0.2, 0.6), rel=0.03)


@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_workers_with_one_thread_share_the_cpus(cpus: int) -> None:
    """Eight single-threaded workers and c CPUs are a station of c servers and a delay."""
    work = Work(locked=0.2, unlocked=0.0, waiting=0.3, factors=EXPONENTIAL)
    outcome = _run(System(processes=8, threads=1, cpus=cpus), work, 6000)
    exact = closed_throughput_of_servers(8, 0.2, 0.3, lambda present: float(min(present, cpus)))
    assert outcome.throughput == pytest.approx(exact, rel=0.03)


def test_computing_outside_the_lock() -> None:
    """Threads that compute outside the lock share the CPUs as single-threaded workers do."""
    work = Work(locked=0.0, unlocked=0.2, waiting=0.3, factors=EXPONENTIAL)
    outcome = _run(System(processes=1, threads=8, cpus=2), work, 6000)
    exact = closed_throughput_of_servers(8, 0.2, 0.3, lambda present: float(min(present, 2)))
    assert outcome.throughput == pytest.approx(exact, rel=0.03)
    assert outcome.locks == 0.0


@pytest.mark.parametrize(("servers", "rate"), [(1, 5), (1, 8), (4, 20), (4, 32), (16, 140)])
def test_the_listen_queue(servers: int, rate: float) -> None:
    """Single-threaded workers with a CPU each are M/M/c: the listen queue has the wait of Erlang's formula."""
    work = Work(locked=0.1, unlocked=0.0, waiting=0.0, factors=EXPONENTIAL)
    outcome = _run(System(processes=servers, threads=1, cpus=servers), work, 20_000, rate)
    assert mean(outcome.service) == pytest.approx(0.1, rel=0.02)
    # Intervals and service times from decks vary a little less than independent ones.
    exact = 0.1 + _erlang_wait(servers, 0.1, rate)
    assert 0.9 * exact <= mean(outcome.total) <= 1.05 * exact


def test_requests_that_do_not_vary() -> None:
    """With a fixed time in service, the mean wait of one thread is half of that with exponential ones (Pollaczek and
    Khinchine)."""
    work = Work(locked=0.1, unlocked=0.0, waiting=0.0)
    outcome = _run(System(processes=1, threads=1, cpus=1), work, 20_000, 7)
    exact = 0.1 + _erlang_wait(1, 0.1, 7) / 2
    assert mean(outcome.total) == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize("rate", [5, 7])
def test_processor_sharing(rate: float) -> None:
    """Many single-threaded workers on one CPU are M/M/1 with processor sharing: s / (1 - utilization)."""
    work = Work(locked=0.1, unlocked=0.0, waiting=0.0, factors=EXPONENTIAL)
    outcome = _run(System(processes=64, threads=1, cpus=1), work, 20_000, rate)
    assert mean(outcome.service) == pytest.approx(0.1 / (1 - 0.1 * rate), rel=0.1)
    assert outcome.computing == pytest.approx(0.1 * rate, rel=0.03)


def test_a_quota_of_half_a_cpu() -> None:
    """One thread alone gets the half CPU that there is."""
    outcome = _run(System(processes=1, threads=1, cpus=0.5), Work(locked=0.1, unlocked=0.0, waiting=0.0), 200)
    assert outcome.throughput == pytest.approx(5)
