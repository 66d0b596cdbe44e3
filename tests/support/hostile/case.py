"""One row of the table: a hostile server, and the expected state of it in the exporter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.support.hostile.listeners import Place, on_http_body, on_tcp, on_unix
from tests.support.hostile.peer import Behaviour
from uwsgi_headroom.errors import Reason


@dataclass(frozen=True)
class Expected:
    """The expected state of a server: whether reads succeed, and the reasons if they fail. With both, reads of both
    kinds happen, and `uwsgi_up` depends on the last ones."""

    read: bool
    reasons: tuple[Reason, ...] = ()


UP = Expected(True)


def down(*reasons: Reason) -> Expected:
    """Every read fails, for one of these reasons."""
    return Expected(False, reasons)


def sometimes(*reasons: Reason) -> Expected:
    """Some reads succeed, and others fail for one of these reasons."""
    return Expected(True, reasons)


@dataclass(frozen=True)
class Case:
    """A case. settings: its settings in the configuration file."""

    name: str
    place: Place
    expected: Expected
    settings: Mapping[str, float]


LONG = {"timeout": 60.0}
"""For servers that answer or fail by themselves: even on a busy machine they must not time out."""

SHORT = {"timeout": 1.0}
"""For servers that never answer."""

SMALL = {**LONG, "size_cap": 64 * 1024}
"""For servers that write endlessly: receiving 6 MB each time would be slow and test nothing more."""

TRANSPORTS = {"unix": on_unix, "tcp": on_tcp, "http": on_http_body}


def over(
    transports: str, name: str, behave: Behaviour, expected: Expected, settings: Mapping[str, float] = LONG
) -> Iterable[Case]:
    """Yields a case of one behaviour for each of these transports."""
    for transport in transports.split():
        yield Case(f"{name} ({transport})", TRANSPORTS[transport](behave), expected, settings)


def at(name: str, place: Place, expected: Expected, settings: Mapping[str, float] = LONG) -> Case:
    """A case of one place."""
    return Case(name, place, expected, settings)
