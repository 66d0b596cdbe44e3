"""Reads one document from any kind of address, within a deadline and a size cap."""

from __future__ import annotations

import asyncio
import socket

from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import Reason, SourceError
from uwsgi_headroom.source import http, replay, tcp, unix
from uwsgi_headroom.source.address import Address, File, Http, Tcp, Unix
from uwsgi_headroom.source.answer import Answer


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
        raise _explain_os_error(error) from None


async def _read(address: Address, size_cap: int) -> Answer:
    match address:
        case Unix():
            return await unix.read_unix(address, size_cap)
        case Tcp():
            return await tcp.read_tcp(address, size_cap)
        case Http():
            return await http.read_http(address, size_cap)
        case File():
            return replay.replay_file(address, size_cap)


def _explain_os_error(error: OSError) -> SourceError:
    """The operating system's word as one sentence for an operator: what happened, and what to do."""
    reason: Reason = "unreachable"
    advice = str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        reason, advice = "not_found", "no such file: is uWSGI running, with `stats` set to this path?"
    elif isinstance(error, PermissionError):
        reason = "permission"
        advice = (
            "permission denied: run as uWSGI's user, or set its `chmod-socket` so that this user's group may connect"
        )
    elif isinstance(error, ConnectionRefusedError):
        reason = "refused"
        advice = "connection refused: nothing listens here (uWSGI is stopped, or still loading its application)"
    elif isinstance(error, ConnectionError):
        reason, advice = "truncated", "the server closed the connection before it answered"
    elif isinstance(error, socket.gaierror):
        advice = f"the name does not resolve ({error.strerror})"
    return SourceError(reason, advice)
