"""Section 2: how much of each limit is used at peak, on each server and with one server lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uwsgi_headroom.analysis.capacity import (
    LIMITS,
    ONE_INTERPRETER,
    REACHED,
    Resource,
    count_more_workers,
    usable_beside_others,
)
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import correct_headroom
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS, sum_if_all_known
from uwsgi_headroom.report.columns import Column, ServerData, mean
from uwsgi_headroom.report.review.peaks import Peaks, percentile_place, use_of
from uwsgi_headroom.report.review.sections import LimitUse, ServerPeak, Spread, Utilization
from uwsgi_headroom.report.review.windows import places_of

UNITS: dict[Resource, str] = {
    "hottest_interpreter": "interpreter",
    "interpreters": "interpreters",
    "threads": "threads",
    "cpu": "CPUs",
    "lock": "locks",
}


def review_utilization(peaks: Peaks) -> Utilization:
    present = peaks.present
    limits = tuple(limit for limit in (_limit(peaks, name) for name in LIMITS) if limit is not None)
    servers = tuple(_server(server, figures) for server, figures in present)
    tightest = min((server for server in servers if server.factor), key=lambda server: server.factor or 0, default=None)
    lost, lost_server = _lose_one(present)
    return Utilization(
        until=float(peaks.daily.times[peaks.counts]),
        days=0 if peaks.whole else len(peaks.daily.days),
        exception=peaks.exception,
        concurrency=_spread(peaks.daily.peaks),
        moments=_moments(peaks),
        full=_full(peaks),
        in_service=sum_if_all_known([server.concurrency for server in servers]),
        available=sum_if_all_known([server.available for server in servers]),
        configured=sum_if_all_known([server.configured for server in servers]),
        limits=limits,
        servers=servers,
        headroom=tightest.factor if tightest else None,
        first=tightest.first if tightest else None,
        server=tightest.server if tightest else None,
        usable=min((server.usable for server in servers if server.usable is not None), default=None),
        upper_bound=any(server.upper_bound for server in servers),
        one_lost=lost,
        lost_server=lost_server,
        lone_server=len(peaks.service.servers) == 1,
        unknown=next((server.unknown for server in servers if server.unknown), ""),
    )


def is_nearly_full(headroom: float | None) -> bool:
    """Whether so much of a limit is in use that it is time to act: the part from which on `check` finds it scarce."""
    return headroom is not None and headroom <= 1 / REACHED


def _spread(values: Column) -> Spread:
    """Percentiles over days, each that of a day; the values are known, and at least one."""
    p50, p95, p99 = (float(values[percentile_place(values, share)]) for share in (0.5, 0.95, 0.99))
    return Spread(p50=p50, p95=p95, p99=p99, highest=float(values.max()))


def _server(server: ServerData, figures: Figures) -> ServerPeak:
    """One server in the quarter hour that counts."""
    hottest, judged = _hottest(figures), correct_headroom(figures)
    room, cpu, memory, cpus = judged.headroom, figures.cpu, figures.server.memory, figures.server.cpus
    interpreters, active = _interpreters(figures)
    unknown = room.other.why if room.other and room.factor is None else ""
    if code := _find_limit(server, figures) if room.other is None else None:
        unknown = f"the verdict of the exporter was then that something else limits {server.server} (`{code}`)"
    return ServerPeak(
        server=server.server,
        requests=figures.flow.throughput,
        response_time=figures.flow.response_time,
        concurrency=figures.flow.observed,
        available=figures.window.available,
        configured=figures.window.configured,
        workers=active,
        hottest_worker=hottest[0] if hottest else None,
        hottest_interpreter=hottest[1] if hottest else None,
        interpreters=interpreters,
        cpus=cpus.count if cpus else None,
        cpu_own=cpu.own if cpu else None,
        cpu_others=cpu.others if cpu else None,
        cpu_idle=cpu.idle if cpu else None,
        more_workers=count_more_workers(memory) if memory else None,
        first=None if unknown else room.first,
        factor=None if unknown else room.factor,
        usable=judged.usable.factor if judged.usable and not unknown else None,
        upper_bound=room.is_upper_bound,
        unknown=unknown,
    )


def _find_limit(server: ServerData, figures: Figures) -> str | None:
    """What limited a server beside its resources for most of a quarter hour, by the verdict of its exporter then: a
    history does not have what that rests on."""
    place = places_of(server.time, [figures.window.until])
    return next((code for code, share in server.limits.items() if (share[place] >= MOSTLY).any()), None)


def _hottest(figures: Figures) -> tuple[int, float] | None:
    """The worker with the largest interpreter load, and that load."""
    workers = [(worker.interpreter_load, worker.worker_id) for worker in figures.balance.workers if worker.active]
    load, worker = max(((load, worker) for load, worker in workers if load is not None), default=(None, 0))
    return None if load is None else (worker, load)


def _interpreters(figures: Figures) -> tuple[float | None, int]:
    """The load of the interpreters of active workers, in CPUs, and their number."""
    active = [worker for worker in figures.balance.workers if worker.active]
    return sum_if_all_known([worker.interpreter_load for worker in active]), len(active)


def _limit(peaks: Peaks, limit: Resource) -> LimitUse | None:
    """A limit of a service; None if no server knows it in the quarter hour that counts."""
    present = [(server, figures) for server, figures in peaks.present if use_of(figures, limit) is not None]
    if not present:
        return None
    uses = peaks.utilization(limit)
    used, capacity = zip(*(_used_of(figures, limit) for _, figures in present), strict=True)
    if limit == "hottest_interpreter":  # of one server, where the others add up
        used, capacity = (max((each for each in used if each is not None), default=None),), (ONE_INTERPRETER,)
    factors = [figures.headroom.by_limit.get(limit) for _, figures in present]
    return LimitUse(
        limit=limit,
        unit=UNITS[limit],
        used=sum_if_all_known(used),
        capacity=sum_if_all_known(capacity),
        utilization=_spread(uses[np.isfinite(uses)]),
        factor=min((factor for factor in factors if factor is not None), default=None),
        one_lost=max((use for use, _ in _uses_without_one(present, limit)), default=None),
    )


def _used_of(figures: Figures, limit: Resource) -> tuple[float | None, float | None]:
    """What a server uses of a limit, and its capacity, in the unit of the limit."""
    match limit:
        case "threads":
            return figures.flow.observed, None if figures.ceiling is None else float(figures.ceiling)
        case "cpu":
            return _cpus(figures)
        case "interpreters":
            load, active = _interpreters(figures)
            return load, ONE_INTERPRETER * active
        case "hottest_interpreter":
            hottest = _hottest(figures)
            return (hottest[1] if hottest else None), ONE_INTERPRETER
        case "lock":
            lock = figures.lock
            locks = lock.limit * lock.seconds if lock else None
            return (lock.use * locks if lock and locks else None), locks


def _cpus(figures: Figures) -> tuple[float | None, float | None]:
    """CPUs in use by the server, and those that it could use beside other programs."""
    cpus = figures.server.cpus
    if figures.cpu is not None:
        return figures.cpu.own, usable_beside_others(figures.cpu, cpus.count if cpus else 0.0)
    return _interpreters(figures)[0], cpus.count if cpus else None


def _lose_one(present: Sequence[tuple[ServerData, Figures]]) -> tuple[float | None, str | None]:
    """The headroom after the loss of the server whose loss is worst, and its name."""
    worst = max((use for limit in LIMITS for use in _uses_without_one(present, limit)), default=None)
    return (1 / worst[0], worst[1]) if worst and worst[0] > 0 else (None, None)


def _uses_without_one(present: Sequence[tuple[ServerData, Figures]], limit: Resource) -> list[tuple[float, str]]:
    """For each server, the highest use of a limit on the others if it were lost. These take its requests in proportion
    to their own, so that their use grows by the same factor (utilization law)."""
    rates = [figures.flow.throughput or 0.0 for _, figures in present]
    found: list[tuple[float, str]] = []
    for lost, (server, _) in enumerate(present):
        others = [use_of(figures, limit) for place, (_, figures) in enumerate(present) if place != lost]
        known = [use for use in others if use is not None]
        rest = sum(rates) - rates[lost]
        if known and rest > 0:
            found.append((max(known) * sum(rates) / rest, server.server))
    return found


def _moments(peaks: Peaks) -> Spread | None:
    """Percentiles of the samples of busy over available threads within the busiest quarter hours, over all servers:
    the upper bounds of the histogram's buckets."""
    parts = np.zeros(len(OCCUPANCY_BOUNDS) + 1)
    for server, places in peaks.busiest:
        for place, column in enumerate(server.occupancy[: len(parts)]):
            parts[place] += float(np.nansum(column[places]))
    if not parts.sum():
        return None
    cumulative, bounds = np.cumsum(parts) / parts.sum(), (*OCCUPANCY_BOUNDS, OCCUPANCY_BOUNDS[-1])
    p50, p95, p99, highest = (bounds[int(np.searchsorted(cumulative, share))] for share in (0.5, 0.95, 0.99, 0.9999))
    return Spread(p50=p50, p95=p95, p99=p99, highest=highest)


def _full(peaks: Peaks) -> float | None:
    """The largest share of the busiest quarter hours in which a server had every thread busy."""
    shares = [mean(server.full[places]) for server, places in peaks.busiest]
    return max((share for share in shares if share is not None), default=None)
