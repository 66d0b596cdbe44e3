"""Section 2: how much of each limit is used at peak, on each server and with one lost, and how evenly workers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.analysis.balance import Balance, WorkerFigures
from uwsgi_headroom.analysis.capacity import LIMITS, REACHED, CpuShares, Headroom, Limit, Resource, count_more_workers
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import correct_headroom
from uwsgi_headroom.analysis.littles_law import Flow, ratio
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.report.quarters import sum_known
from uwsgi_headroom.report.render import document as doc
from uwsgi_headroom.report.render.document import Block, Table, Text
from uwsgi_headroom.report.review.peaks import Peaks, highest_use, use_of
from uwsgi_headroom.same_fields import copy_fields, given
from uwsgi_headroom.words.formats import factor, percent
from uwsgi_headroom.words.states import LIMITS as NAMES
from uwsgi_headroom.words.template import Facts, fill


class Spread(Struct, frozen=True, kw_only=True):
    """Of a figure in the busiest quarter hours: what half and 95 of 100 days do not exceed, and the most."""

    p50: float
    p95: float
    highest: float


class LimitUse(Struct, frozen=True, kw_only=True):
    """How much of a limit, as in `check`, is used at peak. utilization: of the fullest server, over the days; factor:
    the headroom, None if it is far; one_lost: the utilization if the service lost one server, None for a single one."""

    limit: Limit
    utilization: Spread
    factor: float | None
    one_lost: float | None


class ServerPeak(Struct, frozen=True, kw_only=True):
    """One server in the quarter hour that counts, with figures as in `check`. more_workers: how many more fit into
    memory; usable: headroom until requests wait; unknown: why the headroom is not known, as a clause, or empty."""

    server: str
    flow: Flow
    workers: tuple[WorkerFigures, ...]
    balance: Balance
    available: int | None
    cpu: CpuShares | None
    more_workers: int | None
    headroom: Headroom
    usable: float | None
    unknown: str


class BalanceReview(Struct, frozen=True, kw_only=True):
    """cost_seconds: the response time that even workers would save; cost_servers: how many of its servers unevenness
    wastes; summary: the worst server in a sentence."""

    cost_seconds: float | None
    cost_servers: float | None
    summary: str


class Utilization(Struct, frozen=True, kw_only=True):
    """until: the end of the quarter hour that counts (see `peaks`); days: with a known peak; 0: none is complete, so it
    is that of the range; exception: end and threads in service of a quarter hour that stands out; concurrency: threads
    in service on all servers, over the days; headroom, usable: the smallest of all servers, usable until requests wait;
    one_lost: the headroom after the loss of the worst server; unknown: as of the first server whose headroom is not
    known."""

    until: float
    days: int
    exception: tuple[float, float] | None
    concurrency: Spread
    in_service: float | None
    available: int | None
    limits: tuple[LimitUse, ...]
    servers: tuple[ServerPeak, ...]
    headroom: float | None
    first: Limit | None
    server: str | None
    usable: float | None
    upper_bound: bool
    one_lost: float | None
    lost_server: str | None
    unknown: str
    balance: BalanceReview

    @property
    def is_nearly_full(self) -> bool:
        """Whether so much of a limit is in use that `check` finds it scarce: it is time to act."""
        return self.headroom is not None and self.headroom <= 1 / REACHED

    @property
    def cannot_lose(self) -> bool:
        return self.one_lost is not None and self.one_lost < 1


def review_utilization(peaks: Peaks) -> Utilization:
    servers = tuple(_describe(name, figures, peaks) for name, figures in peaks.present.items())
    known = [server for server in servers if server.headroom.factor and not server.unknown]
    tightest = min(known, key=lambda server: server.headroom.factor or 0.0, default=None)
    first = given(tightest, lambda server: server.headroom.first)
    lost, lost_server = max((use for limit in LIMITS for use in _uses_without_one(peaks, limit)), default=(0.0, None))
    return Utilization(
        until=peaks.until,
        days=len(peaks.daily.days) * (not peaks.whole),
        exception=peaks.exception,
        concurrency=_spread(peaks.daily.peaks),
        in_service=sum_if_all_known([server.flow.observed for server in servers]),
        available=sum_if_all_known([server.available for server in servers]),
        limits=tuple(filter(None, (_limit(peaks, name) for name in LIMITS))),
        servers=servers,
        headroom=given(tightest, lambda server: server.headroom.factor),
        first=first,
        server=given(tightest, lambda server: server.server),
        usable=min((server.usable for server in servers if server.usable is not None), default=None),
        upper_bound=any(server.headroom.is_upper_bound for server in servers),
        one_lost=ratio(1, lost),
        lost_server=lost_server,
        unknown=next((server.unknown for server in servers if server.unknown), ""),
        balance=_review_balance(peaks),
    )


def _spread(values: Sequence[float | None]) -> Spread:
    known = sorted(value for value in values if value is not None)
    return Spread(p50=percentile(known, 0.5), p95=percentile(known, 0.95), highest=known[-1])


OTHER = "the verdict of the exporter was then that something else limits {server} (`{code}`)"


def _describe(name: str, figures: Figures, peaks: Peaks) -> ServerPeak:
    judged, memory = correct_headroom(figures), figures.server.memory
    other = judged.headroom.other
    unknown = ""
    if other and judged.headroom.factor is None:
        unknown = other.why
    # A history does not have all that the exporter's verdict rested on then.
    if other is None and (code := peaks.limited_by(name)):
        unknown = fill(OTHER, {"server": name, "code": code})
    return copy_fields(
        ServerPeak,
        figures,
        server=name,
        available=figures.window.available,
        more_workers=given(memory, count_more_workers),
        headroom=judged.headroom,
        usable=None if unknown else judged.headroom.usable,
        unknown=unknown,
    )


def _limit(peaks: Peaks, limit: Resource) -> LimitUse | None:
    present = [figures for figures in peaks.present.values() if use_of(figures, limit) is not None]
    if not present:
        return None
    factors = [figures.headroom.by_limit.get(limit) for figures in present]
    return LimitUse(
        limit=limit,
        utilization=_spread(peaks.utilization(limit)),
        factor=min((each for each in factors if each is not None), default=None),
        one_lost=max((use for use, _ in _uses_without_one(peaks, limit)), default=None),
    )


def _uses_without_one(peaks: Peaks, limit: Resource) -> list[tuple[float, str]]:
    """For each server, the highest use of a limit on the others if it were lost: these take its requests in proportion
    to their own (utilization law)."""
    rates = {name: figures.flow.throughput or 0.0 for name, figures in peaks.present.items()}
    found = []
    for lost, rate in rates.items():
        use = highest_use((figures for name, figures in peaks.present.items() if name != lost), limit)
        rest = sum(rates.values()) - rate
        if use and rest > 0:
            found.append((use * sum(rates.values()) / rest, lost))
    return found


def _review_balance(peaks: Peaks) -> BalanceReview:
    costs = {name: _cost_in_servers(each.balance, each.headroom) for name, each in peaks.present.items()}
    flows = [(each.flow, each.balance.cost) for each in peaks.present.values()]
    known = [
        (flow, cost * flow.response_time) for flow, cost in flows if not (cost is None or flow.response_time is None)
    ]
    seconds = ratio(sum(saved * flow.completed for flow, saved in known), sum(flow.completed for flow, _ in known))
    worst = max(peaks.present, key=lambda name: (costs[name] or 0.0, peaks.present[name].balance.hot_ratio or 0.0))
    summary = _summarize(worst, peaks.present[worst])
    return BalanceReview(cost_seconds=seconds, cost_servers=sum_known(costs.values()), summary=summary)


def _is_chance(balance: Balance) -> bool:
    return (balance.hot_ratio or 1.0) <= (balance.noise_floor or 1.0)


def _cost_in_servers(balance: Balance, room: Headroom) -> float | None:
    """The part of a server that uneven workers waste, 0 to 1. Up to the next limit it takes f times the present load
    with its hottest interpreter, c times with even shares: even workers need f/c of a server."""
    hot, ceiling = room.by_limit.get("hottest_interpreter"), room.ceiling
    if _is_chance(balance) or (hot is None and "hottest_interpreter" in (*room.far, *room.idle)):
        return 0.0
    if hot is None or ceiling is None:
        return None
    return max(0.0, 1 - hot / min(factor for limit, factor in room.by_limit.items() if limit != "hottest_interpreter"))


SUMMARY = (
    "On {server}, worker {worker} takes {share:percent} of the requests (even would be {even:percent})[load? , with "
    "its interpreter at {load:cpu} of a CPU]."
)


def _summarize(server: str, figures: Figures) -> str:
    balance = figures.balance
    hot = next((worker for worker in figures.workers if worker.worker_id == balance.hottest), None)
    if hot is None or not hot.share:
        return "No requests at peak, so there is nothing to share."
    if _is_chance(balance):
        return "The workers share the requests evenly, but for chance."
    facts: Facts = {"server": server, "worker": hot.worker_id, "share": hot.share, "load": hot.interpreter_load}
    return fill(SUMMARY, {**facts, "even": 1 / len(figures.workers)})


INTRODUCTION = f"How full each limit is. At a headroom of 1x, it is fully used; from {percent(REACHED)} on, act."

WHEN = (
    "At peak: {peak}.[in_service?  {in_service:threads} of {available} threads were in service.][whole?  No day is "
    "complete, so this is the busiest quarter hour of the range.][stands_out?  The quarter hour before {end} does not "
    "count, with {most:threads} threads in service: it stands out, as an incident does.]"
)


def write(used: Utilization, zone: ZoneInfo) -> Iterator[Block]:
    end, most = used.exception or (0.0, 0.0)
    when: Facts = {"peak": doc.quarter(used.until, zone), "in_service": used.in_service, "available": used.available}
    when |= {"whole": not used.days, "stands_out": used.exception is not None, "end": doc.moment(end, zone)}
    yield Text(fill(WHEN, {**when, "most": most}))
    if used.limits:
        yield Table(
            heads=("limit", "half of the days", "95 of 100 days", "highest", "headroom at peak", "one server lost"),
            rows=list(_rows(used)),
            caption="Use in the busiest quarter hours of the days, on the fullest server, and with one server lost.",
            numbers=range(1, 6),
        )
    yield Table(
        heads=(
            "server",
            "requests/s",
            "threads in service",
            "shares of workers (%)",
            "interpreters",
            "CPUs: own, others, idle",
            "headroom",
            "usable",
            "first limit",
        ),
        rows=[_row(server) for server in used.servers],
        caption="At peak. Interpreters: load of each, 1 is full. Usable: headroom until requests wait.",
        numbers=(1, 2, 6, 7),
        strong=[place for place, server in enumerate(used.servers) if server.server == used.server],
    )
    yield Text(used.balance.summary)


def _rows(used: Utilization) -> Iterator[tuple[str, ...]]:
    days = used.concurrency
    yield ("threads in service", *map(doc.amount, (days.p50, days.p95, days.highest)), *[doc.UNKNOWN] * 2)
    for use in used.limits:
        spread = use.utilization
        yield (
            NAMES[use.limit].name,
            *(doc.show(percent, each) for each in (spread.p50, spread.p95, spread.highest)),
            doc.show(factor, use.factor) if use.factor else "over 100x",
            doc.show(percent, use.one_lost),
        )
    more = [server.more_workers for server in used.servers if server.more_workers is not None]
    if more:
        yield ("memory", *[doc.UNKNOWN] * 3, f"{min(more)} more workers", doc.UNKNOWN)


MOST_WORKERS = 16


def _row(server: ServerPeak) -> tuple[str, ...]:
    room, shown = server.headroom, server.workers[:MOST_WORKERS]
    shares = [doc.show(lambda share: f"{100 * share:.0f}", each.share) for each in shown]
    loads = [doc.show("{:.2f}".format, each.interpreter_load) for each in shown]
    more = ["..."] * (len(server.workers) > MOST_WORKERS)
    known = None if server.unknown else room.factor
    return (
        server.server,
        doc.amount(server.flow.throughput),
        f"{doc.amount(server.flow.observed)} of {doc.amount(server.available)}",
        " / ".join(shares + more),
        " / ".join(loads + more),
        doc.show(lambda cpu: ", ".join(map(doc.amount, (cpu.own, cpu.others, cpu.idle))), server.cpu),
        f"{'at most ' * (room.is_upper_bound and known is not None)}{doc.show(factor, known)}",
        "none" if server.usable is not None and server.usable <= 1 else doc.show(factor, server.usable),
        NAMES[room.first].name if room.first and known else doc.UNKNOWN,
    )
