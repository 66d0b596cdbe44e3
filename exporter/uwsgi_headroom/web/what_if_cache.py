"""Caches what-if documents: each takes a second of CPU, and several pages request the same ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.documents.predict import PEAK_SECONDS, predict_what_if
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import bounds

PAUSE = 2.0
"""After a prediction, the next one begins after this multiple of the time that it took, so that requests take a third
of a CPU at most, whatever settings they are for."""

_KEPT = 32
_YOUNG_SECONDS = 10.0


class TooManyError(Exception):
    """Too many documents are being made."""


class WhatIfCache:
    """Makes one document at a time, and each only once a minute, for any number of requests.

    Cancelling a request does not affect others. A failure is not cached: the next request tries again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._rested_at = clock.monotonic()
        self._cached: dict[object, tuple[object, asyncio.Task[bytes]]] = {}

    async def get(self, watch: Watch, seconds: float, settings: Sequence[Setting]) -> bytes:
        """Return the document of a server as JSON. Arguments are those of `predict_what_if`. Raises TooManyError."""
        key = watch, seconds, tuple(settings)
        made = self._cached.get(key)
        # While the history is younger than the window, it changes more within a minute.
        step = PEAK_SECONDS if watch.history.seconds >= seconds else _YOUNG_SECONDS
        newest = watch.history.newest_slice(step), watch.state
        if made is None or made[0] != newest:
            if sum(not task.done() for _, task in self._cached.values()) >= bounds.MOST_PREDICTIONS:
                raise TooManyError
            made = newest, asyncio.create_task(self._make(watch, seconds, settings), name="what-if")
            made[1].add_done_callback(lambda task: self._forget_failed(key, task))
        self._cached.pop(key, None)
        self._cached[key] = made
        self._drop_oldest()
        return await asyncio.shield(made[1])

    def _drop_oldest(self) -> None:
        done = [key for key, (_, task) in self._cached.items() if task.done()]
        for key in done[: max(0, len(self._cached) - _KEPT)]:
            del self._cached[key]

    def _forget_failed(self, key: object, task: asyncio.Task[bytes]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and key in self._cached and self._cached[key][1] is task:
            del self._cached[key]

    async def _make(self, watch: Watch, seconds: float, settings: Sequence[Setting]) -> bytes:
        async with self._lock:
            began = self._clock.monotonic()
            if began < self._rested_at:
                await asyncio.sleep(self._rested_at - began)
                began = self._clock.monotonic()
            document = await predict_what_if(watch, self._clock, seconds, settings)
            took = self._clock.monotonic() - began
            self._rested_at = began + took + PAUSE * took
        return msgspec.json.encode(document)
