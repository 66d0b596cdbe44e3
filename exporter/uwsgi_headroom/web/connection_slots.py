"""Bounds what clients may take: how many connections are open, and what a turn of the event loop does for clients.

Of too many connections, the oldest idle one is closed, so that a client that holds connections without requests cannot
shut out others. Oldest means the longest time without a complete request, so an incomplete request makes no connection
younger. If none is idle, the slowest is closed: the one whose client has accepted nothing for the longest time. It is
also closed before a connection that is so new that its request may be on its way. If each connection has a reason to
stay, a few new ones line up for a while.

The bound follows from the descriptors that the process may open. An excess connection must be accepted before it can be
closed, and a closed one keeps its descriptor for another turn of the event loop. So about five times those accepted at
once can be open beside the connections that are kept, with those that line up.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uwsgi_headroom.web import bounds

_log = logging.getLogger(__name__)


class Connection(Protocol):
    """A connection that can be closed to make room."""

    def abort(self) -> None:
        """Close at once."""


class ConnectionSlots:
    """At most `most` connections: idle ones, and busy ones, which have a request without a complete answer; and
    `most_in_line` that wait for a place. clock: seconds, monotonic."""

    def __init__(self, most: int, most_in_line: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._most_in_line = most_in_line
        self._clock = clock
        self._idle: dict[Connection, float] = {}  # since when, oldest first
        self._busy: set[Connection] = set()
        self._waiting: dict[Connection, float] = {}  # those busy ones that wait for their client, slowest first
        self._line: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    def admit(self, connection: Connection) -> bool:
        """Admit a new connection, as idle. If full, close another one; return False if each one has a reason to
        stay."""
        if len(self) >= self.most:
            victim = self._oldest(self._idle) or self._oldest(self._waiting) or next(iter(self._idle), None)
            if victim is None:
                return False
            self.remove(victim)
            victim.abort()
        self._line.discard(connection)
        self._idle[connection] = self._clock()
        return True

    def line_up(self, connection: Connection) -> bool:
        """Have a connection that was not admitted wait for a place; return False if too many do. It is the connection
        that tries again."""
        if len(self._line) < self._most_in_line:
            self._line.add(connection)
        return connection in self._line

    def mark_busy(self, connection: Connection) -> None:
        if connection in self._idle:
            del self._idle[connection]
            self._busy.add(connection)

    def mark_idle(self, connection: Connection) -> None:
        if connection in self._busy:
            self._busy.remove(connection)
            self._waiting.pop(connection, None)
            self._idle[connection] = self._clock()

    def mark_waiting(self, connection: Connection) -> None:
        if connection in self._busy:
            self._waiting[connection] = self._clock()

    def mark_accepted(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        self._busy.discard(connection)
        self._waiting.pop(connection, None)
        self._line.discard(connection)

    def _oldest(self, since: dict[Connection, float]) -> Connection | None:
        """The connection that waits for its client the longest, if that is long enough to call the client slow."""
        for connection, begin in since.items():
            return connection if self._clock() - begin >= bounds.SLOW_SECONDS else None
        return None


class ConnectionLimits(Struct, frozen=True):
    """Numbers of connections kept open, of connections that are accepted at once, and of event streams."""

    connections: int
    accepts: int

    @property
    def streams(self) -> int:
        return min(bounds.MOST_STREAMS, self.connections // 2)


def raise_soft_limit() -> int:
    """Raise the soft limit of open descriptors towards the hard limit; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, bounds.MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


_LEAST_CONNECTIONS, _LEAST_ACCEPTS = 4, 2


def share_out(limit: int, servers: int, listeners: int) -> ConnectionLimits:
    """Compute the HTTP server's share of `limit` descriptors. Of those that servers, listeners and the process itself
    leave, half are for connections, and a third for connections about to be accepted or closed. The rest is for servers
    that globs find later."""
    spare = limit - bounds.OWN_DESCRIPTORS - bounds.DESCRIPTORS_PER_SERVER * servers - listeners
    connections = max(_LEAST_CONNECTIONS, min(bounds.MOST_CONNECTIONS, spare // 2))
    accepts = max(_LEAST_ACCEPTS, min(bounds.ACCEPTS_IN_A_TURN, spare // 12))
    if connections < bounds.MOST_CONNECTIONS:
        fields = {"limit": limit, "connections": connections}
        _log.warning("few descriptors: raise the hard limit (ulimit -n, LimitNOFILE=)", extra={"fields": fields})
    return ConnectionLimits(connections, accepts)


EXCHANGE = "uwsgi_headroom.exchange"
"""The key of a request's scope for its `http_server.Exchange`, which says whether the client has left."""

_Queue = deque[tuple[asyncio.Future[None], Scope]]


class RequestTurns:
    """ASGI middleware that lets at most `bounds.REQUESTS_IN_A_TURN` requests begin, or pieces of responses be sent, in
    a turn; others wait in order.

    A read of a server takes several turns, one for each step. If 200 clients were answered in each of them, a read
    would take longer than the time from one sample to the next.

    Requests that begin and pieces of responses wait apart, and take places alternately. In one queue, each of the
    thirty pieces of a scrape of a thousand workers would wait behind all requests of a crowd.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._requests: _Queue = deque()
        self._pieces: _Queue = deque()
        self._begun = 0  # in this turn
        self._is_counting = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_turn(message: Message) -> None:
            if message.get("more_body"):
                await self._wait_for_turn(self._pieces, scope)
            await send(message)

        await self._wait_for_turn(self._requests, scope)
        if not _has_left(scope):
            await self._app(scope, receive, send_in_turn)

    async def _wait_for_turn(self, queue: _Queue, scope: Scope) -> None:
        if self._begun >= bounds.REQUESTS_IN_A_TURN or queue:
            turn = asyncio.get_running_loop().create_future()
            queue.append((turn, scope))
            await turn
            return
        self._begun += 1
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._begun = 0
        takes, other = self._pieces, self._requests
        while (takes or other) and self._begun < bounds.REQUESTS_IN_A_TURN:
            turn, scope = (takes or other).popleft()
            takes, other = other, takes
            if not turn.done():  # its request was cancelled
                turn.set_result(None)
                self._begun += not _has_left(scope)
        self._is_counting = self._begun > 0
        if self._is_counting:
            asyncio.get_running_loop().call_soon(self._begin_turn)


def _has_left(scope: Scope) -> bool:
    return EXCHANGE in scope and bool(scope[EXCHANGE].has_left)
