"""Converts the ends of quarters of an hour to local days and hours."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LocalTime:
    """days: local days as ordinals (`datetime.date.fromordinal`); hours: 0 to 23, of the local clock. Each has one
    value per quarter of an hour, that of the quarter's start."""

    days: Integers
    hours: Integers

    @property
    def weekdays(self) -> Integers:
        """0 is Monday."""
        raise NotImplementedError


def to_local_time(time: Floats, zone: ZoneInfo) -> LocalTime:
    """The local day and hour of each quarter. time: ends of quarters in epoch seconds.

    Raises ValueError if `time` is not finite and strictly increasing.
    """
    raise NotImplementedError


def quarters_of_days(days: Integers, zone: ZoneInfo) -> Integers:
    """The number of quarters of an hour in each local day: 96, and 92 or 100 where daylight saving changes."""
    raise NotImplementedError
