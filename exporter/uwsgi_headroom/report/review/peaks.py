"""Finds the busiest quarter hour of each day of a service, and what `check` would say about it on each server.

One of them counts for the verdict: the busiest of all, unless it stands out from the other days, as an incident does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.report.forecast import DailyPeaks, daily_peaks
from uwsgi_headroom.report.quarters import ReviewData, ServerHistory, judge, mean_busy
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.store.record import Record

STANDS_OUT = 1.25
"""A quarter hour stands out if it has more than this multiple of the 95th percentile of the days without the
busiest."""

ENOUGH_DAYS = 5
"""With fewer days, no day can be said to stand out."""

SAME = 0.01
"""Relative difference of threads or CPUs from which on a server was set up differently."""


class Service(Struct, frozen=True):
    """A service: its servers, and the threads in service on all of them together, by the end of the quarter."""

    name: str
    servers: tuple[ServerHistory, ...]
    load: Mapping[float, float]


class Peaks(Struct, frozen=True):
    """The busiest quarter hours of a service. daily: of each day; whole: whether no day is complete, so that `daily`
    has that of the range; judged: for each of them, the figures by server, as far as they are known; as_today: the
    places of those with the present threads and CPUs, else all; counts: the place of the one that counts; exception:
    end of a quarter hour that stands out, and its threads in service."""

    service: Service
    zone: ZoneInfo
    daily: DailyPeaks
    whole: bool
    judged: tuple[Mapping[str, Figures], ...]
    as_today: tuple[int, ...]
    counts: int
    exception: tuple[float, float] | None

    @property
    def until(self) -> float:
        return self.daily.times[self.counts]

    @property
    def present(self) -> Mapping[str, Figures]:
        return self.judged[self.counts]

    @property
    def at_peak(self) -> list[Record]:
        return [server.quarters[self.until] for server in self.service.servers if self.until in server.quarters]

    def limited_by(self, name: str) -> str | None:
        server = next(server for server in self.service.servers if server.server == name)
        return server.quarters[self.until].levels.limited_by

    def utilization(self, limit: Limit) -> list[float | None]:
        return [highest_use(figures.values(), limit) for figures in self.judged]


def highest_use(judged: Iterable[Figures], limit: Limit) -> float | None:
    uses = [use_of(figures, limit) for figures in judged]
    return max((use for use in uses if use is not None), default=None)


def use_of(figures: Figures, limit: Limit) -> float | None:
    """The utilization of a limit, as headroom has it: 0 if it is far; None if it is unknown or says nothing."""
    room = figures.headroom
    if limit in room.far or (limit in room.idle and (room.by_limit or room.no_requests)):
        return 0.0
    return given(room.by_limit.get(limit), lambda factor: 1 / factor)


def group_services(data: ReviewData) -> tuple[Service, ...]:
    """The services of a range. A server without a service is one by itself."""
    groups: dict[tuple[bool, str], list[ServerHistory]] = {}
    for server in data.servers:
        key = bool(server.service), server.service or server.server
        groups.setdefault(key, []).append(server)
    return tuple(Service(name, tuple(servers), _add_up(servers)) for (_, name), servers in groups.items())


def _add_up(servers: Sequence[ServerHistory]) -> dict[float, float]:
    load: dict[float, float] = {}
    for server in servers:
        for end, record in server.quarters.items():
            if (busy := mean_busy(record)) is not None:
                load[end] = load.get(end, 0.0) + busy
    return dict(sorted(load.items()))


def find_peaks(service: Service, zone: ZoneInfo) -> Peaks | None:
    if not service.load:
        return None
    daily = daily_peaks(service.load, zone)
    whole = not daily.days
    if whole:
        end = max(service.load, key=service.load.__getitem__)
        daily = replace(daily, days=[0], peaks=[service.load[end]], times=[end])
    judged = tuple(_leave_room(_judge(service.servers, end)) for end in daily.times)
    latest = {server.server: _set_up(list(server.quarters.values())) for server in service.servers}
    alike = [place for place, each in enumerate(judged) if _is_as_today(each, latest)]
    candidates = tuple(alike or range(len(judged)))
    counts, exception = _choose(daily, candidates)
    return Peaks(service, zone, daily, whole, judged, candidates, counts, exception)


def _choose(daily: DailyPeaks, candidates: Sequence[int]) -> tuple[int, tuple[float, float] | None]:
    ranked = sorted(candidates, key=lambda place: daily.peaks[place], reverse=True)
    highest, *others = ranked
    if len(ranked) < ENOUGH_DAYS:
        return highest, None
    usual = STANDS_OUT * percentile([daily.peaks[place] for place in reversed(others)], 0.95)
    if daily.peaks[highest] <= usual:
        return highest, None
    counts = next(place for place in others if daily.peaks[place] <= usual)
    return counts, (daily.times[highest], daily.peaks[highest])


def _judge(servers: Sequence[ServerHistory], end: float) -> dict[str, Figures]:
    found = {server.server: server.quarters.get(end) for server in servers}
    return {name: judge([record]) for name, record in found.items() if record and mean_busy(record) is not None}


MOST_GROWTH = 2.0
"""What the loss of one of two equal servers adds to the other: a small one is not sized for all of a large one."""


def _leave_room(judged: Mapping[str, Figures]) -> dict[str, Figures]:
    return {
        name: replace(figures, growth=max(figures.growth, min(MOST_GROWTH, growth_if_lost(judged, name))))
        for name, figures in judged.items()
    }


def growth_if_lost(judged: Mapping[str, Figures], name: str) -> float:
    rates = {each: figures.flow.throughput or 0.0 for each, figures in judged.items()}
    together = sum(rates.values())
    lost = max((rate for each, rate in rates.items() if each != name), default=0.0)
    return ratio(together, together - lost) or 1.0


_SetUp = tuple["float | None", "float | None"]
"""Threads and CPUs."""


def _set_up(records: Sequence[Record]) -> _SetUp:
    threads = (record.window.configured for record in reversed(records))
    cpus = (record.levels.cpus for record in reversed(records))
    return next(filter(None, threads), None), next(filter(None, cpus), None)


def _is_as_today(judged: Mapping[str, Figures], latest: Mapping[str, _SetUp]) -> bool:
    for name, figures in judged.items():
        then = figures.window.configured, given(figures.server.cpus, lambda cpus: cpus.count)
        for now, before in zip(latest[name], then, strict=True):
            if now and before is not None and abs(before - now) > SAME * now:
                return False
    return bool(judged)
