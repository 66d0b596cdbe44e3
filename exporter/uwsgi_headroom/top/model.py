"""What there is to show at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.documents.schema import Server, Summary
from uwsgi_headroom.top.feeds.feed import NO_TREND, Trend
from uwsgi_headroom.top.navigation import Key


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server in the list."""

    key: Key
    summary: Summary


@dataclass(frozen=True, slots=True)
class ScreenModel:
    """entries: every server, as listed; server: the document of the one that is looked at, with its trend.

    trouble: why a feed brought nothing new, then all of its is as it was last seen. where: what is attached to.
    notice: something to say once.
    """

    entries: tuple[ServerEntry, ...] = ()
    server: Server | None = None
    trend: Trend = NO_TREND
    trouble: str = ""
    where: str = ""
    notice: str = ""
