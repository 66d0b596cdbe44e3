"""Documents pushed once a second to whoever listens (Server-Sent Events), made once however many they are.

Nothing is made while nobody listens. Who reads too slowly misses documents: there is only ever the newest one, and no
more of it than the connection's own buffer (see `connection_limits`, which ends those that do not read at all).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from uwsgi_headroom.web import bounds

EVERY_SECONDS = 1.0
RETRY_SECONDS = 2
"""How long a browser waits before it connects again."""

MakeDocument = Callable[[], Awaitable[bytes | None]]
"""What makes a document; None when there will be no other."""

_log = logging.getLogger(__name__)


class EventStreams:
    """The streams that are open, by what they tell."""

    def __init__(self, most: int = bounds.MOST_STREAMS) -> None:
        self.open = 0
        self._most = most
        self._closed = False
        self._channels: dict[Hashable, _Channel] = {}

    def is_full(self) -> bool:
        """Whether there may be no more of them."""
        return self.open >= self._most

    def response(self, key: Hashable, make: MakeDocument) -> StreamingResponse:
        """A stream of what `make` makes; whoever has the same key gets the same."""
        return _Response(self, key, make)

    def close(self) -> None:
        """End all streams, and each later one as soon as it begins: the exporter stops."""
        self._closed = True
        for channel in self._channels.values():
            channel.end()

    @contextlib.contextmanager
    def subscribe(self, key: Hashable, make: MakeDocument) -> Iterator[AsyncIterator[bytes]]:
        """What is told under this key, from the newest on, until the block ends."""
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
    """One document after the other, for several listeners."""

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
        """Make documents until there is no other. However this ends, a cancelled read of `make` too, listeners end."""
        try:
            while (document := await self._make()) is not None:
                self._newest = b"data: %b\n\n" % document
                previous, self._next = self._next, asyncio.Event()
                previous.set()
                await asyncio.sleep(EVERY_SECONDS)
        except Exception:  # noqa: BLE001 - our own mistake about one server ends its streams, and nothing else
            _log.error("internal error", exc_info=True)
        finally:
            self.ended = True
            self._next.set()


class _Response(StreamingResponse):
    """Listens for exactly as long as it is being sent."""

    def __init__(self, streams: EventStreams, key: Hashable, make: MakeDocument) -> None:
        super().__init__((), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._streams, self._key, self._make = streams, key, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.subscribe(self._key, self._make) as events:
            self.body_iterator = events
            await super().__call__(scope, receive, send)
