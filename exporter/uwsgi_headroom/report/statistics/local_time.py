"""Converts the ends of quarters of an hour to local days and hours, and averages by day of the week and hour."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from uwsgi_headroom.report.columns import STEP, divide

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86400.0
_GRAIN = 1800.0
"""Seconds. Zones change their offset at whole half hours of UTC."""


class LocalTime(Struct, frozen=True):
    """days: local days as ordinals (`datetime.date.fromordinal`); hours: 0 to 23, of the local clock. Each has one
    value per quarter of an hour, that of the quarter's start."""

    days: Integers
    hours: Integers

    @property
    def weekdays(self) -> Integers:
        """0 is Monday."""
        return weekday_of(self.days)


def weekday_of(days: Integers) -> Integers:
    """The day of the week of each ordinal; 0 is Monday."""
    return np.asarray((days - 1) % 7, dtype=np.int64)


def to_local_time(time: Floats, zone: ZoneInfo) -> LocalTime:
    """The local day and hour of each quarter. time: ends of quarters in epoch seconds.

    Raises ValueError if `time` is not finite and strictly increasing.
    """
    require_increasing(time)
    starts = np.asarray(time, dtype=np.float64) - STEP
    grains, place = np.unique(np.floor(starts / _GRAIN), return_inverse=True)
    offsets = np.array([_offset(grain * _GRAIN, zone) for grain in grains], dtype=np.float64)
    local = starts + (offsets[place] if len(offsets) else 0.0)
    days = np.floor(local / _DAY)
    hours = np.floor((local - days * _DAY) / 3600.0)
    return LocalTime(days.astype(np.int64) + _EPOCH, hours.astype(np.int64))


def require_increasing(time: Floats) -> None:
    """Raises ValueError if `time` is not finite and strictly increasing."""
    if not np.all(np.isfinite(time)):
        raise ValueError("time has values that are not finite")
    if np.any(np.diff(time) <= 0):
        raise ValueError("time does not increase strictly")


def require_same_length(*columns: Floats) -> None:
    """Raises ValueError if the columns differ in length."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"columns of different lengths: {', '.join(map(str, lengths))}")


def quarters_between(first: int, last: int, zone: ZoneInfo) -> Floats:
    """The ends of all quarters of the local days first..last, in epoch seconds."""
    start, end = (datetime.fromordinal(day).replace(tzinfo=zone).timestamp() for day in (first, last + 1))
    return np.arange(start + STEP, end + STEP / 2, STEP)


def _offset(time: float, zone: ZoneInfo) -> float:
    offset = datetime.fromtimestamp(time, zone).utcoffset()
    return offset.total_seconds() if offset else 0.0


class HeatMap(Struct, frozen=True):
    """values: shape (7, 24), Monday first, hours of the local clock; nan without data. counts: quarters of an hour in
    each."""

    values: Floats
    counts: Integers


def by_weekday_and_hour(time: Floats, values: Floats, zone: ZoneInfo, weights: Floats | None = None) -> HeatMap:
    """The weighted mean of the known values. time: ends of quarters, epoch seconds, strictly increasing. weights: for a
    mean over requests, requests per quarter; quarters with unknown or no weight are left out.

    Raises ValueError if lengths differ or `time` does not increase.
    """
    weights = np.ones(len(values)) if weights is None else weights
    require_same_length(time, values, weights)
    local = to_local_time(time, zone)
    used = np.isfinite(values) & np.isfinite(weights) & (weights > 0)
    cell = (local.weekdays * 24 + local.hours)[used]
    counts = np.bincount(cell, minlength=168)
    total, weighted = (
        np.asarray(np.bincount(cell, weights=column[used], minlength=168), dtype=np.float64)
        for column in (weights, weights * values)
    )
    return HeatMap(divide(weighted, total).reshape(7, 24), counts.reshape(7, 24))
