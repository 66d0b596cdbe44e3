"""Section 9: what to do. The findings of `check` in the quarter hour that counts, and what only a long range shows.

A recommendation is a finding with its urgency and the remedy of its code. Beyond the advice of `check` there are two:
capacity to add before a limit is reached, and servers to survive the loss of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from uwsgi_headroom.analysis.advice import add_capacity
from uwsgi_headroom.analysis.capacity import REACHED, Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import SEVERITIES, Finding, collect_load_findings, evenness, queue, workers
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.report.columns import ServerData
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.remedies import remedy_of
from uwsgi_headroom.report.review.sections import (
    MOST_URGENT_FIRST,
    Absent,
    BalanceReview,
    Judgement,
    ObjectiveUse,
    Recommendation,
    Trend,
    Users,
    Utilization,
    WhatIfReview,
)
from uwsgi_headroom.report.review.trend import first_of
from uwsgi_headroom.report.review.utilization import is_reached
from uwsgi_headroom.report.review.windows import figures_at
from uwsgi_headroom.words.formats import counted, duration, factor, fine_percent, mean_count, percent

URGENCY: dict[str, Judgement] = {"critical": "act", "warning": "plan", "info": "ok"}
"""How urgent a finding is, by its severity."""

LOW = 1.5
"""Headroom below which there is something to plan, as for neighbours in `check`."""

ALIKE = 1.1
"""Servers whose headroom is at most this multiple of the smallest need the same."""

_ALREADY_SAID = {"unevenness_hurts": {"interpreter_bound"}}
"""Findings that say less than another about the same."""

_FIRST_LIMIT = ("unevenness_hurts", "interpreter_bound", "saturation", "cpu_bound", "cpu_used_by_others")
"""Findings whose advice moves out the first limit. Once that is reached, they are urgent."""


@dataclass(frozen=True)
class Evidence:
    """What recommendations are drawn from."""

    peaks: Peaks
    utilization: Utilization
    users: Users
    balance: BalanceReview
    trend: Trend | Absent
    what_if: WhatIfReview | Absent


def recommend(evidence: Evidence) -> tuple[Recommendation, ...]:
    """What to do about a service, most urgent first."""
    peaks, used, users = evidence.peaks, evidence.utilization, evidence.users
    found = [*_find_refused(peaks, users), *_at_peak(evidence), *_find_killed(peaks), *_find_lost(users)]
    found += _ahead(peaks, used, evidence.trend, {each.code for each in found})
    if is_reached(used.headroom):
        moving = (*_FIRST_LIMIT, "headroom_low")
        found = [replace(each, judgement="act") if each.code in moving else each for each in found]
    if isinstance(users.objective, ObjectiveUse):
        found += _find_missed(users.objective, found)
    found += _one_lost(used)
    return tuple(sorted(found, key=lambda each: MOST_URGENT_FIRST.index(each.judgement)))


def is_short(utilization: Utilization, trend: Trend | Absent) -> bool:
    """Whether capacity is to be added: headroom is low, or the trend reaches a limit."""
    return (utilization.headroom is not None and utilization.headroom < LOW) or first_of(trend) is not None


def _at_peak(evidence: Evidence) -> Iterator[Recommendation]:
    """The findings that have advice, each once, with the evidence of the server where it is worst."""
    by_code: dict[str, list[tuple[Finding, str]]] = {}
    for server, figures in evidence.peaks.present:
        for finding in collect_load_findings(figures):
            if finding.change:
                by_code.setdefault(finding.code, []).append((finding, server.server))
    covered = {less for code in by_code for less in _ALREADY_SAID.get(code, ())}
    for code, found in by_code.items():
        if code in covered:
            continue
        finding, name = min(found, key=lambda pair: SEVERITIES.index(pair[0].severity))
        yield _recommendation(
            code,
            URGENCY[finding.severity],
            finding.title,
            finding.change,
            tuple(each for _, each in found),
            f"In the quarter hour that counts, on {name}: {finding.evidence} {finding.meaning}".strip(),
            _even_effect(evidence, finding.change) if code == "unevenness_hurts" else "",
        )


def _even_effect(evidence: Evidence, change: str) -> str:
    """What even workers would bring, in numbers."""
    ceiling = [use for use in evidence.utilization.limits if use.limit != "hottest_interpreter" and use.factor]
    nearest = min(ceiling, key=lambda use: use.factor or 0.0, default=None)
    parts = []
    if evidence.balance.cost_seconds is not None:
        parts.append(f"{duration(evidence.balance.cost_seconds)} less response time at peak")
    if nearest is not None and nearest.factor is not None:
        parts.append(f"headroom up to {factor(nearest.factor)}, where {gives_out(nearest.limit)} next")
    texts = [f"With even workers: {' and '.join(parts)}."] if parts else []
    lost = max((use.one_lost for use in ceiling if use.one_lost is not None), default=None)
    if lost is not None and lost < REACHED:
        texts.append(f"One server can then be lost: the others are at {percent(lost)} of a limit.")
    return " ".join([*texts, *_predicted(evidence.what_if, change)])


def _predicted(what_if: WhatIfReview | Absent, change: str) -> Iterator[str]:
    """What the model says about the setting that an advice names."""
    rows = () if isinstance(what_if, Absent) else what_if.rows
    row = next((row for row in rows if not row.is_today and f" {row.setting} " in change), None)
    today = next((row for row in rows if row.is_today), None)
    if row and today and row.response_times[0] is not None and today.response_times[0] is not None:
        yield (
            f"The model of section 8 predicts {duration(row.response_times[0])} at peak with {row.setting}, and "
            f"{duration(today.response_times[0])} with {today.setting}."
        )


def _ahead(peaks: Peaks, utilization: Utilization, trend: Trend | Absent, said: set[str]) -> list[Recommendation]:
    """Capacity to add before the first limit is reached, where no finding says so."""
    tightest = next(((name, figures) for name, figures in peaks.present if name.server == utilization.server), None)
    if tightest is None or utilization.headroom is None or utilization.first is None:
        return []
    if not is_short(utilization, trend) or said & {"unevenness_hurts", "saturation", "interpreter_bound", "cpu_bound"}:
        return []
    server, figures = tightest
    reached = first_of(trend)
    soon = ", and the trend reaches that limit (section 7)" if reached else ""
    return [
        _recommendation(
            "headroom_low",
            "plan",
            f"Headroom {factor(utilization.headroom)} at peak: {gives_out(utilization.first)} first{soon}.",
            _even_out_or_add(figures, reached or utilization.first),
            _as_tight(utilization),
            f"In the quarter hour that counts, {server.server} had {mean_count(figures.flow.observed or 0)} of "
            f"{figures.ceiling or 0} threads in service.",
        )
    ]


def _as_tight(utilization: Utilization) -> tuple[str, ...]:
    """The servers with nearly the smallest headroom."""
    least = utilization.headroom or 0.0
    return tuple(each.server for each in utilization.servers if each.factor and each.factor <= ALIKE * least)


def _even_out_or_add(figures: Figures, limit: Limit) -> str:
    """Advice: to spread the load of the hottest worker where that is the limit and the workers are uneven."""
    balance = figures.balance
    uneven = (balance.hot_ratio or 0.0) >= max(evenness.UNEVEN, balance.noise_floor or 0.0)
    return evenness.even_out(figures) if limit == "hottest_interpreter" and uneven else add_capacity(figures)


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
        f"Run {needed} servers of the present size instead of {servers}.",
        (),
        f"If {utilization.lost_server or 'a server'} is lost at peak, its requests go to the others, and "
        f"{gives_out(worst.limit)} at once.",
        f"With {needed} servers, the loss of one leaves the others below {percent(REACHED)}.",
    )


def _find_killed(peaks: Peaks) -> Iterator[Recommendation]:
    """Harakiris over the whole range."""
    found: list[tuple[Finding, str]] = []
    for server in peaks.service.servers:
        places = np.flatnonzero(np.isfinite(server.requests) & np.isfinite(server.busy))
        if len(places) and np.nansum(server.harakiris[places]):
            judged = workers.find(figures_at(server, places))
            found += [(finding, server.server) for finding in judged if finding.code == "harakiri"]
    if found:
        finding, name = min(found, key=lambda pair: SEVERITIES.index(pair[0].severity))
        yield _recommendation(
            "harakiri",
            URGENCY[finding.severity],
            finding.title,
            finding.change,
            tuple(server for _, server in found),
            f"Over the range, on {name}: {finding.evidence} {finding.meaning}",
        )


def _find_lost(users: Users) -> Iterator[Recommendation]:
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


def _find_refused(peaks: Peaks, users: Users) -> Iterator[Recommendation]:
    if not users.queue_full:
        return
    full = [(float(np.nanmean(each.queue_full)), each) for each in peaks.service.servers if _ever(each)]
    worst = max(full, key=lambda pair: pair[0])[1]
    figures = {server.server: figures for server, figures in peaks.present}.get(worst.server)
    dropped = "" if users.overflows is None else f" The kernels dropped {users.overflows:,.0f} TCP connections."
    yield _recommendation(
        "clients_refused",
        "act" if users.queue_full >= queue.FULL[0] else "plan",
        "Listen queues were full, and clients refused or left to try again.",
        add_capacity(figures)
        if figures
        else "See first what the threads wait for. Raise `listen` only against short bursts.",
        tuple(server.server for _, server in full),
        f"Over the range, the listen queue of {worst.server} was at its limit for {fine_percent(users.queue_full)} of "
        f"the time.{dropped}",
    )


def _ever(server: ServerData) -> bool:
    return bool(np.nansum(server.queue_full) > 0)


def _find_missed(objective: ObjectiveUse, others: Sequence[Recommendation]) -> Iterator[Recommendation]:
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


def _recommendation(
    code: str,
    judgement: Judgement,
    title: str,
    action: str,
    servers: tuple[str, ...],
    evidence: str,
    effect: str = "",
) -> Recommendation:
    """A recommendation with the remedy of its code. effect: what to expect, where it is known in numbers."""
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
