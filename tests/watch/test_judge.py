"""Each server is judged for its journal every few seconds, in a task of its own."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.journal.recorder import Verdicts
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch import judging
from uwsgi_headroom.watch.watch import Watch


@pytest.fixture
def judged_at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times of all judgements, in seconds since the start of the simulated server."""
    times: list[float] = []

    def note(_: Verdicts, time: float, *_more: object) -> None:
        times.append(time - 1_700_000_000)

    monkeypatch.setattr(Verdicts, "judge", note)
    return times


def test_every_five_seconds(judged_at: list[float]) -> None:
    """The first judgement needs ten seconds of history; the next ones follow every five seconds."""
    ScriptedWatch().seconds(Server(), 26)
    assert judged_at == [10.0, 15.0, 20.0, 25.0]


def test_a_sample_is_not_judged(judged_at: list[float]) -> None:
    """Samples alone bring no judgement: that is for the task beside them."""
    watch, server = Watch("shop", Unix("/run/shop.stats")), Server()
    for second in range(30):
        watch._record(float(second), server.read(float(second)))
    assert watch.history.seconds > 20
    assert judged_at == []


def test_what_was_judged_or_is_down_is_not_judged(judged_at: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_judgement_that_takes_long_is_followed_by_a_long_pause(judged_at: list[float]) -> None:
    """Judging takes a thousandth of a CPU at most: after 20 ms, the next judgement is 20 s later."""
    clock = itertools.count(step=0.02)
    ScriptedWatch(cpu=lambda: next(clock)).seconds(Server(), 55)
    assert judged_at == [10.0, 30.0, 50.0]


def test_an_error_in_it_loses_no_sample(monkeypatch: pytest.MonkeyPatch, judged_at: list[float]) -> None:
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


def test_its_task_lives_with_the_sampler() -> None:
    """It begins with sampling and ends with it."""

    def judging() -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == "judge shop"]

    async def scenario(address: str) -> None:
        watch = Watch("shop", Unix(address))
        for _ in range(2):
            sampling = asyncio.create_task(watch.sample())
            await watch.reader.read()
            assert len(judging()) == 1
            sampling.cancel()
            await asyncio.wait({sampling})
            await asyncio.sleep(0)
            assert judging() == []
        await watch.reader.close()

    with bad_servers.answers("unix", document("minified")) as address:
        asyncio.run(scenario(address.removeprefix("unix://")))
