"""Address to bytes. Nothing here knows JSON or uWSGI's keys; what comes back is what was on the wire.

The rules of a reader that never hurts the server it watches (uWSGI's master writes the document with a blocking
write, and does nothing else meanwhile): receive at once, to the end, as fast as it comes; send nothing to a raw
server; close at the deadline and at the size cap, whatever happens.
"""

from __future__ import annotations

import asyncio

from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source import http, replay, stream
from uwsgi_headroom.source.address import Address, File, Http, Tcp, Unix, parse_address
from uwsgi_headroom.source.stream import Answer


async def read_document(address: Address, *, timeout: float, size_cap: int = SIZE_CAP) -> Answer:
    """Read one document within `timeout` seconds and `size_cap` bytes.

    Raises SourceError. The connection is closed when this returns or raises, whatever the reason.
    """
    try:
        return await asyncio.wait_for(_read(address, size_cap), timeout)
    except asyncio.TimeoutError:
        raise SourceError(
            "timeout",
            f"no whole answer within {timeout:g} s: uWSGI's master is busy (reloading, ending a worker, or held up by "
            "another reader of its stats), or this is no stats server",
        ) from None
    except OSError as error:
        raise stream.explain_os_error(error) from None


async def _read(address: Address, size_cap: int) -> Answer:
    match address:
        case Unix():
            return await stream.read_unix(address, size_cap)
        case Tcp():
            return await stream.read_tcp(address, size_cap)
        case Http():
            return await http.read_http(address, size_cap)
        case File():
            return replay.replay_file(address, size_cap)


__all__ = ["Address", "Answer", "File", "Http", "Tcp", "Unix", "parse_address", "read_document"]
