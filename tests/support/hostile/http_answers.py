"""Hostile or wrong HTTP responses, to combine with the behaviours of `connections`."""

from __future__ import annotations

import gzip
from functools import cache

from tests.support.hostile.bodies import GOOD
from tests.support.hostile.connections import answers
from tests.support.hostile.peer import Behaviour, Peer

HEAD = b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
"""The head that uWSGI sends before its document."""


def after_request(behave: Behaviour) -> Behaviour:
    """Reads a request, then behaves as given."""

    async def answer(peer: Peer) -> None:
        await peer.receive_request()
        await behave(peer)

    return answer


def behind_head(behave: Behaviour) -> Behaviour:
    """Reads a request and sends uWSGI's head, then behaves as given."""

    async def answer(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(HEAD)
        await behave(peer)

    return answer


def response(status: str, *headers: str, body: bytes = GOOD) -> Behaviour:
    """A response with this status, these headers and a document."""
    return answers(head(status, *headers) + body)


def head(status: str, *headers: str) -> bytes:
    """The head of a response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


@cache
def compressed_bomb(megabytes: int) -> bytes:
    """Megabytes of a document that does not end, compressed to about a thousandth."""
    return gzip.compress(b'{"workers":[' + b"0," * (megabytes << 19))
