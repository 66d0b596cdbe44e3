"""Holds the data on the screen at one moment, and sorts its servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from uwsgi_headroom.check.worker_table import sort_by_figure
from uwsgi_headroom.documents.build import natural, urgency
from uwsgi_headroom.documents.schema import ServerDocument, Summary
from uwsgi_headroom.top.feeds import NO_TREND, Trend

Key = tuple[int, str]
"""Identifies a server: index of its feed, and its name in that feed."""


class ServerEntry(Struct, frozen=True):
    """A server in the list, as of `seen_at` (epoch seconds)."""

    key: Key
    summary: Summary
    seen_at: float = 0.0


class ScreenModel(Struct, frozen=True):
    entries: tuple[ServerEntry, ...] = ()
    """Every listed server."""
    server: ServerDocument | None = None
    """The document of the selected server."""
    trend: Trend = NO_TREND
    """The history of that server."""
    troubles: Mapping[int, str] = field(default_factory=dict)
    """Why a feed returned nothing new, by index of the feed. Its servers are then shown as last seen."""
    where: str = ""
    """The exporters and servers to which top is attached."""
    notice: str = ""
    """A temporary message."""
    complete: bool = True
    """Whether every feed has listed its servers."""


SERVER_SORTS = {"u": "urgency", "n": "name", "r": "throughput", "w": "response", "b": "busy"}
"""The keys that sort the list of servers."""

_FIGURES: Mapping[str, Callable[[Summary], float | None]] = {
    "throughput": lambda summary: summary.throughput,
    "response": lambda summary: summary.response_time,
    "busy": lambda summary: summary.observed,
}


def arrange_entries(entries: Sequence[ServerEntry], text: str = "", sort: str = "urgency") -> list[ServerEntry]:
    """Filter and sort servers: by urgency as the API does, by figures the largest first and unknown ones last."""
    shown = [entry for entry in entries if matches(entry.summary, text)]
    if sort == "urgency":
        return sorted(shown, key=lambda entry: urgency(entry.summary))
    if sort == "name":
        return sorted(shown, key=lambda entry: natural(entry.summary.name))
    return sort_by_figure(shown, lambda entry: _FIGURES[sort](entry.summary))


def matches(summary: Summary, text: str) -> bool:
    """Whether a server's name, address, state or status contains a text, regardless of case."""
    words = f"{summary.name} {summary.address} {summary.state} {summary.status}"
    return text.casefold() in words.casefold()
