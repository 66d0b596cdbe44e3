"""The weekly pattern of daily peaks: a factor for each day of the week."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.report.statistics.local_time import Floats, Integers

Detail = Literal["none", "weekend", "weekday"]


@dataclass(frozen=True, slots=True)
class WeeklyPattern:
    """factors: seven, Monday first, with mean 1; a day's peak is its level times its factor. detail: "weekday" with a
    factor for each day of the week, "weekend" with one for Monday to Friday and one for Saturday and Sunday, "none" if
    the history is too short for either (all factors are 1)."""

    factors: Floats
    detail: Detail

    def of(self, days: Integers) -> Floats:
        """The factor of each day (ordinals)."""
        raise NotImplementedError


def weekly_pattern(days: Integers, peaks: Floats) -> WeeklyPattern:
    """Median, by day of the week, of each peak over the median of the seven days around it.

    The running median follows steps and growth, and the median over weeks is not moved by single days, so the pattern
    can be estimated before regimes are known. days: ordinals, increasing.
    """
    raise NotImplementedError
