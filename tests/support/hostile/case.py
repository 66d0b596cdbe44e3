"""One row of the table: a hostile server, and what the exporter makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.support.hostile.listeners import Place, on_http_body, on_tcp, on_unix
from tests.support.hostile.peer import Behaviour
from uwsgi_headroom.errors import Reason


@dataclass(frozen=True)
class Expected:
    """What the exporter makes of a server: whether it is read, and why not when it is not. With both, reads of both
    kinds happen, and `uwsgi_up` is whatever the last ones make it."""

    read: bool
    reasons: tuple[Reason, ...] = ()


UP = Expected(True)


def down(*reasons: Reason) -> Expected:
    """It is never read, for one of these reasons."""
    return Expected(False, reasons)


def sometimes(*reasons: Reason) -> Expected:
    """It is read now and then, and at other times not, for one of these reasons."""
    return Expected(True, reasons)


@dataclass(frozen=True)
class Case:
    """`settings` are those of its line in the configuration file."""

    name: str
    place: Place
    expected: Expected
    settings: Mapping[str, float]


LONG = {"timeout": 60.0}
"""For all servers that answer, or that fail without a deadline: on a busy machine they must not meet one."""

SHORT = {"timeout": 1.0}
"""For servers that never answer."""

SMALL = {**LONG, "size_cap": 64 * 1024}
"""For servers that write without end: to receive 6 MB each time would cost more than it tests."""

TRANSPORTS = {"unix": on_unix, "tcp": on_tcp, "http": on_http_body}


def over(
    transports: str, name: str, behave: Behaviour, expected: Expected, settings: Mapping[str, float] = LONG
) -> Iterable[Case]:
    """A case of one behaviour for each of these transports."""
    for transport in transports.split():
        yield Case(f"{name} ({transport})", TRANSPORTS[transport](behave), expected, settings)


def at(name: str, place: Place, expected: Expected, settings: Mapping[str, float] = LONG) -> Case:
    """A case of one place."""
    return Case(name, place, expected, settings)
