"""When a server is read: the pauses as a function of what reading brought, and the loop that keeps them."""

from __future__ import annotations

import asyncio
import random
from statistics import mean

import pytest

from tests.support.simulated_server import Server
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.pace import BUDGET, JITTER, Pace, sample

DOWN = ReadError("refused", "connection refused")


def read(seconds: float) -> Reading:
    """A reading that took so long."""
    return Server(processes=1).read(0.0, read_seconds=seconds)


def middle() -> float:
    """Chance that decides nothing."""
    return 0.5


class TestJitter:
    def test_within_a_fifth(self) -> None:
        """The interval from one sample to the next is a fifth shorter to a fifth longer, the read included."""
        for chance, interval in ((0.0, 0.16), (0.5, 0.2), (1.0, 0.24)):
            pause = Pace(5, lambda chance=chance: chance).pause(read(0.001))
            assert pause + 0.001 == pytest.approx(interval)

    def test_mean_is_the_wanted_interval(self) -> None:
        """Jitter makes sampling neither slower nor faster."""
        pace = Pace(5, random.Random(1).random)
        intervals = [pace.pause(read(0.001)) + 0.001 for _ in range(5000)]
        assert mean(intervals) == pytest.approx(0.2, rel=0.005)
        assert min(intervals) >= 0.2 * (1 - JITTER)
        assert max(intervals) <= 0.2 * (1 + JITTER)

    def test_is_not_the_same_for_every_server(self) -> None:
        """Without a given chance, two servers do not stay in step."""
        first, second = Pace(), Pace()
        assert [first.pause(read(0.0)) for _ in range(5)] != [second.pause(read(0.0)) for _ in range(5)]

    @pytest.mark.parametrize("rate", [0.5, 1, 5, 10])
    def test_rate_is_a_setting(self, rate: float) -> None:
        """So many samples a second."""
        assert Pace(rate, middle).pause(read(0.0)) == pytest.approx(1 / rate)


class TestBudget:
    def test_stretches_the_interval(self) -> None:
        """Reads of 15 ms allow one every 1.5 s."""
        pace = Pace(5, middle)
        for _ in range(20):
            pace.pause(read(0.015))
        assert pace.interval == pytest.approx(1.5)
        assert pace.duty == pytest.approx(BUDGET)
        assert pace.pause(read(0.015)) == pytest.approx(1.485)

    def test_quick_reads_keep_the_wanted_interval(self) -> None:
        """Reads within the budget change nothing, and the duty says how little they take."""
        pace = Pace(5, middle)
        for _ in range(20):
            pace.pause(read(0.0005))
        assert pace.interval == pytest.approx(0.2)
        assert pace.duty == pytest.approx(0.0025)

    @pytest.mark.parametrize("before", [1, 20])
    def test_slow_reads_now_and_then_do_not_stretch_it(self, before: int) -> None:
        """A master that does not answer for a second does not stop the sampling."""
        pace = Pace(5, middle)
        for _ in range(before):
            pace.pause(read(0.001))
        for _ in range(3):
            pace.pause(read(1.0))
        assert pace.interval == pytest.approx(0.2)

    def test_recovers_when_reads_are_quick_again(self) -> None:
        """The median forgets the slow ones."""
        pace = Pace(5, middle)
        for _ in range(20):
            pace.pause(read(0.1))
        assert pace.interval == pytest.approx(10)
        for _ in range(8):
            pace.pause(read(0.001))
        assert pace.interval == pytest.approx(0.2)

    def test_stretches_as_far_as_the_budget_wants(self) -> None:
        """A server that takes for ever is looked at so seldom that it keeps to the budget, too."""
        pace = Pace(5, middle)
        for _ in range(20):
            pace.pause(read(3.0))
        assert pace.interval == pytest.approx(300.0)
        assert pace.duty == pytest.approx(0.01)

    @pytest.mark.parametrize("seconds", [0.15, 0.5, 4.0])
    def test_slow_read_is_followed_by_as_long_a_rest(self, seconds: float) -> None:
        """Even the first reads of a slow server never take more than half of the time."""
        pace = Pace(5, middle)
        for _ in range(20):
            assert pace.pause(read(seconds)) >= seconds


class TestFailures:
    def test_back_off(self) -> None:
        """A server that cannot be read is tried after 1, 2, 4, 8 and then every 15 seconds."""
        pace = Pace(5, middle)
        assert [pace.pause(DOWN) for _ in range(7)] == [1, 2, 4, 8, 15, 15, 15]

    def test_for_years(self) -> None:
        """However long it stays away."""
        pace = Pace(5, middle)
        assert {pace.pause(DOWN) for _ in range(5000)} == {1, 2, 4, 8, 15}

    def test_recovery(self) -> None:
        """One good read brings back the wanted interval, and the next failure begins with a second."""
        pace = Pace(5, middle)
        for _ in range(6):
            pace.pause(DOWN)
        assert pace.pause(read(0.001)) == pytest.approx(0.199)
        assert pace.pause(DOWN) == 1

    def test_failures_are_not_reads(self) -> None:
        """A timeout says nothing about how long a read takes."""
        pace = Pace(5, middle)
        for _ in range(20):
            pace.pause(DOWN)
        assert (pace.interval, pace.duty) == (pytest.approx(0.2), 0)


class TestLongestStep:
    @pytest.mark.parametrize(("seconds", "step"), [(0.001, 1.0), (0.015, 4.5), (0.1, 30.0)])
    def test_three_intervals_but_a_second_at_least(self, seconds: float, step: float) -> None:
        """What is further apart than that is a gap."""
        pace = Pace(5, middle)
        for _ in range(20):
            pace.pause(read(seconds))
        assert pace.longest_step == pytest.approx(step)

    def test_covers_the_longest_pause(self) -> None:
        """No pause that the pace itself makes becomes a gap, at any rate and read time."""
        for rate in (0.2, 1, 5, 10):
            for seconds in (0.0, 0.004, 0.02, 0.14):
                pace = Pace(rate, lambda: 1.0)
                for _ in range(40):
                    assert pace.pause(read(seconds)) + seconds <= pace.longest_step


class Script:
    """A reader whose outcomes are given, and which ends the sampling after them."""

    def __init__(self, *outcomes: Reading | ReadError) -> None:
        self.outcomes = list(outcomes)

    async def read(self) -> Reading | ReadError:
        if not self.outcomes:
            raise asyncio.CancelledError
        return self.outcomes.pop(0)


class Hasty(Pace):
    """A pace that remembers the outcomes it was given, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Reading | ReadError] = []

    def pause(self, outcome: Reading | ReadError) -> float:
        self.outcomes.append(outcome)
        return 0.0


def test_loop_goes_on_after_failures() -> None:
    """Every outcome decides over the pause that follows it, and no failure ends the loop."""
    outcomes = (read(0.001), DOWN, DOWN, read(0.002))
    pace = Hasty()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(sample(Script(*outcomes), pace))
    assert tuple(pace.outcomes) == outcomes


def test_loop_ends_when_cancelled_in_a_pause() -> None:
    """Nobody waits for a pause to end."""

    async def run() -> None:
        task = asyncio.create_task(sample(Script(read(0.001)), Pace(0.001)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait_for(asyncio.wait({task}), 5)
        assert task.cancelled()

    asyncio.run(run())
