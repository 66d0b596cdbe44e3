"""Histories are built once for all requests, and failures are not cached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.values import make_server
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import history_cache
from uwsgi_headroom.web.history_cache import HistoryCache

ARGUMENTS = (60.0, 10, None)


class Builder:
    """Replaces `build_history`: counts calls; `held` holds them, `error` fails them."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self.held: asyncio.Event | None = None

    async def __call__(self, *_arguments: object) -> dict[str, int]:
        self.calls += 1
        if self.held:
            await self.held.wait()
        if self.error:
            raise self.error
        return {"call": self.calls}


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    made = Builder()
    monkeypatch.setattr(history_cache, "build_history", made)
    return made


def _watch() -> Watch:
    return Fleet([make_server("/nowhere/stats")]).watches()[0]


def test_made_once(builder: Builder) -> None:
    """Equal requests, simultaneous or later, get the same document."""

    async def run() -> None:
        cache, watch = HistoryCache(Clock()), _watch()
        first, second = await asyncio.gather(cache.get(watch, *ARGUMENTS), cache.get(watch, *ARGUMENTS))
        assert first is second is await cache.get(watch, *ARGUMENTS)
        assert builder.calls == 1

    asyncio.run(run())


def test_a_cancelled_request_leaves_the_others_theirs(builder: Builder) -> None:
    """The other requests get the document, which is built once."""

    async def run() -> None:
        builder.held = asyncio.Event()
        cache, watch = HistoryCache(Clock()), _watch()
        gone, stays = (asyncio.create_task(cache.get(watch, *ARGUMENTS)) for _ in range(2))
        while not builder.calls:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        gone.cancel()
        builder.held.set()
        assert (await stays).plain == b'{"call":1}'
        assert gone.cancelled()
        assert (await cache.get(watch, *ARGUMENTS)).plain == b'{"call":1}'

    asyncio.run(run())


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_what_failed_is_not_kept(builder: Builder, error: Callable[[], BaseException]) -> None:
    """The request sees the failure; the next one builds the document again."""

    async def run() -> None:
        cache, watch = HistoryCache(Clock()), _watch()
        builder.error = error()
        with pytest.raises(type(builder.error)):
            await cache.get(watch, *ARGUMENTS)
        builder.error = None
        assert (await cache.get(watch, *ARGUMENTS)).plain == b'{"call":2}'

    asyncio.run(run())
