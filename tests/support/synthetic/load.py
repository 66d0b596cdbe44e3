"""The load of a synthetic service over time: a day's and a week's pattern, growth, steps, holidays, noise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np

from tests.support.synthetic.plan import DAY, History, Service
from uwsgi_headroom.report.columns import STEP, Column

_HOLIDAY = 0.2
_WIDTH = 4.5
"""Hours from the busiest one to where the day's pattern has fallen to 1/e."""


@dataclass(frozen=True)
class Load:
    """The load of a service, in which 1 is the largest of all quarters of an hour of the history."""

    history: History
    service: Service
    scale: float

    def expected(self, time: Column) -> Column:
        """The load at times (epoch seconds) without noise."""
        return self.scale * _pattern(self.history, self.service, time)

    def at(self, time: Column) -> Column:
        """The load at times (epoch seconds): the noise is the same for a whole quarter of an hour."""
        return self.expected(time) * _noise(self.history, self.service, time)


def find_load(history: History, service: Service) -> Load:
    """The load of a service, scaled by its largest quarter of an hour that was sampled."""
    middles = np.arange(history.since, history.until, STEP) + STEP / 2
    load = Load(history, service, 1.0).at(middles)
    return Load(history, service, 1.0 / float(load[sampled(history, service, middles)].max()))


def sampled(history: History, service: Service, time: Column) -> np.ndarray:
    """Whether the service was sampled at these times."""
    day = (time - history.since) / DAY
    known = np.ones(len(time), dtype=bool)
    for first, last in service.missing:
        known &= ~((first <= day) & (day < last))
    return known


def local_time(time: Column, zone: str) -> Column:
    """Seconds of local time, as if they were UTC."""
    hours, place = np.unique(time // 3600, return_inverse=True)
    there = ZoneInfo(zone)
    offsets = [datetime.fromtimestamp(3600 * hour, there).utcoffset() for hour in hours]
    shifted: Column = time + np.array([offset.total_seconds() if offset else 0.0 for offset in offsets])[place]
    return shifted


def _pattern(history: History, service: Service, time: Column) -> Column:
    local = local_time(time, history.zone)
    weekday = ((local // DAY + 3) % 7).astype(int)  # the first day of 1970 was a Thursday
    hour = local % DAY / 3600
    daylight = np.exp(-(((hour - service.busiest_hour) / _WIDTH) ** 2))
    of_weekday = np.array(service.weekdays)[weekday]
    load = of_weekday * (service.night + (1 - service.night) * daylight)
    load *= np.maximum(0.0, 1 - service.growth * (history.until - time) / (28 * DAY))
    day = (time - history.since) / DAY
    for step in service.steps:
        load[day >= step.day] *= step.factor
    first = local_time(np.array([history.since]), history.zone)[0] // DAY
    load[np.isin(local // DAY - first, list(service.holidays))] *= _HOLIDAY
    return np.asarray(load, dtype=np.float64)


def _noise(history: History, service: Service, time: Column) -> Column:
    place = history.services.index(service)
    quarters = round((history.until - history.since) / STEP)
    noise = np.exp(service.noise * np.random.default_rng([history.seed, place]).standard_normal(quarters))
    return np.asarray(noise[((time - history.since) // STEP).astype(int)], dtype=np.float64)
