"""Section 4: how evenly servers and workers share the requests at peak, and what unevenness costs."""

from __future__ import annotations

from uwsgi_headroom.analysis.capacity import Headroom
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.report.columns import ServerData
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.sections import BalanceReview, ServerBalance, WorkerShare
from uwsgi_headroom.words.formats import duration, mean_count, percent

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


def _server(server: ServerData, figures: Figures, throughput: float) -> ServerBalance:
    balance, mean = figures.balance, figures.flow.response_time
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
        cost_seconds=None if balance.cost is None or mean is None else balance.cost * mean,
        cost_servers=0.0 if _is_chance(balance.hot_ratio, balance.noise_floor) else _cost_in_servers(figures.headroom),
    )


def _cost_in_servers(room: Headroom) -> float | None:
    """The part of a server that uneven workers waste, 0 to 1.

    With its hottest interpreter the server takes f times the present load, with even shares c times, up to the next
    limit of throughput. So even workers would serve the load at which it is full with f/c of a server.
    """
    hot, ceiling = room.by_limit.get("hottest_interpreter"), room.ceiling
    if hot is None:
        return 0.0 if "hottest_interpreter" in (*room.far, *room.idle) else None
    if ceiling is None:
        return None
    lowest = min(factor for limit, factor in room.by_limit.items() if limit != "hottest_interpreter")
    return max(0.0, 1 - hot / lowest)


def _is_chance(hot_ratio: float | None, noise_floor: float | None) -> bool:
    """Whether chance explains the shares of a server's workers."""
    return (hot_ratio or 1.0) <= (noise_floor or 1.0)


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
    if _is_chance(worst.hot_ratio, worst.noise_floor):
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
