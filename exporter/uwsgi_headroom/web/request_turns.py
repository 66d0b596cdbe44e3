"""Does little for clients in each turn of the event loop, so that a crowd of them leaves time to sampling.

A read of a server takes several turns, one for each step. If 200 clients were answered in each of them, a read would
take longer than the time from one sample to the next.

Requests that begin and pieces of responses wait apart, and take places alternately. In one queue, each of the thirty
pieces of a scrape of a thousand workers would wait behind all requests of a crowd.
"""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uwsgi_headroom.web import bounds

EXCHANGE = "uwsgi_headroom.exchange"
"""The key of a request's scope for its `http_connection.Exchange`, which says whether the client has left."""

_Queue = deque[tuple[asyncio.Future[None], Scope]]


class RequestTurns:
    """ASGI middleware that lets at most `bounds.REQUESTS_IN_A_TURN` requests begin, or pieces of responses be sent, in
    a turn; others wait in order."""

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
    """Whether the client of a request has left."""
    return EXCHANGE in scope and bool(scope[EXCHANGE].has_left)
