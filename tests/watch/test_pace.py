"""When a server is read: the pauses, the limit on CPU time, and the lag of the event loop, with simulated time."""

import asyncio
import logging
import random
import time
from statistics import mean

import pytest

from tests.support.captured_documents import document
from tests.support.simulated_server import MovableClock, Server
from uwsgi_headroom.errors import BlindError, ReadError
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import File
from uwsgi_headroom.watch import pace as module
from uwsgi_headroom.watch.pace import BUDGET, COSTLY, JITTER, LONGEST_INTERVAL, CpuBudget, LoopLag, Pace, Sampler
from uwsgi_headroom.watch.reader import Done, Reader

DOWN = ReadError("timeout", "no answer")
GONE = ReadError("refused", "connection refused")


def read(seconds: float, at: float = 0.0) -> Reading:
    return Server(processes=1).read(at, read_seconds=seconds)


def middle() -> float:
    return 0.5


def pace_after(*transfers: float) -> Pace:
    pace = Pace(5, middle)
    for seconds in transfers:
        pace.pause(read(seconds))
    return pace


class TestJitter:
    def test_within_a_fifth(self):
        """The interval between samples is up to a fifth shorter or longer, including the read."""
        for chance, interval in ((0.0, 0.16), (0.5, 0.2), (1.0, 0.24)):
            pause = Pace(5, lambda chance=chance: chance).pause(read(0.001))
            assert pause + 0.001 == pytest.approx(interval)

    def test_mean_is_the_wanted_interval(self):
        pace = Pace(5, random.Random(1).random)
        intervals = [pace.pause(read(0.001)) + 0.001 for _ in range(5000)]
        assert mean(intervals) == pytest.approx(0.2, rel=0.005)
        assert min(intervals) >= 0.2 * (1 - JITTER)
        assert max(intervals) <= 0.2 * (1 + JITTER)

    def test_is_not_the_same_for_every_server(self):
        first, second = Pace(), Pace()
        assert [first.pause(read(0.0)) for _ in range(5)] != [second.pause(read(0.0)) for _ in range(5)]

    @pytest.mark.parametrize("rate", [0.5, 1, 5, 10])
    def test_rate_is_a_setting(self, rate):
        assert Pace(rate, middle).pause(read(0.0)) == pytest.approx(1 / rate)


class TestBudget:
    @pytest.mark.parametrize(
        ("transfers", "interval", "duty"),
        [
            ([0.015] * 20, 1.5, BUDGET),  # 15 ms allow one read every 1.5 s
            ([0.0005] * 20, 0.2, 0.0025),
            ([0.4] * 20, LONGEST_INTERVAL, 0.1),  # a server that is slow to read is still read
        ],
    )
    def test_stretches_the_interval(self, transfers, interval, duty):
        """Reads beyond the budget are farther apart; the duty reports how much of the time they take."""
        pace = pace_after(*transfers)
        assert (pace.interval, pace.duty) == (pytest.approx(interval), pytest.approx(duty))
        assert pace.exceeds_budget == (duty > BUDGET)
        assert pace.pause(read(transfers[-1])) == pytest.approx(max(interval - transfers[-1], transfers[-1]))

    def test_slow_transfers_now_and_then_do_not_stretch_it(self):
        assert pace_after(*[0.001] * 20, *[1.0] * 3).interval == pytest.approx(0.2)

    def test_waiting_for_the_master_does_not_stretch_it(self):
        pace = Pace(5, middle)
        for at in range(30):
            pause = pace.pause(Server(processes=1).read(float(at), read_seconds=1.2, transfer_seconds=0.001))
            assert pause == pytest.approx(0.2)
        assert pace.interval == pytest.approx(0.2)
        assert not pace.exceeds_budget

    @pytest.mark.parametrize("slow", [0.03, 1.0])
    def test_recovers_within_half_a_minute_of_quick_reads(self, slow):
        pace, now = Pace(5, lambda: 1.0), 0.0
        while now < 300.0:
            now += pace.pause(read(slow, now)) + slow
        assert pace.interval == pytest.approx(min(LONGEST_INTERVAL, slow / BUDGET))
        quick = now
        while pace.interval > 0.2:
            now += pace.pause(read(0.001, now)) + 0.001
        assert now - quick <= 30

    def test_a_server_is_left_alone_after_a_slow_read(self):
        pace = Pace(5, middle)
        assert pace.pause(read(0.15)) == pytest.approx(0.15)
        assert pace.pause(Server(processes=1).read(0.0, read_seconds=3.0, transfer_seconds=0.0)) >= 0.2


class TestFailures:
    def test_back_off(self):
        """After 1, 2, 4 and then every 5 s, for years. A timeout is no duration; one good read restores it."""
        pace = Pace(5, middle)
        assert [pace.pause(DOWN) for _ in range(7)] == [1, 2, 4, 5, 5, 5, 5]
        assert {pace.pause(DOWN) for _ in range(5000)} == {5}
        assert (pace.interval, pace.duty) == (pytest.approx(0.2), 0)
        assert pace.pause(read(0.001)) == pytest.approx(0.199)
        assert pace.pause(DOWN) == 1

    @pytest.mark.parametrize("away", [0.3, 1.0, 3.3, 20.0, 300.0])
    def test_a_server_is_read_soon_after_it_listens_again(self, away):
        """Within a quarter of a second, or an eighth of the time that nobody listened; five seconds at most."""
        pace, now = Pace(5, middle), 0.0
        for _ in range(2):
            while now < away:
                now += pace.pause(GONE)
            assert now - away <= min(5, max(0.25, away / 8))
            pace.pause(read(0.001))
            now = 0.0

    def test_where_nobody_listens_it_asks_rarely_as_well(self):
        """In the first minute, such a server is asked 38 times; and never more often than one that is up."""
        pace = Pace(5, middle)
        assert sum(pace.pause(GONE) for _ in range(38)) == pytest.approx(60, abs=5)
        assert {pace.pause(GONE) for _ in range(5000)} == {5}
        assert Pace(2, middle).pause(GONE) == 0.5


class TestLongestStep:
    @pytest.mark.parametrize(("seconds", "step"), [(0.001, 3.0), (0.015, 4.5), (0.02, 5.0), (0.1, 5.0)])
    def test_three_intervals_from_three_seconds_to_five(self, seconds, step):
        assert pace_after(*[seconds] * 20).longest_step == pytest.approx(step)

    def test_covers_the_longest_pause(self):
        for rate in (0.25, 1, 5, 10):
            for seconds in (0.0, 0.004, 0.02, 0.1):
                pace = Pace(rate, lambda: 1.0)
                for _ in range(40):
                    assert pace.pause(read(seconds)) + seconds <= pace.longest_step


class AllReadError(Exception):
    """A script has ended."""


class Script:
    """A reader with given outcomes."""

    name = "shop"

    def __init__(self, *outcomes: Reading | ReadError) -> None:
        self.outcomes = list(outcomes)

    def begin(self, done: Done) -> None:
        if not self.outcomes:
            raise AllReadError
        asyncio.get_running_loop().call_soon(done, self.outcomes.pop(0))

    def forget(self, done: Done) -> None:
        """It keeps none."""


class Hasty(Pace):
    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Reading | ReadError] = []

    def pause(self, outcome: Reading | ReadError) -> float:
        super().pause(outcome)
        self.outcomes.append(outcome)
        return 0.0


def test_loop_goes_on_after_failures():
    outcomes = (read(0.001), DOWN, DOWN, read(0.002))
    pace = Hasty()
    with pytest.raises(AllReadError):
        asyncio.run(Sampler(Script(*outcomes), pace, LoopLag(time.monotonic)).run())
    assert pace.outcomes == [*outcomes]


def test_empty_stats_are_read_again_soon():
    """However often: uWSGI answers in a gap between two requests that it cannot parse."""
    pace = Pace()
    pauses = [pace.pause(BlindError(7)) for _ in range(100)]
    assert max(pauses) <= module.GAP_SECONDS * (1 + JITTER)
    assert len(set(pauses)) > 1


async def test_loop_ends_when_cancelled_in_a_pause():
    task = asyncio.create_task(Sampler(Script(read(0.001)), Pace(0.25), LoopLag(time.monotonic)).run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait_for(asyncio.wait({task}), 60)
    assert task.cancelled()


def test_a_budget_that_cannot_be_kept_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(AllReadError):
        asyncio.run(Sampler(Script(*[read(1.0)] * 5), Hasty(), LoopLag(time.monotonic)).run())
    (record,) = caplog.records
    assert record.fields == {"server": "shop", "duty": "0.250", "interval": "4"}


def sample_for(budget: CpuBudget, hands: MovableClock, servers: int, cost: float) -> list[Pace]:
    """Servers that want a sample each second, of `cost` CPU seconds each, after some samples."""
    paces = [Pace(1.0, middle, budget) for _ in range(servers)]
    for spent in (50 * cost, cost, cost):
        hands.move(1.0)
        for pace in paces:
            pace.note_cpu(spent)
            pace.pause(read(0.001))
    hands.move(1.0)
    return paces


@pytest.mark.parametrize(
    ("servers", "cost", "interval"),
    [
        (200, 0.001, 1.0),  # together a fifth of a CPU
        (1, 0.1, 1.0),  # as long as all keep to the budget, nobody is slowed down
        (5000, 0.009, LONGEST_INTERVAL),
        (5000, 0.07, COSTLY[1]),  # a huge document
    ],
)
def test_cpu_time_stretches_the_interval(servers, cost, interval):
    """To the longest one at most; within the budget, servers are sampled as configured."""
    hands = MovableClock()
    paces = sample_for(CpuBudget(hands.clock.monotonic), hands, servers, cost)
    assert {pace.interval for pace in paces} == {interval}
    assert {pace.stretch == 1.0 for pace in paces} == {interval == 1.0}


def test_many_servers_yield_evenly(caplog):
    hands = MovableClock()
    budget = CpuBudget(hands.clock.monotonic)
    with caplog.at_level(logging.INFO):
        paces = sample_for(budget, hands, 1000, 0.001)
        assert [pace.interval for pace in paces] == pytest.approx([1.0 / module.MOST_CPU] * 1000, rel=0.05)
        assert caplog.messages == ["sampling servers less often, to limit its CPU time"]
        hands.move(10 * COSTLY[1])
        assert {pace.interval for pace in sample_for(budget, hands, 10, 0.001)} == {1.0}
        assert caplog.messages[1:] == ["sampling all servers as often as configured again"]


def take_turns(budget: CpuBudget, hands: MovableClock, costs: list[float], outcome: Reading | ReadError) -> list[Pace]:
    """Servers that want five samples a second, which cost so many CPU seconds each, after three of them."""
    paces = [Pace(5.0, middle, budget) for _ in costs]
    for _ in range(3):
        for pace, cost in zip(paces, costs, strict=True):
            pace.note_cpu(cost)
            pace.pause(outcome)
        hands.move(module.PERIOD_SECONDS)
    return paces


def test_a_sample_that_costs_much_slows_down_its_own_server():
    hands = MovableClock()
    costs = [*[0.02] * 120, 0.001]
    *costly, cheap = take_turns(CpuBudget(hands.clock.monotonic), hands, costs, read(0.001))
    assert cheap.interval == 0.2
    assert [pace.interval for pace in costly] == pytest.approx([costly[0].interval] * 120)
    assert sum(0.02 / pace.interval for pace in costly) + 0.001 / 0.2 == pytest.approx(module.MOST_CPU)
    # A failed read counts too: documents that are refused after they were decoded take CPU time all the same.
    hands = MovableClock()
    *_, last = take_turns(CpuBudget(hands.clock.monotonic), hands, [0.02] * 400, DOWN)
    last.note_cpu(0.02)
    assert module.RETRY_SECONDS[1] < last.pause(DOWN) <= COSTLY[1]


class SlowHost(Host):
    spent = 0.0

    def read_facts(self, *_: object) -> HostFacts:
        self.spent += 5.0
        return HostFacts()


def test_what_the_reader_process_takes_counts(tmp_path):
    (tmp_path / "stats").write_bytes(document("minified").replace(b'"in_request":1', b'"in_request":0'))
    costs: list[float] = []
    reader = Reader("one", File(str(tmp_path / "stats")), host=SlowHost(), on_cpu=costs.append)
    asyncio.run(reader.read())
    asyncio.run(reader.read())
    assert [round(cost) for cost in costs] == [5, 5]


def test_the_largest_lag_counts():
    """It is remembered for one period at least, and for two at most."""
    hands = MovableClock()
    lag = LoopLag(hands.clock.monotonic)
    assert lag.largest == 0
    for seconds in (0.01, 0.5, 0.02):
        lag.note_due(hands.clock.monotonic() - seconds)
    assert lag.largest == pytest.approx(0.5)
    hands.move(module.REMEMBERED_SECONDS)
    lag.note_due(hands.clock.monotonic() - 0.1)
    assert lag.largest == pytest.approx(0.5)
    hands.move(module.REMEMBERED_SECONDS)
    assert lag.largest < 0.11
    hands.move(10 * module.REMEMBERED_SECONDS)
    assert lag.largest == 0


async def test_a_sample_that_begins_too_late_has_a_lag():
    lag, pace = LoopLag(time.monotonic), Pace(100.0)
    sampling = asyncio.create_task(Sampler(Script(read(0.001), read(0.001)), pace, lag).run())
    await asyncio.sleep(0.002)
    assert lag.largest == 0
    time.sleep(0.2)  # noqa: ASYNC251 - this is what is measured
    await asyncio.wait({sampling})
    assert isinstance(sampling.exception(), AllReadError)
    assert lag.largest >= 0.18


def test_the_lag_is_what_is_beyond_the_pause():
    hands = MovableClock()
    lag = LoopLag(hands.clock.monotonic)
    due = hands.clock.monotonic() + 0.01
    hands.move(0.26)
    lag.note_due(due)
    assert lag.largest == pytest.approx(0.25)
