"""Regimes: spans of days between which the level of daily peaks changed in a step (a deploy, traffic moved)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uwsgi_headroom.report.model import EventMark
from uwsgi_headroom.report.statistics.peaks import DailyPeaks
from uwsgi_headroom.report.statistics.weekly import WeeklyPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Consecutive days without a step.

    first, last: ordinals of local days, both included. known: days with a peak. level: the median peak in the unit of
    the values, without the weekly pattern. change: the step at the regime's first day, as a share of the level just
    before (0.5: half as much again); nan for the first regime. bend: there is no step; the growth changed.
    event: the event that is taken for the cause, as its first day is the day of the change or the day before; None
    if there is none.
    """

    first: int
    last: int
    known: int
    level: float
    change: float
    bend: bool = False
    event: EventMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Regimes:
    """spans: the regimes, oldest first; empty only without any peak. exceptions: days (ordinals) that are outside of
    what is usual in their regime, as holidays or a flood of requests are. pattern: the weekly pattern."""

    spans: tuple[Regime, ...]
    exceptions: tuple[int, ...]
    pattern: WeeklyPattern

    @property
    def present(self) -> Regime | None:
        """The last regime."""
        return self.spans[-1] if self.spans else None


def find_regimes(peaks: DailyPeaks, events: Sequence[EventMark] = ()) -> Regimes:
    """Find the steps in daily peaks.

    An event makes a step on its day or the day after more likely, unless there are so many events that they say
    nothing. Levels that come back within three weeks are exceptions, not regimes.
    """
    raise NotImplementedError
