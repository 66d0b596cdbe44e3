"""Section 2: how much of each limit is used at peak, on each server and with one server lost.

Section 4: how evenly servers and workers share the requests at peak, and what unevenness costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uwsgi_headroom.analysis.capacity import LIMITS, ONE_INTERPRETER, Headroom, Limit, count_more_workers
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS, sum_if_all_known
from uwsgi_headroom.report.model import Column, ServerData
from uwsgi_headroom.report.review.model import (
    BalanceReview,
    LimitUse,
    ServerBalance,
    ServerPeak,
    Spread,
    Utilization,
    WorkerShare,
)
from uwsgi_headroom.report.review.peaks import Peaks, percentile_place, use_of
from uwsgi_headroom.report.review.windows import mean, places_of
from uwsgi_headroom.words.formats import duration, mean_count, percent

UNITS: dict[Limit, str] = {
    "hottest_interpreter": "interpreter",
    "interpreters": "interpreters",
    "threads": "threads",
    "cpu": "CPUs",
}


def review_utilization(peaks: Peaks) -> Utilization:
    """The section of a service."""
    present = peaks.present
    limits = tuple(limit for limit in (_limit(peaks, name) for name in LIMITS) if limit is not None)
    servers = tuple(describe_server(server, figures) for server, figures in present)
    tightest = min((server for server in servers if server.factor), key=lambda server: server.factor or 0, default=None)
    lost, lost_server = _lose_one(present)
    return Utilization(
        until=float(peaks.daily.times[peaks.counts]),
        days=0 if peaks.whole else len(peaks.daily.days),
        exception=peaks.exception,
        concurrency=spread(peaks.daily.peaks),
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
        upper_bound=any(server.upper_bound for server in servers),
        one_lost=lost,
        lost_server=lost_server,
        lone_server=len(peaks.service.servers) == 1,
    )


def spread(values: Column) -> Spread:
    """Percentiles over days, each that of a day; the values are known, and at least one."""
    p50, p95, p99 = (float(values[percentile_place(values, share)]) for share in (0.5, 0.95, 0.99))
    return Spread(p50=p50, p95=p95, p99=p99, highest=float(values.max()))


def describe_server(server: ServerData, figures: Figures) -> ServerPeak:
    """One server in the quarter hour that counts."""
    hottest = _hottest(figures)
    room, cpu, memory, cpus = figures.headroom, figures.cpu, figures.server.memory, figures.server.cpus
    active = [worker for worker in figures.balance.workers if worker.active]
    return ServerPeak(
        server=server.server,
        requests=figures.flow.throughput,
        response_time=figures.flow.response_time,
        concurrency=figures.flow.observed,
        available=figures.window.available,
        configured=figures.window.configured,
        workers=len(active),
        hottest_worker=hottest[0] if hottest else None,
        hottest_interpreter=hottest[1] if hottest else None,
        interpreters=sum_if_all_known([worker.interpreter_load for worker in active]),
        cpus=cpus.count if cpus else None,
        cpu_own=cpu.own if cpu else None,
        cpu_others=cpu.others if cpu else None,
        cpu_idle=cpu.idle if cpu else None,
        more_workers=count_more_workers(memory) if memory else None,
        first=room.first,
        factor=room.factor,
        upper_bound=room.is_upper_bound,
    )


def _hottest(figures: Figures) -> tuple[int, float] | None:
    loads = [(worker.interpreter_load, worker.worker_id) for worker in figures.balance.workers if worker.active]
    known = [(load, worker) for load, worker in loads if load is not None]
    return (max(known)[1], max(known)[0]) if known else None


def _limit(peaks: Peaks, limit: Limit) -> LimitUse | None:
    """A limit of a service; None if no server knows it."""
    present = [(server, figures) for server, figures in peaks.present if use_of(figures, limit) is not None]
    uses = peaks.utilization(limit)
    known = uses[np.isfinite(uses)]
    if not present or not len(known):
        return None
    parts = [_used_of(figures, limit) for _, figures in present]
    used, capacity = [part[0] for part in parts], [part[1] for part in parts]
    if limit == "hottest_interpreter":
        used, capacity = [max((each for each in used if each is not None), default=None)], [ONE_INTERPRETER]
    factors = [figures.headroom.by_limit.get(limit) for _, figures in present]
    return LimitUse(
        limit=limit,
        unit=UNITS[limit],
        used=sum_if_all_known(used),
        capacity=sum_if_all_known(capacity),
        utilization=spread(known),
        factor=min((factor for factor in factors if factor is not None), default=None),
        one_lost=max((use for use, _ in _uses_without_one(present, limit)), default=None),
    )


def _used_of(figures: Figures, limit: Limit) -> tuple[float | None, float | None]:
    """What a server uses of a limit, and its capacity, in the unit of the limit."""
    described = _interpreters(figures)
    match limit:
        case "threads":
            return figures.flow.observed, None if figures.ceiling is None else float(figures.ceiling)
        case "cpu":
            return _cpus(figures)
        case "interpreters":
            return described
    hottest = _hottest(figures)
    return (hottest[1] if hottest else None), ONE_INTERPRETER


def _interpreters(figures: Figures) -> tuple[float | None, float | None]:
    active = [worker for worker in figures.balance.workers if worker.active]
    return sum_if_all_known([worker.interpreter_load for worker in active]), ONE_INTERPRETER * len(active)


def _cpus(figures: Figures) -> tuple[float | None, float | None]:
    """CPUs in use by the server, and those that it could use beside its neighbours."""
    if figures.cpu is not None:
        return figures.cpu.own, figures.cpu.own + figures.cpu.idle
    cpus = figures.server.cpus
    return _interpreters(figures)[0], cpus.count if cpus else None


def _lose_one(present: Sequence[tuple[ServerData, Figures]]) -> tuple[float | None, str | None]:
    """The headroom after the loss of the server whose loss is worst, and its name."""
    worst = max((use for limit in LIMITS for use in _uses_without_one(present, limit)), default=None)
    return (1 / worst[0], worst[1]) if worst and worst[0] > 0 else (None, None)


def _uses_without_one(present: Sequence[tuple[ServerData, Figures]], limit: Limit) -> list[tuple[float, str]]:
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
    for server in peaks.service.servers:
        places = places_of(server.time, list(peaks.daily.times))
        for place, column in enumerate(server.occupancy[: len(parts)]):
            parts[place] += float(np.nansum(column[places]))
    if not parts.sum():
        return None
    cumulative, bounds = np.cumsum(parts) / parts.sum(), (*OCCUPANCY_BOUNDS, OCCUPANCY_BOUNDS[-1])
    p50, p95, p99, highest = (bounds[int(np.searchsorted(cumulative, share))] for share in (0.5, 0.95, 0.99, 0.9999))
    return Spread(p50=p50, p95=p95, p99=p99, highest=highest)


def _full(peaks: Peaks) -> float | None:
    """The largest share of the busiest quarter hours in which a server had every thread busy."""
    shares = [mean(server.full[places_of(server.time, list(peaks.daily.times))]) for server in peaks.service.servers]
    return max((share for share in shares if share is not None), default=None)


WORTH_MENTION = 0.1
"""The cost in servers below which the summary does not mention it."""


def review_balance(peaks: Peaks) -> BalanceReview:
    """The section of a service, in the quarter hour that counts."""
    present = peaks.present
    throughput = sum(figures.flow.throughput or 0.0 for _, figures in present)
    servers = tuple(_server(server, figures, throughput) for server, figures in present)
    costs = [(server.cost_seconds, server.share or 0.0) for server in servers if server.cost_seconds is not None]
    in_servers = [server.cost_servers for server in servers if server.cost_servers is not None]
    cost = ratio(sum(seconds * share for seconds, share in costs), sum(share for _, share in costs))
    whole = sum(in_servers) if in_servers else None
    return BalanceReview(servers=servers, cost_seconds=cost, cost_servers=whole, summary=_summary(servers, cost, whole))


def cost_in_servers(room: Headroom) -> float | None:
    """The part of a server that uneven workers waste, 0 to 1.

    With its hottest interpreter the server takes f times the present load, with even shares c times, up to the next
    limit of throughput. So even workers would serve the load at which it is full with f/c of a server.
    """
    hot, ceiling = room.by_limit.get("hottest_interpreter"), room.ceiling
    if hot is None:
        return 0.0 if "hottest_interpreter" in room.far else None
    if ceiling is None:
        return None
    lowest = min(factor for limit, factor in room.by_limit.items() if limit != "hottest_interpreter")
    return max(0.0, 1 - hot / lowest)


def _server(server: ServerData, figures: Figures, throughput: float) -> ServerBalance:
    balance = figures.balance
    workers = tuple(
        WorkerShare(
            worker=worker.worker_id,
            share=worker.share,
            response_time=worker.response_time,
            interpreter=worker.interpreter_load,
            concurrency=worker.concurrency,
        )
        for worker in balance.workers
        if server.by_worker
    )
    return ServerBalance(
        server=server.server,
        share=ratio(figures.flow.throughput or 0.0, throughput),
        workers=workers,
        hottest=balance.hottest.worker_id if balance.hottest and server.by_worker else None,
        hot_ratio=balance.hot_ratio,
        noise_floor=balance.noise_floor,
        cost=balance.cost,
        cost_seconds=_saved(figures),
        cost_servers=0.0 if _is_chance(balance.hot_ratio, balance.noise_floor) else cost_in_servers(figures.headroom),
    )


def _is_chance(hot_ratio: float | None, noise_floor: float | None) -> bool:
    return (hot_ratio or 1.0) <= (noise_floor or 1.0)


def is_chance(server: ServerBalance) -> bool:
    """Whether chance explains the shares of a server's workers."""
    return _is_chance(server.hot_ratio, server.noise_floor)


def _saved(figures: Figures) -> float | None:
    """Mean seconds per request that balancing would save."""
    cost, mean = figures.balance.cost, figures.flow.response_time
    return None if cost is None or mean is None else cost * mean


def _summary(servers: tuple[ServerBalance, ...], cost: float | None, in_servers: float | None) -> str:
    """The worst server in a sentence, and what unevenness costs."""
    if not any(server.workers for server in servers):
        return "The source has no figures of single workers, so their balance is unknown."
    worst = max(servers, key=lambda server: (server.cost_servers or 0.0, server.hot_ratio or 0.0))
    hot = max(worst.workers, key=lambda worker: worker.share or 0.0, default=None)
    if hot is None or hot.share is None or not worst.hot_ratio:
        return "No requests at peak, so there is nothing to share."
    even = percent(1 / len(worst.workers))
    load = "" if hot.interpreter is None else f", with its interpreter at {hot.interpreter:.2f} of a CPU"
    if is_chance(worst):
        return "The workers share the requests evenly, but for chance."
    first = (
        f"On {worst.server}, worker {hot.worker} takes {percent(hot.share)} of the requests (even would be {even})"
        f"{load}."
    )
    if cost is None:
        return f"{first} What that costs is unknown: the less busy workers served too few requests."
    time = f"Even workers would save {duration(cost)} of the mean response time at peak"
    if in_servers is not None and in_servers >= WORTH_MENTION:
        return f"{first} {time}, and the capacity of {mean_count(in_servers)} of {len(servers)} servers."
    return f"{first} {time}, and no server."
