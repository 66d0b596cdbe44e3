"""What is judged beside the samples: findings, other programs, saturated backends, an objective."""

import asyncio
import itertools
import random

import pytest
from msgspec.structs import replace

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.backends import ALL
from uwsgi_headroom.analysis.capacity import LEAST_SLICES
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.objective import Objective
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.estimator import Division
from uwsgi_headroom.history.response_times.totals import BatchHistory, Misses
from uwsgi_headroom.record import Waits
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch import judging
from uwsgi_headroom.watch.judging import LimitHour, ObjectiveWatch, OtherPrograms
from uwsgi_headroom.watch.recorder import Verdicts
from uwsgi_headroom.watch.watch import Watch


@pytest.fixture
def judged_at(monkeypatch):
    """The times of all judgements, in seconds since the start of the simulated server."""
    times: list[float] = []

    def note(_: Verdicts, time: float, *_more: object) -> None:
        times.append(time - 1_700_000_000)

    monkeypatch.setattr(Verdicts, "judge", note)
    return times


def test_every_five_seconds(judged_at):
    """The first judgement needs ten seconds of history; the next ones follow every five seconds."""
    ScriptedWatch().seconds(Server(), 26)
    assert judged_at == [10.0, 15.0, 20.0, 25.0]


def test_a_sample_is_not_judged(judged_at):
    """Samples alone bring no judgement: that is for the task beside them."""
    watch, server = Watch("shop", Unix("/run/shop.stats")), Server()
    for second in range(30):
        watch._record(float(second), server.read(float(second)))
    assert watch.history.seconds > 20
    assert judged_at == []


def test_what_was_judged_or_is_down_is_not_judged(judged_at, monkeypatch):
    """Without a new reading there is nothing to watch, nor while the server is down."""
    monkeypatch.setattr(judging, "JUDGE_SECONDS", 2.0)
    watch = ScriptedWatch().seconds(Server(), 12)
    assert judged_at == [10.0, 12.0]
    watch.now += 2.5
    assert watch.watch.state == "up"
    watch.watch.judge.judge_if_due()
    watch.watch._record(watch.now, Server().read(watch.now))
    watch.read(ReadError("refused", "nothing listens here"), watch.now)
    assert judged_at == [10.0, 12.0]


def test_a_judgement_that_takes_long_is_followed_by_a_long_pause(judged_at):
    """Judging takes a thousandth of a CPU at most: after 20 ms, the next judgement is 20 s later."""
    clock = itertools.count(step=0.02)
    ScriptedWatch(cpu=lambda: next(clock)).seconds(Server(), 55)
    assert judged_at == [10.0, 30.0, 50.0]


def test_an_error_in_it_loses_no_sample(monkeypatch, judged_at):
    """The error is a fault of this server, once in the log; samples go on, and so does judging."""
    watch, server = ScriptedWatch(), Server()
    with monkeypatch.context() as broken:
        broken.setattr(judging, "collect_findings", lambda _figures: 1 / 0)
        watch.seconds(server, 17)
    assert len(watch.watch.reader.faults) == 1
    assert watch.watch.integrals.totals.observed_seconds == 17.0
    assert watch.watch.state == "up"
    watch.seconds(server, 8)
    assert judged_at == [20.0, 25.0]


async def test_its_task_lives_with_the_sampler():
    """It begins with sampling and ends with it."""

    def judging() -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == "judge shop"]

    with bad_servers.answers("unix", document("minified")) as address:
        watch = Watch("shop", Unix(address.removeprefix("unix://")))
        for _ in range(2):
            sampling = asyncio.create_task(watch.sample())
            await watch.reader.read()
            assert len(judging()) == 1
            sampling.cancel()
            await asyncio.wait({sampling})
            await asyncio.sleep(0)
            assert judging() == []
        await watch.reader.close()


FEW, MANY = (15, 1.0), (40, 14.0)
"""Requests per second, and threads that wait for the backend."""


def with_backend(seconds: int, *, saturated: bool = True) -> ScriptedWatch:
    """A server whose load changes every eight seconds. A backend with room is as fast with many requests."""
    server, watch = Server(processes=1, threads=16), ScriptedWatch()

    def second(now: int) -> None:
        rate, threads = FEW if now // 8 % 2 else MANY
        if not saturated:
            threads = rate * FEW[1] / FEW[0]
        server.serve(1, rate, each=threads / rate)
        server.waits = Waits(threads={"backend": threads}, busy=round(threads))

    return watch.seconds(server, seconds, second)


def test_a_saturated_backend_is_known_after_a_minute_and_a_half():
    """Each slice is taken once, and four times of low and of high load are enough."""
    watch = with_backend(90)
    found = watch.watch.backends.slices.find_saturation(ALL)
    assert (round(found.low), round(found.high)) == (FEW[0], MANY[0])
    assert watch.watch.figures(watch.watch.reading, (60.0,))[0].saturation == found


def test_one_with_room_is_not():
    """With the same load and a constant time, nothing is said; nor after half a minute."""
    assert with_backend(90, saturated=False).watch.backends.slices.find_saturation(ALL) is None
    assert with_backend(30).watch.backends.slices.find_saturation(ALL) is None


def beside_others(minutes: int, cost: float) -> ScriptedWatch:
    """A server whose load changes each minute, beside a proxy with so many CPU seconds per request, and a job."""
    rng = random.Random(5)
    server, watch = Server(processes=1, idle=0.5, others=0.5), ScriptedWatch()

    def minute(second: int) -> None:
        if second % 60 == 0:
            server.others = 0.5 + cost * (rate := rng.choice([20, 50, 80]))
            rates[:] = [rate]
        server.serve(1, rates[0], each=0.001, cpu=0.001)

    rates: list[int] = []
    return watch.seconds(server, minutes * 60, minute)


def test_proxy_is_found_after_some_minutes():
    """There is no judgement before enough slices; then document and headroom show that others follow."""
    assert beside_others(LEAST_SLICES, cost=0.02).watch.other_programs.others_follow is None
    watch = beside_others(LEAST_SLICES + 2, cost=0.02)
    assert watch.watch.other_programs.others_follow is True
    document = watch.document(60.0)
    cpu = document.cpu
    assert cpu.others > 0
    assert cpu.others_follow is True
    factor = (cpu.own + cpu.others + cpu.idle) / (cpu.own + cpu.others)
    assert abs(document.headroom.by_limit["cpu"] - factor) < 1e-9
    assert watch.history().headroom.cpu[-1] is not None


def test_job_that_runs_anyway_does_not_follow():
    """The load is the same, and another program uses half a CPU all the time."""
    assert beside_others(LEAST_SLICES + 2, cost=0.0).watch.other_programs.others_follow is False


def test_slices_are_taken_once():
    """Each slice of the history counts once, for any number of calls; an hour of slices is kept."""
    watch = beside_others(LEAST_SLICES + 2, cost=0.0).watch
    again = OtherPrograms()
    again.update(watch.history)
    again.update(watch.history)
    assert list(again._pairs) == list(watch.other_programs._pairs)
    assert again._pairs.maxlen == 60


def test_what_limited_the_server_is_known_for_an_hour():
    """At each time it is what the last judgement said; what is older than an hour is forgotten."""
    hour = LimitHour()
    assert hour.at(5.0) is None
    for at, code in ((10.0, None), (20.0, "errors"), (25.0, "errors"), (30.0, None)):
        hour.note(at, code)
    assert [hour.at(time) for time in (5.0, 19.0, 20.0, 29.0, 31.0)] == [None, None, "errors", "errors", None]
    hour.note(3700.0, "loop_held")
    assert (hour.at(25.0), hour.at(3699.0), hour.at(3701.0)) == (None, None, "loop_held")


SLO = Slo(1.0, 0.99)
BINS = Bins((SLO.threshold,))


def add(history: BatchHistory, at: float, requests: int, slow: int) -> None:
    """Adds a batch of 5 s that ends at `at`."""
    counts = [0.0] * len(BINS)
    counts[BINS.find(0.1)], counts[BINS.find(3.0)] = float(requests - slow), float(slow)
    history.add(at, 5.0, 0.2, requests, 0, Division(counts, [0.0] * len(BINS)), Misses(requests, slow))


FLOW = Flow(
    requests=1, throughput=2.0, response_time=0.1, littles_law=1.0, observed=1.0, queue_wait=0.0, queue_length=0.0
)


def judge(watch: ObjectiveWatch, *, threads_known: bool = True, **flow: float) -> Objective:
    return watch.judge(replace(FLOW, **flow), 0.2, threads_known=threads_known)


def test_without_data_it_is_not_judged():
    """Before the first batch, and with stats-no-cores even if there are earlier ones, which is the reason then."""
    history = BatchHistory(BINS)
    young = judge(ObjectiveWatch(SLO, history))
    add(history, 10.0, 500, 0)
    hidden = judge(ObjectiveWatch(SLO, history), threads_known=False)
    assert (young.unjudged, young.windows, young.level) == ("not judged yet", (), None)
    assert "stats-no-cores" in hidden.unjudged
    assert hidden.windows == ()


def test_windows_end_with_the_last_batch():
    """The last five minutes and the last hour are judged, as soon as another batch has ended."""
    history = BatchHistory(BINS)
    watch = ObjectiveWatch(SLO, history)
    for place in range(1, 721):
        add(history, 1000.0 + 5 * place, 10, 1 if place > 660 else 0)
    figures = judge(watch)
    assert [(burn.seconds, burn.requests, burn.slow) for burn in figures.windows] == [(300, 600, 60), (3600, 7200, 60)]
    assert [burn.rate for burn in figures.windows] == [pytest.approx(10), pytest.approx(10 / 12)]
    add(history, 4605.0, 10, 10)
    assert [burn.slow for burn in judge(watch).windows] == [69, 70]


def test_the_wait_of_the_window_changes_nothing():
    """The count of each batch has the wait of its own time."""
    history = BatchHistory(BINS)
    add(history, 10.0, 500, 0)
    watch = ObjectiveWatch(SLO, history)
    judged = judge(watch)
    assert judged.unjudged is None
    assert replace(judge(watch, queue_wait=3.0), queue_wait=judged.queue_wait) == judged


def test_load_limit_of_the_last_hour():
    """Load that grew from 10 to 21 requests a second within the hour, and was slow from 18 on, has a limit between."""
    history = BatchHistory(BINS)
    for place in range(1, 721):
        minute = (place - 1) // 12
        load = 10 + minute // 5
        add(history, 5.0 * place, 5 * load, load if load >= 18 else 0)
    found = judge(ObjectiveWatch(SLO, history), throughput=10.0)
    assert found.load_multiple_reached
    assert 1.6 < found.load_multiple < 1.9
