"""Chooses servers by the names that were asked for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Protocol, TypeVar

from uwsgi_headroom.errors import HeadroomError


class Named(Protocol):
    """A server that a source knows."""

    @property
    def name(self) -> str: ...

    @property
    def service(self) -> str: ...


Server = TypeVar("Server", bound=Named)
_MOST_LISTED = 20

MOST_VALUES = 1_000_000
"""The most quarters of an hour of all servers together: 115 servers over 90 days, whose columns take 1.5 GB."""


def select_servers(found: Sequence[Server], servers: Sequence[str], services: Sequence[str]) -> list[Server]:
    """The servers of these names, and those of these services; all without names. Raises HeadroomError if one of the
    names is unknown."""
    if not servers and not services:
        return list(found)
    for kind, asked, known in (
        ("server", servers, sorted({server.name for server in found})),
        ("service", services, sorted({server.service for server in found if server.service})),
    ):
        for name in asked:
            if name not in known:
                raise _unknown(kind, name, known)
    return [server for server in found if server.name in servers or server.service in services]


def refuse_too_many(servers: Sequence[Server], quarters: int) -> None:
    """Raise HeadroomError if so many servers over so many quarters of an hour would not fit into memory."""
    if len(servers) * quarters > MOST_VALUES:
        most = MOST_VALUES // quarters
        raise HeadroomError(
            f"{len(servers)} servers over {quarters // 96} days are too much at once: choose up to {most} with "
            "--service or --server, or a shorter --range"
        )


def _unknown(kind: str, name: str, known: Sequence[str]) -> HeadroomError:
    near = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(known[:_MOST_LISTED]) + (", ..." if len(known) > _MOST_LISTED else "")
    hint = f"; did you mean {near[0]}?" if near else ""
    return HeadroomError(f"no {kind} {name} in this range{hint}", [f"It has: {listed}" if known else "It has none."])
