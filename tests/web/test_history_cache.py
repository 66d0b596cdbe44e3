"""Histories are built once for all requests, and failures are not cached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.clock import MovableClock
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.values import make_server
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import history_cache
from uwsgi_headroom.web.history_cache import HistoryCache
from uwsgi_headroom.web.query_parameters import RefusedError

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


class StoredBuilder:
    """Replaces `build_stored_history`: each call takes `seconds` of a movable clock."""

    def __init__(self, clock: MovableClock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self.steps: list[float] = []
        self.error: Exception | None = None

    def __call__(self, _path: object, _name: str, step: float, *_times: float) -> dict[str, int]:
        self._clock.move(self._seconds)
        self.steps.append(step)
        if self.error:
            raise self.error
        return {"call": len(self.steps)}


@dataclass
class Writer:
    """Takes the place of a history writer."""

    path: Path = Path("/nowhere")
    since: dict[str, float] = field(default_factory=dict)


@pytest.fixture
def moved() -> MovableClock:
    return MovableClock()


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, moved: MovableClock) -> StoredBuilder:
    made = StoredBuilder(moved, 3.0)
    monkeypatch.setattr(history_cache, "build_stored_history", made)
    return made


def _kept_watch() -> Watch:
    watch = _watch()
    watch.writer = Writer(since={watch.name: 0.0})  # type: ignore[assignment]
    return watch


def test_it_rests_after_a_history_from_the_file(
    builder: Builder, stored: StoredBuilder, moved: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as the history took; a history from memory makes nobody wait."""
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(history_cache.asyncio, "sleep", rest)

    async def run() -> None:
        cache, watch = HistoryCache(moved.clock), _kept_watch()
        await cache.get(watch, 86400.0, 288, None)
        await cache.get(watch, 86400.0, 144, None)
        moved.move(10.0)
        await cache.get(watch, 86400.0, 72, None)

    asyncio.run(run())
    assert rests == [0.0, 3.0, 0.0]
    assert stored.steps == [300.0, 600.0, 1200.0]


def test_a_file_that_fails(builder: Builder, stored: StoredBuilder, moved: MovableClock) -> None:
    """An hour comes from memory then; for more, the request is refused with the reason."""
    stored.error = HistoryFileError("the file is damaged")

    async def run() -> None:
        cache, watch = HistoryCache(moved.clock), _kept_watch()
        assert b"call" in (await cache.get(watch, 3600.0, 60, None)).plain
        with pytest.raises(RefusedError, match="the file is damaged") as refused:
            await cache.get(watch, 7200.0, 120, None)
        assert refused.value.status == 503

    asyncio.run(run())
    assert (len(stored.steps), builder.calls) == (2, 1)
