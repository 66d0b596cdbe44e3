"""Pushes documents once a second to listeners (Server-Sent Events). Each document is made once for all listeners.

No document is made without listeners. A listener that reads too slowly misses documents: only the newest one is kept,
and at most a connection's buffer of data waits for it (`http_server` ends connections that read too slowly).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.request_values import RETRY_SECONDS, RefusedError

EVERY_SECONDS = 1.0
MakeDocument = Callable[[], Awaitable[bytes | None]]
"""Makes a document; None ends the stream. Raises RefusedError if the exporter is too busy for one now."""

_log = logging.getLogger(__name__)


class EventStreams:
    """The open streams, by key."""

    def __init__(self, most: int = bounds.MOST_STREAMS) -> None:
        self.open = 0
        self._most = most
        self._closed = False
        self._channels: dict[Hashable, _Channel] = {}

    def is_full(self) -> bool:
        """Whether no further stream is allowed."""
        return self.open >= self._most

    def response(self, key: Hashable, make: MakeDocument) -> StreamingResponse:
        """Make a stream of the documents that `make` returns. Streams with the same key share the documents."""
        return _Response(self, key, make)

    def close(self) -> None:
        """End all streams, and each later one as soon as it begins, because the exporter is stopping."""
        self._closed = True
        for channel in self._channels.values():
            channel.end()

    @contextlib.contextmanager
    def subscribe(self, key: Hashable, make: MakeDocument) -> Iterator[AsyncIterator[bytes]]:
        """Receive the events of a key, from the newest on, until the block ends."""
        channel = self._channels.get(key)
        if channel is None or channel.ended:
            channel = self._channels[key] = _Channel(make)
        if self._closed:
            channel.end()
        self.open += 1
        channel.listeners += 1
        try:
            yield channel.events()
        finally:
            self.open -= 1
            channel.listeners -= 1
            if not channel.listeners:
                channel.end()
                if self._channels.get(key) is channel:
                    del self._channels[key]


class _Channel:
    """Makes documents one after another for all listeners of a key."""

    def __init__(self, make: MakeDocument) -> None:
        self.listeners = 0
        self.ended = False
        self._newest = b""
        self._next = asyncio.Event()
        self._make = make
        self._task = asyncio.create_task(self._run(), name="stream")

    async def events(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % (1000 * RETRY_SECONDS)
        while not self.ended:
            following = self._next
            if self._newest:
                yield self._newest
            await following.wait()

    def end(self) -> None:
        self.ended = True
        self._task.cancel()
        self._next.set()

    async def _run(self) -> None:
        """Make documents until `make` returns None. Listeners end with this, even if `make` is cancelled."""
        try:
            while True:
                with contextlib.suppress(RefusedError):
                    if (document := await self._make()) is None:
                        return
                    self._newest = b"data: %b\n\n" % document
                    previous, self._next = self._next, asyncio.Event()
                    previous.set()
                await asyncio.sleep(EVERY_SECONDS)
        except Exception:  # noqa: BLE001 - an internal error about one server must end only its own streams
            _log.error("internal error", exc_info=True)
        finally:
            self.ended = True
            self._next.set()


class _Response(StreamingResponse):
    """A response that subscribes to its key while it is being sent."""

    def __init__(self, streams: EventStreams, key: Hashable, make: MakeDocument) -> None:
        super().__init__((), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._streams, self._key, self._make = streams, key, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.subscribe(self._key, self._make) as events:
            self.body_iterator = events
            await super().__call__(scope, receive, send)
