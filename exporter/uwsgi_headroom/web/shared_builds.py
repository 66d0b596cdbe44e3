"""Builds each answer once for all who want it: for requests, or for the listeners of a stream (Server-Sent Events).

* An answer is built at most once for each state of its server. Requests that arrive meanwhile share the build.
* When every request that waits for a build has left, the build is cancelled.
* Builds of one kind take turns. After one that took a second, its kind rests for `rest` seconds, which bounds the CPU
  that requests take, whatever they ask for.
* A recent answer is given again for `AGAIN` times as long as its build took, even if the server was read since then.
  Figures of the exporter itself change without a reading: in an answer they are up to its kind's `seconds` old.
* No answer from before a reload of the configuration is given after it, whether the reload succeeded or failed.
* Builds that wait, and answers that are kept, are few. A request beyond that is refused with 503 and Retry-After.
* No document is made without listeners. A listener that reads too slowly misses documents: at most a connection's
  buffer of data waits for it (`http_server` ends connections that read too slowly).
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping
from functools import partial

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.request_values import RETRY_SECONDS, PiecewiseResponse, RefusedError, accepts_gzip

AGAIN = 3.0
"""A new answer every four times as long as its build takes, at most: so one document that many clients request takes a
quarter of a CPU. It is then at most that much older than the server's last reading: 3 ms with 4 workers, 0.15 s with
1,000."""

_LARGE_BYTES = 2 * 2**20
"""From this size on, compression takes too long for the event loop: 4 ms per megabyte."""

_log = logging.getLogger(__name__)

Build = Callable[[], Awaitable[bytes]]
"""Builds the body of an answer. Raises RefusedError."""


class BuildKind(Struct, frozen=True):
    """A kind of answers, whose builds take turns.

    rest: how long the kind rests after a build, as a multiple of the time that it took. most: builds that run or wait.
    seconds: how long an answer is kept at most, even if the state of its server is the same.
    """

    name: str
    rest: float
    most: int
    seconds: float


compress = partial(gzip.compress, compresslevel=1, mtime=0)
"""Equal bodies give equal bytes. Level 6 makes a response a fifth smaller, and takes three times the CPU: too much
beside a busy server."""

_LEAST_BYTES = 8192
"""From this size on, compression saves a packet."""


class Body:
    """The body of a response, compressed once for all clients that accept gzip. compressed: its gzip; empty before."""

    def __init__(self, plain: bytes, compressed: bytes = b"") -> None:
        self.plain, self.compressed = plain, compressed
        self._compressing: asyncio.Task[None] | None = None

    async def respond(self, request: Request, headers: Mapping[str, str], media_type: str | None = None) -> Response:
        """Make a response. headers: must contain `Vary: Accept-Encoding` and, without a media type, `Content-Type`."""
        is_worth = self.compressed or len(self.plain) >= _LEAST_BYTES
        if not is_worth or not accepts_gzip(request.headers.get("accept-encoding", "")):
            return PiecewiseResponse(self.plain, 200, headers, media_type)
        if not self.compressed:
            self._compressing = self._compressing or asyncio.create_task(self._compress(), name="gzip")
            await asyncio.shield(self._compressing)
        return PiecewiseResponse(self.compressed, 200, {**headers, "Content-Encoding": "gzip"}, media_type)

    async def _compress(self) -> None:
        """Compress a large body in a thread, as zlib releases Python's lock."""
        if len(self.plain) >= _LARGE_BYTES:
            self.compressed = await asyncio.to_thread(compress, self.plain)
        else:
            self.compressed = compress(self.plain)

    @property
    def size(self) -> int:
        return len(self.plain) + len(self.compressed)


class _Kept(Struct, frozen=True):
    answer: Body
    state: object
    again_until: float
    timer: asyncio.TimerHandle


class _Lane:
    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.rests_until = float("-inf")
        self.builds: set[_Running] = set()


class _Running:
    """One build, from its place in the queue to its end. state: of the server when it began, None before."""

    def __init__(self) -> None:
        self.askers = 0
        self.has_begun = False
        self.state: object = None
        self.is_given_up = False
        self.task: asyncio.Task[Body | RefusedError]


class SharedBuilds:
    """All builds and kept answers of the exporter. reload: returns the outcome of the last reload."""

    def __init__(self, clock: Clock, reload: Callable[[], Hashable] = lambda: None) -> None:
        self._clock = clock
        self._reload = reload
        self._lanes: dict[BuildKind, _Lane] = {}
        self._kept: dict[Hashable, _Kept] = {}  # least recently used first
        self._newest: dict[Hashable, _Running] = {}
        self._is_closed = False

    async def get(
        self, kind: BuildKind, key: Hashable, state: Callable[[], object], build: Build, request: Request | None = None
    ) -> Body:
        """Return the answer of a key, built if there is none of the present state.

        key: the route and the parameters that matter. state: returns what changes when the answer does. request: ends
        to wait when its client leaves. Raises RefusedError, or ClientDisconnect if the client has left.
        """
        # Not a part of the state: for a while, an answer of an older state is given.
        key = self._reload(), key
        if kept := self._find_kept(key, state()):
            return kept
        running = self._join(key, state()) or self._begin(kind, key, state, build)
        running.askers += 1
        try:
            await _wait(running.task, request.receive if request else None)
        finally:
            running.askers -= 1
            if not running.askers and not running.task.done():
                running.is_given_up = True
                running.task.cancel()
        if running.task.cancelled():
            raise RefusedError(503, "the exporter is stopping")
        result = running.task.result()
        if isinstance(result, RefusedError):  # an exception that several requests raise would grow
            raise RefusedError(result.status, str(result))
        return result

    async def respond(
        self,
        request: Request,
        kind: BuildKind,
        key: Hashable,
        state: Callable[[], object],
        build: Build,
        headers: Mapping[str, str],
        media_type: str | None = None,
    ) -> Response:
        return await (await self.get(kind, key, state, build, request)).respond(request, headers, media_type)

    def close(self) -> None:
        """Cancel every build, and refuse all later ones, because the exporter is stopping."""
        self._is_closed = True
        for lane in self._lanes.values():
            for running in lane.builds:
                running.task.cancel()
        for key in list(self._kept):
            self._drop(key)

    def _find_kept(self, key: Hashable, state: object) -> Body | None:
        kept = self._kept.get(key)
        if kept is None or not (kept.state == state or self._clock.monotonic() < kept.again_until):
            return None
        self._kept[key] = self._kept.pop(key)
        return kept.answer

    def _join(self, key: Hashable, state: object) -> _Running | None:
        """The build of a key that has not begun, or that began in this state."""
        running = self._newest.get(key)
        if running is None or running.is_given_up or (running.has_begun and running.state != state):
            return None
        return running

    def _begin(self, kind: BuildKind, key: Hashable, state: Callable[[], object], build: Build) -> _Running:
        lane = self._lanes.setdefault(kind, _Lane())
        if self._is_closed or len(lane.builds) >= kind.most:
            raise RefusedError(503, f"too many {kind.name} are being built; retry later")
        running = self._newest[key] = _Running()
        lane.builds.add(running)
        running.task = asyncio.create_task(self._run(kind, lane, key, running, state, build), name=f"build {kind.name}")
        running.task.add_done_callback(lambda _task: self._end(lane, key, running))
        return running

    def _end(self, lane: _Lane, key: Hashable, running: _Running) -> None:
        # Not at the end of `_run`: a task cancelled before its first step never runs that.
        lane.builds.discard(running)
        if self._newest.get(key) is running:
            del self._newest[key]

    async def _run(
        self, kind: BuildKind, lane: _Lane, key: Hashable, running: _Running, state: Callable[[], object], build: Build
    ) -> Body | RefusedError:
        async with lane.turn:
            if (rest := lane.rests_until - self._clock.monotonic()) > 0:
                await asyncio.sleep(rest)
            running.has_begun, running.state = True, state()
            began = self._clock.monotonic()
            try:
                answer = Body(await build())
            except RefusedError as error:
                return RefusedError(error.status, str(error))
            except Exception:  # noqa: BLE001 - logged once for all who wait
                _log.error("internal error", exc_info=True)
                return RefusedError(500, "internal error: see the exporter's log")
            finally:
                ended = self._clock.monotonic()
                lane.rests_until = ended + kind.rest * (ended - began)
            self._keep(kind, key, answer, running.state, ended + AGAIN * (ended - began))
            return answer

    def _keep(self, kind: BuildKind, key: Hashable, answer: Body, state: object, again_until: float) -> None:
        if self._is_closed:
            return
        self._drop(key)
        timer = asyncio.get_running_loop().call_later(kind.seconds, self._drop, key)
        self._kept[key] = _Kept(answer, state, again_until, timer)
        while len(self._kept) > 1 and (len(self._kept) > bounds.MOST_ANSWERS or self.size > bounds.ANSWERS_BYTES):
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        if kept := self._kept.pop(key, None):
            kept.timer.cancel()

    @property
    def size(self) -> int:
        return sum(kept.answer.size for kept in self._kept.values())


async def _wait(task: asyncio.Task[Body | RefusedError], receive: Receive | None) -> None:
    """Wait for a task, however it ends, without cancelling it. Raises ClientDisconnect if the client leaves first."""
    if receive is None:
        await asyncio.wait({task})
        return

    async def wait_for_leaving() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.create_task(wait_for_leaving(), name="client")
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    if not task.done():
        raise ClientDisconnect


EVERY_SECONDS = 1.0
MakeDocument = Callable[[], Awaitable[bytes | None]]
"""Makes a document; None ends the stream. Raises RefusedError if the exporter is too busy for one now."""


def pause_seconds(key: Hashable, now: float) -> float:
    """The time until the next document of a stream. Streams of one key have the same instants, so that they share each
    build; those of other keys have others, so that builds do not wait for each other."""
    return EVERY_SECONDS - (now + hash(key) % 997 / 997) % EVERY_SECONDS


class EventStreams:
    """The open streams, of which each takes the newest document when its listener has accepted the one before."""

    def __init__(self, most: int = bounds.MOST_STREAMS) -> None:
        self.open = 0
        self._most = most
        self._is_closed = False
        self._waits: set[asyncio.Future[bytes | None]] = set()

    def is_full(self) -> bool:
        return self.open >= self._most

    def response(self, key: Hashable, make: MakeDocument) -> StreamingResponse:
        return _Response(self, key, make)

    def close(self) -> None:
        """End all streams, and each later one as soon as it begins, because the exporter is stopping."""
        self._is_closed = True
        for wait in self._waits:
            wait.cancel()

    async def events(self, key: Hashable, make: MakeDocument) -> AsyncGenerator[bytes, None]:
        """The events of a stream, in parts, so that no listener needs a copy of a document."""
        yield b"retry: %d\n\n" % (1000 * RETRY_SECONDS)
        while not self._is_closed:
            try:
                document = await self._wait(make())
            except RefusedError:
                document = b""
            except Exception:  # noqa: BLE001 - an internal error about one server must end only its own streams
                _log.error("internal error", exc_info=True)
                return
            if document is None:
                return
            for part in (b"data: ", document, b"\n\n") if document else ():
                yield part
            if self._is_closed:  # while the listener took it
                return
            await self._wait(asyncio.sleep(pause_seconds(key, asyncio.get_running_loop().time()), None))

    async def _wait(self, work: Awaitable[bytes | None]) -> bytes | None:
        """Wait for work; None if the exporter is stopping."""
        wait = asyncio.ensure_future(work)
        self._waits.add(wait)
        try:
            await asyncio.wait({wait})
            return None if wait.cancelled() else wait.result()
        finally:
            self._waits.discard(wait)
            wait.cancel()


class _Response(StreamingResponse):
    """A response that is an open stream while it is being sent."""

    def __init__(self, streams: EventStreams, key: Hashable, make: MakeDocument) -> None:
        super().__init__((), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._streams, self._key, self._make = streams, key, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.open += 1
        try:
            async with contextlib.aclosing(self._streams.events(self._key, self._make)) as self.body_iterator:
                await super().__call__(scope, receive, send)
        finally:
            self._streams.open -= 1
