"""Looks at code beside the samples: as often as their cost permits, and never to the harm of anything else."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from tests.support.simulated_server import Server
from uwsgi_headroom.code_look import CodeLook, CodeSight, Line
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.code_watch import CHECK, CodeSetting, CodeWatch
from uwsgi_headroom.watch.watch import Watch

QUICK = CodeSetting(seconds=0.001, most_cpu=1.0)
SIGHT = CodeSight(1, 7, Line("work", "/srv/shop.py", 3), "cpu", "", 1.0)


def watched(setting: CodeSetting) -> Watch:
    watch = Watch("shop", Unix("/run/shop.stats"), code=setting)
    reading = Server().read(time.monotonic())
    watch.reader.outcome = watch.reading = reading
    return watch


@pytest.mark.parametrize(
    ("setting", "cost", "pause"),
    [(CodeSetting(), 0.004, 1.0), (CodeSetting(), 0.06, 10.0), (CHECK, 0.004, 0.1), (CHECK, 0.02, 0.4)],
)
def test_a_look_that_costs_much_lowers_the_rate(monkeypatch, setting, cost, pause):
    watch = watched(setting)
    costs = iter((cost, 0.0))

    async def look(*_: object) -> CodeLook:
        return CodeLook(off="no right", seconds=next(costs))

    monkeypatch.setattr(CodeWatch, "ask", look)
    asyncio.run(watch.code.look())
    assert watch.code.pause == pytest.approx(pause)
    asyncio.run(watch.code.look())
    assert watch.code.pause == setting.seconds


def test_an_error_is_logged_once(monkeypatch, caplog):
    """It ends neither the looks nor the watching. So does a reason why nothing is seen; a change of it is logged."""
    outcomes: list[CodeLook | Exception] = [
        *[ValueError("torn")] * 3,
        *[CodeLook(off="no right")] * 3,
        CodeLook(sights=(SIGHT,)),
        *[CodeLook(off="no right")] * 3,
    ]

    async def look(*_: object) -> CodeLook:
        outcome = outcomes.pop(0) if outcomes else CodeLook(sights=(SIGHT,))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(CodeWatch, "ask", look)

    async def watch_until_seen() -> Watch:
        watch = watched(QUICK)
        looking = asyncio.create_task(watch.code.run())
        for _ in range(10_000):
            await asyncio.sleep(0.001)
            if not outcomes:
                break
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
        return watch

    with caplog.at_level("INFO"):
        watch = asyncio.run(watch_until_seen())
    assert not outcomes
    assert caplog.messages == ["internal error", *["the code is not visible"] * 2]
    assert watch.state == "up"


def test_a_server_that_is_down_is_not_looked_at(monkeypatch):
    async def look(*_: object) -> CodeLook:
        raise AssertionError

    monkeypatch.setattr(CodeWatch, "ask", look)
    watch = watched(QUICK)
    watch.reading = replace(watch.reading, at=watch.reading.at - 60)
    asyncio.run(watch.code.look())
    assert watch.code.history.of(0.0, 1.0).looks == 0


async def test_it_is_turned_on_and_off():
    watch = watched(CodeSetting())
    sampling = asyncio.create_task(watch.sample())
    await asyncio.sleep(0)
    first, task = watch.code, watch._looking
    assert task
    watch.set_code(CodeSetting())
    assert (watch.code, watch._looking) == (first, task)
    watch.set_code(CodeSetting(("/srv/",)))
    assert watch.code is not first
    second = watch._looking
    assert second
    watch.set_code(None)
    assert (watch.code, watch._looking) == (None, None)
    watch.set_code(CodeSetting())
    third = watch._looking
    assert third
    sampling.cancel()
    await asyncio.wait({task, second, third, sampling})
    assert all(each.cancelled() for each in (task, second, third, sampling))
    await watch.reader.close()
