"""Predictions are made one at a time and once for all requests, and failures are not cached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.values import make_server
from uwsgi_headroom.documents.what_if import WhatIf
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import what_if_cache
from uwsgi_headroom.web.bounds import MOST_PREDICTIONS
from uwsgi_headroom.web.what_if_cache import TooManyError, WhatIfCache


class Maker:
    """Replaces `predict_what_if`: counts calls and those at once; `held` holds them, `error` fails them."""

    def __init__(self) -> None:
        self.calls = self.running = self.most = 0
        self.error: BaseException | None = None
        self.held: asyncio.Event | None = None

    async def __call__(self, watch: Watch, _clock: Clock, _seconds: float, _settings: Sequence[Setting]) -> WhatIf:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.held:
                await self.held.wait()
            if self.error:
                raise self.error
            return WhatIf(name=watch.name, time=float(self.calls))
        finally:
            self.running -= 1


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Maker:
    made = Maker()
    monkeypatch.setattr(what_if_cache, "predict_what_if", made)
    return made


def _watch() -> Watch:
    return Fleet([make_server("/nowhere/stats")]).watches()[0]


def test_made_once(maker: Maker) -> None:
    """Equal requests, simultaneous or later, get the same document; other settings are another document."""

    async def run() -> None:
        cache, watch = WhatIfCache(Clock()), _watch()
        first, second = await asyncio.gather(
            cache.get(watch, 60, [Setting(8, 4)]), cache.get(watch, 60, [Setting(8, 4)])
        )
        assert first is second is await cache.get(watch, 60, (Setting(8, 4),))
        assert maker.calls == 1
        assert await cache.get(watch, 60, ()) != first

    asyncio.run(run())


def test_one_at_a_time_and_few_waiting(maker: Maker) -> None:
    """A second request waits for the first; a request that would wait behind too many is refused."""

    async def run() -> None:
        cache, watch, maker.held = WhatIfCache(Clock()), _watch(), asyncio.Event()
        tasks = [
            asyncio.create_task(cache.get(watch, 60, [Setting(8, number + 1)])) for number in range(MOST_PREDICTIONS)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyError):
            await cache.get(watch, 60, [Setting(1, 1)])
        maker.held.set()
        await asyncio.gather(*tasks)
        assert (maker.calls, maker.most) == (MOST_PREDICTIONS, 1)
        await cache.get(watch, 60, [Setting(1, 1)])

    asyncio.run(run())


def test_a_cancelled_request_leaves_the_others_theirs(maker: Maker) -> None:
    """A browser that goes away does not end the prediction that another waits for."""

    async def run() -> None:
        cache, watch, maker.held = WhatIfCache(Clock()), _watch(), asyncio.Event()
        first, second = (asyncio.create_task(cache.get(watch, 60, ())) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        maker.held.set()
        assert b"stats" in await second
        assert maker.calls == 1

    asyncio.run(run())


def test_a_failure_is_not_kept(maker: Maker) -> None:
    """The next request tries again."""

    async def run() -> None:
        cache, watch, maker.error = WhatIfCache(Clock()), _watch(), OSError("broken")
        with pytest.raises(OSError, match="broken"):
            await cache.get(watch, 60, ())
        maker.error = None
        assert await cache.get(watch, 60, ())
        assert maker.calls == 2

    asyncio.run(run())


def test_few_documents_are_kept(maker: Maker) -> None:
    """Requests for more and more settings do not fill the memory."""

    async def run() -> None:
        cache, watch = WhatIfCache(Clock()), _watch()
        for number in range(1, 100):
            await cache.get(watch, 60, [Setting(number, 1)])
        assert len(cache._cached) == what_if_cache._KEPT
        await cache.get(watch, 60, [Setting(99, 1)])
        assert maker.calls == 99

    asyncio.run(run())


def test_a_pause_after_each(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prediction that took a second is followed by two seconds without one."""
    now, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    async def make(watch: Watch, *_others: object) -> WhatIf:
        nonlocal now
        now += 1.0
        return WhatIf(name=watch.name, time=now)

    monkeypatch.setattr(what_if_cache, "predict_what_if", make)
    monkeypatch.setattr(what_if_cache.asyncio, "sleep", sleep)

    async def run() -> None:
        nonlocal now
        cache, watch = WhatIfCache(Clock(lambda: now)), _watch()
        await cache.get(watch, 60, [Setting(1, 1)])
        now += 0.5
        await cache.get(watch, 60, [Setting(2, 1)])
        now += 2.0
        await cache.get(watch, 60, [Setting(3, 1)])

    asyncio.run(run())
    assert slept == [1.5]
