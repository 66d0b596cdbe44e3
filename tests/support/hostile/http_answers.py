"""HTTP answers that are hostile or wrong. What they are in front of comes from `connections`."""

from __future__ import annotations

import gzip
from functools import cache

from tests.support.hostile.bodies import GOOD
from tests.support.hostile.connections import answers
from tests.support.hostile.peer import Behaviour, Peer

HEAD = b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
"""What uWSGI sends before its document."""


def after_request(behave: Behaviour) -> Behaviour:
    """Take a request first."""

    async def answer(peer: Peer) -> None:
        await peer.receive_request()
        await behave(peer)

    return answer


def behind_head(behave: Behaviour) -> Behaviour:
    """Take a request and send uWSGI's head first: what comes next is the document."""

    async def answer(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(HEAD)
        await behave(peer)

    return answer


def response(status: str, *headers: str, body: bytes = GOOD) -> Behaviour:
    """An answer of this status with these headers and a document."""
    return answers(head(status, *headers) + body)


def head(status: str, *headers: str) -> bytes:
    """The head of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


@cache
def compressed_bomb(megabytes: int) -> bytes:
    """So many megabytes of a document that does not end, a thousandth of that when compressed."""
    return gzip.compress(b'{"workers":[' + b"0," * (megabytes << 19))
