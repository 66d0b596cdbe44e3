"""The data on the screen at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uwsgi_headroom.documents.schema import Server, Summary
from uwsgi_headroom.top.feeds.feed import NO_TREND, Trend

Key = tuple[int, str]
"""Identifies a server: index of its feed, and its name in that feed."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server in the list, as of `seen_at` (epoch seconds)."""

    key: Key
    summary: Summary
    seen_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ScreenModel:
    """The data on the screen.

    entries: every listed server; server: the document of the selected one; trend: the history of that server.
    family: documents for the tree of emperors and vassals. troubles: why a feed returned nothing new, by index of the
    feed, whose servers are then shown as last seen. where: the exporters and servers to which top is attached. notice:
    a temporary message. complete: whether every feed has listed its servers.
    """

    entries: tuple[ServerEntry, ...] = ()
    server: Server | None = None
    trend: Trend = NO_TREND
    family: Mapping[Key, Server] = field(default_factory=dict)
    troubles: Mapping[int, str] = field(default_factory=dict)
    where: str = ""
    notice: str = ""
    complete: bool = True
