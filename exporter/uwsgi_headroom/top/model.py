"""What there is to show at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uwsgi_headroom.documents.schema import Server, Summary
from uwsgi_headroom.top.feeds.feed import NO_TREND, Trend
from uwsgi_headroom.top.navigation import Key


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server in the list, as it was listed at `seen_at` (epoch seconds)."""

    key: Key
    summary: Summary
    seen_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ScreenModel:
    """entries: every server, as listed; server: the document of the one that is looked at, with its trend.

    troubles: why a feed brought nothing new, by its place; all of its is as it was last seen then. where: what is
    attached to.
    notice: something to say once.
    """

    entries: tuple[ServerEntry, ...] = ()
    server: Server | None = None
    trend: Trend = NO_TREND
    troubles: Mapping[int, str] = field(default_factory=dict)
    where: str = ""
    notice: str = ""
