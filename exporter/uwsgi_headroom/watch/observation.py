"""One server as it was last observed: what the metrics of a scrape are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.journal.events import Kind
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.pace import Pace


@dataclass(frozen=True)
class ExporterHealth:
    """How the exporter itself is: by how much its event loop was late of late, in seconds; how often background work
    ended and began again, by what it does."""

    loop_lag: float = 0.0
    restarts: Mapping[str, int] = field(default_factory=dict)


WELL = ExporterHealth()
"""Nothing late, nothing ended."""


@dataclass(frozen=True)
class Observation:
    """What came of reading one server: `outcome` is a reading or the reason why there is none, `figures` those of each
    window that the history reaches into, the longest last; others_follow: whether the CPU use of
    others grows with the requests, None where that is not known; events: how many there were of
    each kind."""

    name: str
    address: str
    outcome: Reading | ReadError
    read_errors: Mapping[Reason, int]
    totals: Totals
    pace: Pace
    figures: Sequence[Figures]
    others_follow: bool | None = None
    events: Mapping[Kind, int] = field(default_factory=dict)

    @property
    def reading(self) -> Reading | None:
        return self.outcome if isinstance(self.outcome, Reading) else None
