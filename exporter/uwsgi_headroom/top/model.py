"""What there is to show at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uwsgi_headroom.documents.schema import Server, Summary
from uwsgi_headroom.top.feeds.feed import NO_TREND, Trend

Key = tuple[int, str]
"""A server: the place of its feed, and its name there."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server in the list, as it was listed at `seen_at` (epoch seconds)."""

    key: Key
    summary: Summary
    seen_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ScreenModel:
    """entries: every server, as listed; server: the document of the selected one, with its trend.

    family: documents for the tree of emperors and vassals. troubles: why a feed brought nothing new, by its place; its
    servers are then shown as they were last seen. where: the exporters and servers that top is attached to. notice: a
    message to show once. complete: whether every feed has listed its servers.
    """

    entries: tuple[ServerEntry, ...] = ()
    server: Server | None = None
    trend: Trend = NO_TREND
    family: Mapping[Key, Server] = field(default_factory=dict)
    troubles: Mapping[int, str] = field(default_factory=dict)
    where: str = ""
    notice: str = ""
    complete: bool = True
