"""Caches recent history documents: they are the most expensive responses, and several pages request the same ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.documents.history import History, build_history, slice_seconds
from uwsgi_headroom.documents.stored_history import build_stored_history
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.tiers import MINUTES
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web.negotiation import compress
from uwsgi_headroom.web.query_parameters import RefusedError

_KEPT = 8

_WRITTEN_SECONDS = 5.0
"""How long after the end of a minute it is in the file, with most servers."""


@dataclass(frozen=True, slots=True)
class HistoryBody:
    """A document, plain and compressed."""

    plain: bytes
    compressed: bytes


class HistoryCache:
    """Makes one history at a time, and makes each only once until it has a new slice, for any number of requests. After
    one from the file, it rests for as long as that took, so that no requests keep a CPU from the sampling.

    Cancelling a request does not affect others. A failure is not cached: the next request tries again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._build_lock = asyncio.Lock()
        self._rest_until = 0.0  # monotonic
        self._cached: dict[object, tuple[object, asyncio.Task[HistoryBody]]] = {}

    async def get(self, watch: Watch, seconds: float, points: int, until: float | None) -> HistoryBody:
        """Return the history of a server. Arguments are those of `build_history`."""
        key = watch, seconds, points, until
        age = self._clock.epoch() - until if until else 0.0
        newest: object = watch.history.newest_slice(slice_seconds(seconds, points, age))
        if self._is_stored(watch, seconds, points, until):
            newest = (self._clock.epoch() - _WRITTEN_SECONDS) // MINUTES.seconds
        made = self._cached.pop(key, None)
        if made is None or made[0] != newest:
            made = newest, asyncio.create_task(self._build(watch, seconds, points, until), name="history")
            made[1].add_done_callback(lambda task: self._forget_failed(key, task))
        self._cached[key] = made
        while len(self._cached) > _KEPT:
            del self._cached[next(iter(self._cached))]
        return await asyncio.shield(made[1])

    def _forget_failed(self, key: object, task: asyncio.Task[HistoryBody]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and key in self._cached and self._cached[key][1] is task:
            del self._cached[key]

    async def _build(self, watch: Watch, seconds: float, points: int, until: float | None) -> HistoryBody:
        async with self._build_lock:
            document = await self._build_document(watch, seconds, points, until)
        plain = msgspec.json.encode(document)
        return HistoryBody(plain, await asyncio.to_thread(compress, plain))

    async def _build_document(self, watch: Watch, seconds: float, points: int, until: float | None) -> History:
        if watch.writer and self._is_stored(watch, seconds, points, until):
            now = self._clock.epoch()
            end = now if until is None else until
            step = max(slice_seconds(seconds, points), float(MINUTES.seconds))
            await asyncio.sleep(max(0.0, self._rest_until - self._clock.monotonic()))
            began = self._clock.monotonic()
            try:
                return await asyncio.to_thread(
                    build_stored_history, watch.writer.path, watch.name, step, end - seconds, end, now
                )
            except HistoryFileError as error:
                if seconds > HISTORY_SECONDS:
                    raise RefusedError(503, str(error)) from None
            finally:
                self._rest_until = 2 * self._clock.monotonic() - began
        return await build_history(watch, self._clock, seconds, points, until)

    def _is_stored(self, watch: Watch, seconds: float, points: int, until: float | None) -> bool:
        """Whether a history is made from the file: if its slices are not shorter than the file's minutes, or if only
        the file reaches back to its start."""
        since = watch.writer.since.get(watch.name) if watch.writer else None
        if since is None:
            return seconds > HISTORY_SECONDS
        if slice_seconds(seconds, points) >= MINUTES.seconds:
            return True
        start = (self._clock.epoch() if until is None else until) - seconds
        in_memory_since = self._clock.epoch() - watch.history.seconds
        return start < in_memory_since - MINUTES.seconds and since < in_memory_since - MINUTES.seconds
