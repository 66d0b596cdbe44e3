"""Behaviours on a connection, for any protocol: silence, drips, floods, early ends."""

from __future__ import annotations

import array
import asyncio
import socket

from tests.support.hostile.bodies import GOOD
from tests.support.hostile.peer import Behaviour, Body, Peer

_BLOCK = 64 * 1024


def answers(body: Body | bytes) -> Behaviour:
    """Sends all of a document at once, then the end."""

    async def behave(peer: Peer) -> None:
        await peer.send(body if isinstance(body, bytes) else body(peer.number))

    return behave


async def never_writes(peer: Peer) -> None:
    await peer.hold()


async def closes_at_once(_peer: Peer) -> None:
    pass


async def resets_at_once(peer: Peer) -> None:
    peer.reset()


def drips(body: bytes, interval: float, size: int = 1) -> Behaviour:
    """Sends `size` bytes at a time, `interval` seconds apart."""

    async def behave(peer: Peer) -> None:
        for start in range(0, len(body), size):
            await peer.send(body[start : start + size])
            await asyncio.sleep(interval)

    return behave


def endless(first: bytes, more: bytes) -> Behaviour:
    """Sends `first`, then `more` repeatedly, as long as the client reads."""
    block = more * (_BLOCK // len(more))

    async def behave(peer: Peer) -> None:
        await peer.send(first)
        while True:
            await peer.send(block)

    return behave


def stays_open_after(body: bytes) -> Behaviour:
    """Sends `body` and keeps the connection."""

    async def behave(peer: Peer) -> None:
        await peer.send(body)
        await peer.hold()

    return behave


def ends_and_stays_open_after(body: bytes) -> Behaviour:
    """Sends `body` and the end of the stream, and keeps the connection."""

    async def behave(peer: Peer) -> None:
        await peer.send(body)
        peer.close_sending_side()
        await peer.hold()

    return behave


def resets_after(body: bytes, seconds: float = 2.0) -> Behaviour:
    """Sends `body`, and resets the connection after `seconds`, in which the client can receive it."""

    async def behave(peer: Peer) -> None:
        await peer.send(body)
        await asyncio.sleep(seconds)
        peer.reset()

    return behave


async def sends_urgent_data(peer: Peer) -> None:
    """Sends TCP urgent data in the middle of a document, which is not part of the stream."""
    half = len(GOOD) // 2
    await peer.send(GOOD[:half])
    peer.connection.send(b"!", socket.MSG_OOB)
    await peer.send(GOOD[half:])


async def passes_descriptors(peer: Peer) -> None:
    """Sends a document with a hundred attached descriptors (of its connection), which a careless reader would keep
    open."""
    descriptors = array.array("i", [peer.connection.fileno()] * 100)
    peer.connection.sendmsg([GOOD], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Uses the given behaviours in turn, one per connection."""

    async def behave(peer: Peer) -> None:
        await behaviours[peer.number % len(behaviours)](peer)

    return behave
