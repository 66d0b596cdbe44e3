"""The rules by which requests get threads, locks and CPUs."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.what_if.demands import LEAST, scale_factors
from uwsgi_headroom.analysis.what_if.runs import mean
from uwsgi_headroom.analysis.what_if.simulation import SWITCH_SECONDS, Simulation, System, Work


def test_the_lock_is_held_together_with_a_cpu() -> None:
    """Two workers on one CPU hold both locks, but only one of them computes."""
    outcome = Simulation(System(processes=2, threads=2, cpus=1), Work(locked=0.1, unlocked=0, waiting=0), 1).run(400)
    assert outcome.locks == pytest.approx(2, rel=0.02)
    assert outcome.computing == pytest.approx(1, rel=0.001)
    assert outcome.throughput == pytest.approx(10, rel=0.02)
    assert outcome.lock_waiters == pytest.approx(2, rel=0.02)


def test_a_short_burst_does_not_wait_for_a_long_one() -> None:
    """A thread that computes gives up the lock after the switch interval, so a short request beside long ones takes the
    interval, not the whole burst."""
    work = Work(locked=0.04, unlocked=0, waiting=0, factors=(0.05,) * 5 + (1.95,) * 5)
    outcome = Simulation(System(processes=1, threads=2, cpus=2), work, 1).run(1000)
    short = [seconds for seconds in outcome.service if seconds < 0.02]
    assert len(short) == pytest.approx(500, abs=20)
    # 2 ms of its own, behind one slice of the other, which may be another short one.
    assert 0.002 <= mean(short) <= 0.002 + SWITCH_SECONDS


def test_waiting_takes_no_cpu() -> None:
    """Requests that only wait fill the threads, and nothing else."""
    outcome = Simulation(System(processes=2, threads=8, cpus=1), Work(locked=0, unlocked=0, waiting=0.1), 1).run(800)
    assert outcome.throughput == pytest.approx(160, rel=0.01)
    assert outcome.computing == 0.0
    assert set(map(round, (1e6 * seconds for seconds in outcome.service))) == {100_000}


@pytest.mark.parametrize(
    ("others", "processes", "computing"), [(0.0, 1, 1.0), (0.4, 1, 0.6), (0.4, 3, 0.6), (1.0, 3, 0.05), (9.0, 1, 0.05)]
)
def test_other_programs_keep_what_they_use(others: float, processes: int, computing: float) -> None:
    """Threads share what other programs leave of a CPU, which is something in any case."""
    system = System(processes=processes, threads=1, cpus=1, others=others)
    outcome = Simulation(system, Work(locked=0.1, unlocked=0, waiting=0), 1).run(50)
    assert outcome.computing == pytest.approx(computing)


def test_the_same_seed_gives_the_same_outcome() -> None:
    """A prediction can be repeated."""
    system, work = System(processes=2, threads=2, cpus=2), Work(locked=0.02, unlocked=0.01, waiting=0.1)
    first, second, other = (Simulation(system, work, seed).run(300, 20, warm_up=50) for seed in (1, 1, 2))
    assert first == second != other


def test_looking_may_end_a_run() -> None:
    """The callback of a run that was cancelled raises, and the run ends."""

    class EndedError(Exception):
        pass

    def end() -> None:
        raise EndedError

    simulation = Simulation(System(processes=2, threads=2, cpus=2), Work(locked=0.1, unlocked=0, waiting=0), 1, end)
    with pytest.raises(EndedError):
        simulation.run(10**9)


@pytest.mark.parametrize(
    ("scale", "scaled"), [(0.0, (1.0, 1.0)), (1.0, (0.5, 1.5)), (1.5, (0.25, 1.75)), (4.0, (LEAST, 3.0))]
)
def test_a_shape_is_stretched_around_its_mean(scale: float, scaled: tuple[float, float]) -> None:
    """Scale 0 makes all requests alike, 1 leaves the shape, and none becomes shorter than the least."""
    mean_of_scaled = mean(scaled)
    assert scale_factors((0.5, 1.5), scale) == pytest.approx([each / mean_of_scaled for each in scaled])
