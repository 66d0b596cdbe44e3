"""Watches a server for a while and judges it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.documents import build, server_state
from uwsgi_headroom.documents.schema import Error, Server
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.row_blocks import ROW_SECONDS
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Address
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.watch import Watch

_STOPPED_SECONDS = 5.0


async def judge(
    watch: Watch, clock: Clock, seconds: float, progress: Callable[[float], None] = lambda _left: None
) -> Server:
    """Watch a server for `seconds` and return its document, which contains the verdict. `progress` is called about once
    a second with the seconds left. An emperor or a router is judged by one reading.

    After a suspension (Ctrl-Z) it starts again, so that no figure covers a time without samples. Cancelled early, it
    judges by the samples so far; cancelled again, it skips the last read. A server that cannot be read or judged has
    the status `unknown`.
    """
    try:
        outcome: Reading | ReadError | None = await watch.reader.read()
        if isinstance(outcome, Reading) and isinstance(outcome.snapshot, Snapshot):
            await _watch(watch, seconds, progress)
            outcome = await _read_last(watch)
        if isinstance(outcome, ReadError):
            raise outcome
    except asyncio.CancelledError:
        return describe_failure(watch, clock, "interrupted", "It was interrupted before the first reading.")
    except ReadError as error:
        return describe_failure(watch, clock, error.reason, server_state.describe_trouble(error))
    return build.build_server(watch, clock, seconds, (seconds,))


def describe_failure(watch: Watch, clock: Clock, reason: str, sentence: str) -> Server:
    """Make the document of a server that was not judged. reason: one word; sentence: the reason, used as verdict."""
    return msgspec.structs.replace(
        build.build_server(watch, clock, 1.0, ()),
        state="down",
        status="unknown",
        verdict=sentence,
        error=Error(reason=reason, message=sentence),
    )


def describe_unread(name: str, address: Address, reason: str, sentence: str) -> Server:
    """Make the document of a target that cannot be watched, such as a silent exporter or a glob without sockets."""
    return describe_failure(Watch(name, address), Clock(), reason, sentence)


async def _watch(watch: Watch, seconds: float, progress: Callable[[float], None]) -> None:
    """Sample the server for `seconds`, or until cancelled. Raises ReadError if sampling ends."""
    sampling = asyncio.create_task(watch.sample(), name="sampling")
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        while (now := loop.time()) < end:
            progress(end - now)
            await asyncio.wait({sampling}, timeout=min(ROW_SECONDS, end - now))
            if sampling.done():
                raise ReadError("internal", f"sampling ended ({type(sampling.exception()).__name__}): please report it")
            if loop.time() > now + _STOPPED_SECONDS:
                end = loop.time() + seconds
    except asyncio.CancelledError:
        return
    finally:
        sampling.cancel()


async def _read_last(watch: Watch) -> Reading | ReadError | None:
    """Read the server once more; if cancelled, return the outcome of the read before."""
    try:
        return await watch.reader.read()
    except asyncio.CancelledError:
        return watch.reader.outcome
