"""How a server is set up: its options, the kernel's limits, its concurrency and the sockets of each worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.record.options import Options

ConcurrencyKind = Literal["threads", "async", "single"]

SocketHolders = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Setup:
    """How a server is set up.

    somaxconn: net.core.somaxconn, which caps `listen`; None if the server has another network namespace, and this
        user may not enter it.
    concurrency_kind: whether a worker serves one request at a time (single), one per thread (threads), or many on one
        thread (async: gevent, ugreen and the like); None if unknown.
    socket_holders: by socket name as in the stats document, the ids of the accepting workers that take requests from
        the socket; None if descriptors are hidden. A socket that is not found is left out.
    mapped: whether some worker does not take requests from every socket (`map-socket`); None if unknown.
    """

    options: Options
    somaxconn: int | None
    concurrency_kind: ConcurrencyKind | None
    socket_holders: SocketHolders | None
    mapped: bool | None


UNKNOWN = Setup(Options(), None, None, None, None)
"""The setup of a server of which nothing is known."""
