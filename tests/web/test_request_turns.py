"""A crowd of clients takes few places in each turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.support.cancellation import cancelled_everywhere
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.connection_slots import RequestTurns
from uwsgi_headroom.web.request_values import PiecewiseResponse

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


async def receive() -> Any:
    return await asyncio.Event().wait()


async def send(_message: object) -> None:
    pass


class Loop:
    """Counts the turns of the event loop, and what happens in each."""

    def __init__(self) -> None:
        self.turn = 0
        self.events: Counter[int] = Counter()

    def note(self) -> None:
        self.events[self.turn] += 1

    def count(self) -> None:
        self.turn += 1
        self._handle = asyncio.get_running_loop().call_soon(self.count)

    def stop(self) -> None:
        self._handle.cancel()


def test_few_requests_begin_in_a_turn() -> None:
    """200 requests at once begin two by two, in their order."""
    order: list[int] = []

    async def run() -> None:
        loop = Loop()

        async def app(scope: Any, _receive: object, _send: object) -> None:
            order.append(scope["number"])
            loop.note()

        turns = RequestTurns(app)
        requests = [asyncio.create_task(turns({**SCOPE, "number": n}, receive, send)) for n in range(200)]
        loop.count()
        await asyncio.gather(*requests)
        loop.stop()
        assert max(loop.events.values()) <= bounds.REQUESTS_IN_A_TURN
        assert loop.turn <= 200 / bounds.REQUESTS_IN_A_TURN + 5
        await asyncio.sleep(0.01)
        assert not turns._is_counting  # an idle exporter has no turns of its own

    asyncio.run(run())
    assert order == list(range(200))


def test_pieces_of_large_responses_take_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large body is sent in pieces, each a place in a turn, and arrives whole."""
    monkeypatch.setattr(bounds, "PIECE_BYTES", 10)
    body = bytes(range(95))
    received: dict[int, list[Any]] = {}

    async def run() -> None:
        loop = Loop()
        turns = RequestTurns(PiecewiseResponse(body))

        async def one(number: int) -> None:
            async def send(message: Any) -> None:
                received.setdefault(number, []).append(message)
                if message.get("more_body"):
                    loop.note()

            await turns(SCOPE, receive, send)

        requests = [asyncio.create_task(one(number)) for number in range(20)]
        loop.count()
        await asyncio.gather(*requests)
        loop.stop()
        assert max(loop.events.values()) <= bounds.REQUESTS_IN_A_TURN

    asyncio.run(run())
    for start, *pieces in received.values():
        assert (start["status"], dict(start["headers"])[b"content-length"]) == (200, b"95")
        assert b"".join(piece["body"] for piece in pieces) == body
        assert [piece["more_body"] for piece in pieces] == [True] * 9 + [False]
        assert max(len(piece["body"]) for piece in pieces) == 10


def test_a_large_response_does_not_wait_behind_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside 200 requests that wait to begin, each piece of a response waits for two turns at most."""
    monkeypatch.setattr(bounds, "PIECE_BYTES", 10)

    async def run() -> None:
        loop = Loop()
        large = PiecewiseResponse(bytes(95))
        begun: list[int] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.append(scope["number"])
            if scope["number"] == 0:
                await large(scope, receive, send)

        turns = RequestTurns(app)
        first = asyncio.create_task(turns({**SCOPE, "number": 0}, receive, send))
        crowd = [asyncio.create_task(turns({**SCOPE, "number": n}, receive, send)) for n in range(1, 201)]
        loop.count()
        await first
        assert loop.turn <= 2 * 10 + 2
        await asyncio.gather(*crowd)
        loop.stop()
        assert begun == list(range(201))

    asyncio.run(run())


def test_head_of_a_large_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of exactly one piece is sent at once, and an empty one too."""
    monkeypatch.setattr(bounds, "PIECE_BYTES", 10)
    for size in (0, 10):
        sent: list[Any] = []

        async def note(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        asyncio.run(PiecewiseResponse(bytes(size))(SCOPE, receive, note))
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


def test_cancelled_anywhere() -> None:
    """A request that ends while it waits takes no place from those behind it."""

    async def run() -> None:
        async def app(_scope: object, _receive: object, _send: object) -> None:
            await asyncio.sleep(0)

        turns = RequestTurns(app)

        async def crowd() -> None:
            await asyncio.gather(*(turns(SCOPE, receive, send) for _ in range(7)))

        async def check() -> None:
            await asyncio.wait_for(turns(SCOPE, receive, send), 60)

        assert await cancelled_everywhere(crowd, check) >= 1
        await asyncio.sleep(0.01)
        assert not turns._requests
        assert not turns._pieces

    asyncio.run(run())
