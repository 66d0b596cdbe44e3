"""Section 9: what to do. The findings of `check` in the quarter hour that counts, and what only a long range shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil

import numpy as np

from uwsgi_headroom.analysis.advice import add_capacity
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import evenness, limits, load, memory, neighbours, queue, waits, workers
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.formatting import counted, duration, factor, fine_percent, percent
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.report.model import ServerData
from uwsgi_headroom.report.review.model import BalanceReview, Judgement, ObjectiveUse, Users, Utilization
from uwsgi_headroom.report.review.outlook_model import Recommendation, Trend
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.remedies import remedy_of
from uwsgi_headroom.report.review.windows import figures_at

LOW = 1.5
"""Headroom below which there is something to plan, as for neighbours in `check`."""

AT_PEAK: tuple[Callable[[Figures, Reading], Iterable[Finding]], ...] = (
    queue.find,
    evenness.find,
    load.find,
    waits.find,
    limits.find,
    neighbours.find,
    memory.find,
)
"""The modules whose findings are about a level of load. The others are about a moment, or about uWSGI's setup."""

_URGENCY: dict[str, Judgement] = {"critical": "act", "warning": "plan", "info": "ok"}
_ORDER: tuple[Judgement, ...] = ("act", "plan", "ok", "unknown")
_ALREADY_SAID = {"unevenness_hurts": {"interpreter_bound"}}
"""Findings that say less than another about the same."""


def recommend(
    peaks: Peaks, utilization: Utilization, users: Users, balance: BalanceReview, trend: Trend | None
) -> tuple[Recommendation, ...]:
    """What to do about a service, most urgent first."""
    found = [*_refused(peaks, users), *_at_peak(peaks, balance, utilization), *_killed(peaks), *_lost(users)]
    if isinstance(users.objective, ObjectiveUse):
        found += _objective(users.objective, found)
    if not any(each.judgement in ("act", "plan") for each in found) or _is_short(utilization, trend):
        found += _ahead(peaks, utilization, trend, {each.code for each in found})
    found += _one_lost(utilization)
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.judgement)))


def _is_short(utilization: Utilization, trend: Trend | None) -> bool:
    return (utilization.headroom or LOW) < LOW or bool(trend and trend.first)


def _at_peak(peaks: Peaks, balance: BalanceReview, utilization: Utilization) -> Iterator[Recommendation]:
    """The findings that have advice, each once, with the evidence of the server where it is worst."""
    by_code: dict[str, list[tuple[Finding, str]]] = {}
    for server, (figures, reading) in peaks.present:
        for module in AT_PEAK:
            for finding in module(figures, reading):
                if finding.change:
                    by_code.setdefault(finding.code, []).append((finding, server.server))
    covered = {less for code in by_code for less in _ALREADY_SAID.get(code, ())}
    for code, found in by_code.items():
        if code in covered:
            continue
        finding, name = min(found, key=lambda pair: _ORDER.index(_URGENCY[pair[0].severity]))
        yield _recommendation(
            code,
            _URGENCY[finding.severity],
            finding.title,
            finding.change,
            tuple(each for _, each in found),
            f"In the quarter hour that counts, on {name}: {finding.evidence} {finding.meaning}".strip(),
            _even_effect(balance, utilization) if code == "unevenness_hurts" else "",
        )


def _even_effect(balance: BalanceReview, utilization: Utilization) -> str:
    ceiling = [use for use in utilization.limits if use.limit != "hottest_interpreter" and use.factor]
    nearest = min(ceiling, key=lambda use: use.factor or 0.0, default=None)
    saved = "" if balance.cost_seconds is None else f"{duration(balance.cost_seconds)} less response time at peak"
    room = (
        ""
        if nearest is None or nearest.factor is None
        else (f"headroom up to {factor(nearest.factor)}, where {gives_out(nearest.limit)} next")
    )
    text = " and ".join(part for part in (saved, room) if part)
    lost = max((use.one_lost for use in ceiling if use.one_lost is not None), default=None)
    n_1 = "" if lost is None or lost >= REACHED else f" One server can then be lost: the others are at {percent(lost)}."
    return f"With even workers: {text}.{n_1}" if text else ""


def _killed(peaks: Peaks) -> Iterator[Recommendation]:
    """Harakiris over the whole range."""
    found: list[tuple[Finding, str]] = []
    for server in peaks.service.servers:
        places = np.flatnonzero(np.isfinite(server.requests) & np.isfinite(server.busy))
        if len(places) and np.nansum(server.harakiris[places]):
            judged = workers.find(*figures_at(server, places))
            found += [(finding, server.server) for finding in judged if finding.code == "harakiri"]
    if found:
        finding, name = min(found, key=lambda pair: _ORDER.index(_URGENCY[pair[0].severity]))
        yield _recommendation(
            "harakiri",
            _URGENCY[finding.severity],
            finding.title,
            finding.change,
            tuple(server for _, server in found),
            f"Over the range, on {name}: {finding.evidence} {finding.meaning}",
        )


def _lost(users: Users) -> Iterator[Recommendation]:
    """Requests that were lost, except where harakiri explains it."""
    if not users.lost or users.lost < 1 or users.harakiris:
        return
    part = users.lost / (users.requests + users.lost)
    critical = users.lost >= workers.MANY_LOST[0] and part >= workers.MANY_LOST[1]
    yield _recommendation(
        "requests_lost",
        "act" if critical else "plan",
        f"At least {counted(round(users.lost), 'request')} were in service when their worker ended.",
        "See uWSGI's log for `died, killed by signal`, and `dmesg` for `Out of memory`.",
        (),
        f"Over the range, {fine_percent(part)} of all requests, not by `harakiri`.",
    )


def _refused(peaks: Peaks, users: Users) -> Iterator[Recommendation]:
    if not users.queue_full:
        return
    full = [(float(np.nanmean(each.queue_full)), each) for each in peaks.service.servers if _ever(each)]
    worst = max(full, key=lambda pair: pair[0])[1]
    judged = {server.server: judged for server, judged in peaks.present}.get(worst.server)
    dropped = "" if users.overflows is None else f" The kernels dropped {users.overflows:,.0f} TCP connections."
    yield _recommendation(
        "clients_refused",
        "act" if users.queue_full >= queue.FULL[0] else "plan",
        "Listen queues were full, and clients refused or left to try again.",
        add_capacity(*judged) if judged else "Add threads or processes, or raise `listen` against short bursts.",
        tuple(server.server for _, server in full),
        f"Over the range, the listen queue of {worst.server} was at its limit for {fine_percent(users.queue_full)} of "
        f"the time.{dropped}",
    )


def _ever(server: ServerData) -> bool:
    return bool(np.nansum(server.queue_full) > 0)


def _objective(objective: ObjectiveUse, others: list[Recommendation]) -> Iterator[Recommendation]:
    if objective.budget <= 1:
        return
    before = any(each.judgement == "act" for each in others)
    yield _recommendation(
        "objective_missed",
        "act",
        f"{fine_percent(objective.bad)} of the requests were slower than {duration(objective.threshold)} or lost, "
        f"where the objective permits {fine_percent(1 - objective.objective)}.",
        "Do first what this page recommends with the same urgency."
        if before
        else "Look at what slow requests wait for (section 5), and at the hours in which they are slow (section 3).",
        (),
        f"Over the range, {objective.bad * objective.requests:,.0f} of {objective.requests:,.0f} requests: "
        f"{factor(objective.budget)} of the error budget.",
    )


def _ahead(peaks: Peaks, utilization: Utilization, trend: Trend | None, said: set[str]) -> list[Recommendation]:
    """Capacity to add before the first limit is reached, where no finding says so."""
    tightest = next(((name, judged) for name, judged in peaks.present if name.server == utilization.server), None)
    if tightest is None or utilization.headroom is None or utilization.first is None:
        return []
    if not _is_short(utilization, trend) or said & {"unevenness_hurts", "saturation", "interpreter_bound", "cpu_bound"}:
        return []
    server, (figures, reading) = tightest
    limit = (trend.first if trend and trend.first else None) or utilization.first
    advice = even_out_or_add(figures, reading, limit == "hottest_interpreter")
    soon = "" if trend is None or trend.first is None else ", and the trend reaches that limit (section 7)"
    return [
        _recommendation(
            "headroom_low",
            "plan",
            f"Headroom {factor(utilization.headroom)} at peak: {gives_out(utilization.first)} first{soon}.",
            advice,
            (server.server,),
            f"In the quarter hour that counts, {server.server} had {figures.flow.observed or 0:.1f} of "
            f"{figures.ceiling or 0} threads in service.",
        )
    ]


def even_out_or_add(figures: Figures, reading: Reading, hottest: bool) -> str:
    """Advice: to spread the load of the hottest worker where that is the limit and the workers are uneven."""
    balance = figures.balance
    uneven = (balance.hot_ratio or 0.0) >= max(evenness.UNEVEN, balance.noise_floor or 0.0)
    return evenness.even_out(figures, reading) if hottest and uneven else add_capacity(figures, reading)


def _one_lost(utilization: Utilization) -> Iterator[Recommendation]:
    """The number of servers with which one can be lost, where the present number does not suffice. The hottest
    interpreter does not count: even workers are the cheaper remedy."""
    serving = [use for use in utilization.limits if use.limit != "hottest_interpreter" and use.one_lost is not None]
    worst = max(serving, key=lambda use: use.one_lost or 0.0, default=None)
    if worst is None or worst.one_lost is None or worst.one_lost < REACHED:
        return
    servers = len(utilization.servers)
    needed = ceil(worst.one_lost * (servers - 1) / REACHED) + 1
    yield _recommendation(
        "server_lost",
        "plan",
        f"The service cannot lose a server at peak: the others would be at {percent(worst.one_lost)} of a limit.",
        f"Run {needed} servers of the present size instead of {servers}, or more processes and threads on each.",
        (),
        f"If {utilization.lost_server or 'a server'} is lost at peak, its requests go to the others, and "
        f"{gives_out(worst.limit)} at once.",
        f"With {needed} servers, the loss of one leaves the others below {percent(REACHED)}.",
    )


def _recommendation(
    code: str,
    judgement: Judgement,
    title: str,
    action: str,
    servers: tuple[str, ...],
    evidence: str,
    effect: str = "",
) -> Recommendation:
    remedy = remedy_of(code)
    return Recommendation(
        code=code,
        judgement=judgement,
        title=title,
        action=action,
        servers=servers,
        evidence=evidence,
        effect=effect or remedy.effect,
        verify=remedy.verify,
        roll_back=remedy.roll_back,
    )
