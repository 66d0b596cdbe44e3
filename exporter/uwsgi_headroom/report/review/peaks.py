"""Finds the busiest quarter hour of each day of a service, and what `check` would say about it on each server.

The busiest quarter hour of a day is that in which most threads of the service are in service together. One of them
counts for the verdict: the busiest of all, unless it stands out from the other days, as an incident does; then the
busiest one that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.numbers import rank
from uwsgi_headroom.report.columns import STEP, Column, ReviewData, ServerData, add_known, last_known
from uwsgi_headroom.report.review.windows import Chosen, figures_at, places_of
from uwsgi_headroom.report.statistics.peaks import DailyPeaks, daily_peaks

STANDS_OUT = 1.25
"""A quarter hour stands out if it has more than this multiple of the 95th percentile of the days without the
busiest."""

ENOUGH_DAYS = 5
"""With fewer days, no day can be said to stand out."""

SAME = 0.01
"""Relative difference of threads or CPUs from which on a server was set up differently."""


class Service(Struct, frozen=True, dict=True):
    """A service: its servers, and the sum of their concurrency on one grid of quarter hours."""

    name: str
    servers: tuple[ServerData, ...]
    time: Column

    @cached_property
    def concurrency(self) -> Column:
        """Threads in service on all servers together; nan where none is known."""
        return add_known(list(self.stack(lambda server: server.busy)), len(self.time))

    def stack(self, column: Callable[[ServerData], Column]) -> Column:
        """A column of all servers on the service's grid, shape (servers, quarter hours); nan where unknown."""
        stacked = np.full((len(self.servers), len(self.time)), np.nan)
        for row, server in zip(stacked, self.servers, strict=True):
            if len(server.time):
                start = round((server.time[0] - self.time[0]) / STEP)
                row[start : start + len(server.time)] = column(server)
        return stacked


class Peaks(Struct, frozen=True, dict=True):
    """The busiest quarter hours of a service. daily: of each day, or of the whole range if no day is complete (whole).
    judged: for each of them, the figures of each server, None where unknown. as_today: the places of those with the
    threads and CPUs of the end of the range; all of them if none has. counts: the place of the one that counts.
    exception: end of a quarter hour that stands out, and its concurrency."""

    service: Service
    daily: DailyPeaks
    whole: bool
    judged: tuple[tuple[Figures | None, ...], ...]
    as_today: tuple[int, ...]
    counts: int
    exception: tuple[float, float] | None

    @property
    def present(self) -> tuple[tuple[ServerData, Figures], ...]:
        """The servers with their figures in the quarter hour that counts."""
        return self.servers_at(self.counts)

    @property
    def at_peak(self) -> Chosen:
        """The servers with the place of the quarter hour that counts."""
        return [(server, places_of(server.time, [self.daily.times[self.counts]])) for server in self.service.servers]

    @cached_property
    def busiest(self) -> Chosen:
        """The servers with the places of the busiest quarter hours of all days."""
        ends = list(self.daily.times)
        return [(server, places_of(server.time, ends)) for server in self.service.servers]

    def servers_at(self, place: int) -> tuple[tuple[ServerData, Figures], ...]:
        """The servers that are known in one of the quarter hours, with their figures."""
        pairs = zip(self.service.servers, self.judged[place], strict=True)
        return tuple((server, figures) for server, figures in pairs if figures is not None)

    def utilization(self, limit: Limit) -> Column:
        """The use of a limit on the server that uses most of it, in each of the quarter hours; nan if unknown."""
        return np.array([self._highest(place, limit) for place in range(len(self.judged))])

    def _highest(self, place: int, limit: Limit) -> float:
        uses = [use_of(figures, limit) for _, figures in self.servers_at(place)]
        return max((use for use in uses if use is not None), default=np.nan)


def use_of(figures: Figures, limit: Limit) -> float | None:
    """The utilization of a limit, as headroom has it: 0 if it is far; None if it is unknown."""
    factor = figures.headroom.by_limit.get(limit)
    return (
        1 / factor if factor is not None else 0.0 if limit in (*figures.headroom.far, *figures.headroom.idle) else None
    )


def group_services(data: ReviewData) -> tuple[Service, ...]:
    """The services of a range, in the order of their first server. A server without a service is one by itself."""
    groups: dict[tuple[str, str], list[ServerData]] = {}
    for server in data.servers:
        key = ("service", server.service) if server.service else ("server", server.server)
        groups.setdefault(key, []).append(server)
    return tuple(_service(name, tuple(servers)) for (_, name), servers in groups.items())


def find_peaks(service: Service, zone: ZoneInfo) -> Peaks | None:
    """The busiest quarter hours; None without any known concurrency."""
    if not np.isfinite(service.concurrency).any():
        return None
    daily = daily_peaks(service.time, service.concurrency, zone)
    whole = not len(daily.days)
    if whole:
        place = int(np.nanargmax(service.concurrency))
        end, most = service.time[place], service.concurrency[place]
        daily = replace(daily, days=np.zeros(1, np.int64), peaks=np.array([most]), times=np.array([end]))
    judged = tuple(_add_growth([_judge(server, end) for server in service.servers]) for end in daily.times)
    alike = [place for place, each in enumerate(judged) if _is_as_today(service.servers, each)]
    candidates = tuple(alike or range(len(judged)))
    counts, exception = _choose(daily, candidates)
    return Peaks(service, daily, whole, judged, candidates, counts, exception)


def percentile_place(peaks: Column, share: float) -> int:
    """The place of the smallest value that is not exceeded by this share of all values."""
    order = np.argsort(peaks, kind="stable")
    return int(order[rank(len(peaks), share)])


def _choose(daily: DailyPeaks, candidates: Sequence[int]) -> tuple[int, tuple[float, float] | None]:
    peaks = daily.peaks[list(candidates)]
    highest = int(np.argmax(peaks))
    if len(peaks) < ENOUGH_DAYS:
        return candidates[highest], None
    others = np.delete(peaks, highest)
    usual = STANDS_OUT * others[percentile_place(others, 0.95)]
    if peaks[highest] <= usual:
        return candidates[highest], None
    place = candidates[highest]
    counts = candidates[int(np.argmax(np.where(peaks <= usual, peaks, -np.inf)))]
    return counts, (float(daily.times[place]), float(daily.peaks[place]))


def _service(name: str, servers: tuple[ServerData, ...]) -> Service:
    known = [server for server in servers if len(server.time)]
    if not known:
        return Service(name, servers, np.array([]))
    first, last = min(server.time[0] for server in known), max(server.time[-1] for server in known)
    return Service(name, servers, np.arange(first, last + STEP / 2, STEP))


def _judge(server: ServerData, end: float) -> Figures | None:
    places = places_of(server.time, [end])
    if not len(places) or not np.isfinite(server.busy[places]).all():
        return None
    return figures_at(server, places)


MOST_GROWTH = 2.0
"""What the loss of one of two equal servers adds to the other. A small server is not sized for all of a large one."""


def _add_growth(judged: Sequence[Figures | None]) -> tuple[Figures | None, ...]:
    """The figures of servers, with advice that leaves room for the load of one that is lost."""
    return tuple(
        each and replace(each, growth=max(each.growth, min(MOST_GROWTH, growth_if_lost(judged, place))))
        for place, each in enumerate(judged)
    )


def growth_if_lost(judged: Sequence[Figures | None], place: int) -> float:
    """The factor by which the load of a server grows if the busiest of the others is lost: these take its requests in
    proportion to their own."""
    rates = [(each.flow.throughput or 0.0) if each else 0.0 for each in judged]
    lost = max((rate for at, rate in enumerate(rates) if at != place), default=0.0)
    return sum(rates) / (sum(rates) - lost) if sum(rates) > lost else 1.0


def _is_as_today(servers: Sequence[ServerData], judged: Sequence[Figures | None]) -> bool:
    """Whether every known server had the threads and CPUs that it has at the end of the range."""
    for server, figures in zip(servers, judged, strict=True):
        if figures is None:
            continue
        threads, cpus = figures.window.configured, figures.server.cpus.count if figures.server.cpus else None
        for latest, then in ((last_known(server.configured), threads), (last_known(server.cpus), cpus)):
            if latest and then is not None and abs(then - latest) > SAME * latest:
                return False
    return any(judged)
