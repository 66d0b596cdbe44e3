"""For each finding that a review recommends to act on: the expected effect, how to verify it, how to roll it back.

Recommendations from the whole range: clients refused, requests killed or lost, objectives missed.

Section 9: what to do. The findings of `check` in the quarter hour that counts, and what only a long range shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from uwsgi_headroom.analysis.advice import add_capacity
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import (
    SEVERITIES,
    Finding,
    evenness,
    limits,
    load,
    memory,
    neighbours,
    queue,
    waits,
    workers,
)
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.report.model import ServerData
from uwsgi_headroom.report.review.model import (
    BalanceReview,
    Judgement,
    ObjectiveUse,
    Recommendation,
    Trend,
    Users,
    Utilization,
    WhatIfReview,
)
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.windows import figures_at
from uwsgi_headroom.words.formats import counted, duration, factor, fine_percent, mean_count, percent

URGENCY: dict[str, Judgement] = {"critical": "act", "warning": "plan", "info": "ok"}
"""How urgent a finding is, by its severity."""

_SETTINGS_BACK = "Set `processes` and `threads` back and reload uWSGI. No data is changed."
_CONFIGURATION_BACK = "Set the option back and reload uWSGI. No data is changed."
_MACHINE_BACK = "Give the CPUs, the memory or the machine back; the configuration of uWSGI stays as it was."
_APPLICATION_BACK = "Deploy the previous release of the application."
_AT_PEAK = "At the busiest hour of the next busy day, run `uwsgi-headroom check --seconds 900`"


@dataclass(frozen=True, slots=True)
class Remedy:
    """effect: what to expect, as a sentence; verify, roll_back: what to do, as sentences."""

    effect: str
    verify: str
    roll_back: str


REMEDIES: dict[str, Remedy] = {
    "unevenness_hurts": Remedy(
        "",
        f"{_AT_PEAK}: the shares are closer to even, the hottest interpreter is below 0.7 of a CPU, and the finding "
        "is gone. Then run this report again over the following week.",
        _SETTINGS_BACK,
    ),
    "interpreter_bound": Remedy(
        "Each new process has an interpreter of its own, so throughput grows with the number of processes until the "
        "CPUs are full.",
        f"{_AT_PEAK}: no interpreter is above 0.85 of a CPU.",
        _SETTINGS_BACK,
    ),
    "saturation": Remedy(
        "More requests are served at once, and none waits for a free thread, as long as what they wait for can serve "
        "more at once.",
        f"{_AT_PEAK}: fewer than 75 % of the threads are in use, and the response time has not grown.",
        _SETTINGS_BACK,
    ),
    "cheaper_does_not_scale": Remedy(
        "Workers in reserve start before requests wait.",
        f"{_AT_PEAK}: no request waits while workers are in reserve.",
        _CONFIGURATION_BACK,
    ),
    "cpu_bound": Remedy(
        "CPU headroom grows in proportion to the CPUs added.",
        f"{_AT_PEAK}: the workers use less than 85 % of the CPUs that they may use.",
        _MACHINE_BACK,
    ),
    "cpu_used_by_others": Remedy(
        "The CPUs that other programs use become headroom of this server.",
        f"{_AT_PEAK}: CPU headroom is above 1.5x.",
        "Move the other programs back.",
    ),
    "queue_wait": Remedy(
        "The wait in the listen queue falls to about nothing once a thread is free for each request.",
        f"{_AT_PEAK}: requests wait less than 10 ms in the listen queue.",
        _SETTINGS_BACK,
    ),
    "clients_refused": Remedy(
        "No client is refused at the loads of this range.",
        "Over the following week, the listen queues are never full in this report.",
        _SETTINGS_BACK,
    ),
    "slow_clients": Remedy(
        "Threads that wait for slow clients become free for other requests.",
        f"{_AT_PEAK}: the part `client` of the time of requests is nearly gone.",
        "Set the web server's buffering back, and reload it.",
    ),
    "application_lock": Remedy(
        "Requests stop waiting for each other: the time in the lock goes out of the response time.",
        f"{_AT_PEAK}: the part `lock` of the time of requests is below 25 %.",
        _APPLICATION_BACK,
    ),
    "interpreter_lock_held": Remedy(
        "Threads stop waiting for an interpreter that does not compute.",
        f"{_AT_PEAK}: the part `interpreter lock` of the time of requests is below 25 %.",
        _APPLICATION_BACK,
    ),
    "waits_for_backend": Remedy(
        "A request is faster by what its backend saves, and holds its thread for less time.",
        f"{_AT_PEAK}: the part `backend` of the time of requests is smaller.",
        _APPLICATION_BACK,
    ),
    "waits_not_known": Remedy(
        "The next review says what the threads wait for, and so whether more of them help.",
        "`uwsgi-headroom check` of the exporter's address has a line `time`.",
        "Take the capabilities away and restart the exporter.",
    ),
    "memory_headroom_low": Remedy(
        "More processes fit, and the kernel ends no process for want of memory.",
        "`uwsgi-headroom check` has no finding about memory.",
        _MACHINE_BACK,
    ),
    "harakiri": Remedy(
        "No request is killed with its worker, nor those that share the worker with it.",
        "Over the following week, this report counts no harakiri.",
        _CONFIGURATION_BACK,
    ),
    "requests_lost": Remedy(
        "No request is lost with its worker.",
        "Over the following week, this report counts no lost request.",
        _APPLICATION_BACK,
    ),
    "objective_missed": Remedy(
        "The share of slow requests falls to what the objective permits.",
        "Over the following week, the error budget of this report is not used up.",
        _SETTINGS_BACK,
    ),
    "headroom_low": Remedy(
        "The limit that comes first moves out in proportion to what is added.",
        f"{_AT_PEAK}: its headroom has grown as expected.",
        _SETTINGS_BACK,
    ),
    "server_lost": Remedy(
        "",
        "Take one server out of the load balancer in a quiet hour of a busy day, and see in `uwsgi-headroom top` that "
        "the others take its requests.",
        "Take the added server out of the load balancer.",
    ),
}

DEFAULT = Remedy("The finding goes away.", f"{_AT_PEAK}: the finding is gone.", "Undo the change and reload uWSGI.")


def remedy_of(code: str) -> Remedy:
    """The remedy of a finding's code."""
    return REMEDIES.get(code, DEFAULT)


def recommendation(
    code: str,
    judgement: Judgement,
    title: str,
    action: str,
    servers: tuple[str, ...],
    evidence: str,
    effect: str = "",
) -> Recommendation:
    """A recommendation with the remedy of its code. effect: what to expect, if it is known in numbers."""
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


def find_killed(peaks: Peaks) -> Iterator[Recommendation]:
    """Harakiris over the whole range."""
    found: list[tuple[Finding, str]] = []
    for server in peaks.service.servers:
        places = np.flatnonzero(np.isfinite(server.requests) & np.isfinite(server.busy))
        if len(places) and np.nansum(server.harakiris[places]):
            judged = workers.find(figures_at(server, places))
            found += [(finding, server.server) for finding in judged if finding.code == "harakiri"]
    if found:
        finding, name = min(found, key=lambda pair: SEVERITIES.index(pair[0].severity))
        yield recommendation(
            "harakiri",
            URGENCY[finding.severity],
            finding.title,
            finding.change,
            tuple(server for _, server in found),
            f"Over the range, on {name}: {finding.evidence} {finding.meaning}",
        )


def find_lost(users: Users) -> Iterator[Recommendation]:
    """Requests that were lost, except where harakiri explains it."""
    if not users.lost or users.lost < 1 or users.harakiris:
        return
    part = users.lost / (users.requests + users.lost)
    critical = users.lost >= workers.MANY_LOST[0] and part >= workers.MANY_LOST[1]
    yield recommendation(
        "requests_lost",
        "act" if critical else "plan",
        f"At least {counted(round(users.lost), 'request')} were in service when their worker ended.",
        "See uWSGI's log for `died, killed by signal`, and `dmesg` for `Out of memory`.",
        (),
        f"Over the range, {fine_percent(part)} of all requests, not by `harakiri`.",
    )


def find_refused(peaks: Peaks, users: Users) -> Iterator[Recommendation]:
    if not users.queue_full:
        return
    full = [(float(np.nanmean(each.queue_full)), each) for each in peaks.service.servers if _ever(each)]
    worst = max(full, key=lambda pair: pair[0])[1]
    figures = {server.server: figures for server, figures in peaks.present}.get(worst.server)
    dropped = "" if users.overflows is None else f" The kernels dropped {users.overflows:,.0f} TCP connections."
    yield recommendation(
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


def find_missed(objective: ObjectiveUse, others: Sequence[Recommendation]) -> Iterator[Recommendation]:
    if objective.budget <= 1:
        return
    before = any(each.judgement == "act" for each in others)
    yield recommendation(
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


LOW = 1.5
"""Headroom below which there is something to plan, as for neighbours in `check`."""

ALIKE = 1.1
"""Servers whose headroom is at most this multiple of the smallest need the same."""

AT_PEAK: tuple[Callable[[Figures], Iterable[Finding]], ...] = (
    queue.find,
    evenness.find,
    load.find,
    waits.find,
    limits.find,
    neighbours.find,
    memory.find,
)
"""The modules whose findings are about a level of load. The others are about a moment, or about uWSGI's setup."""

_ORDER: tuple[Judgement, ...] = ("act", "plan", "ok", "unknown")
_ALREADY_SAID = {"unevenness_hurts": {"interpreter_bound"}}
"""Findings that say less than another about the same."""

_FIRST_LIMIT = ("unevenness_hurts", "interpreter_bound", "saturation", "cpu_bound", "cpu_used_by_others")
"""Findings whose advice moves out the first limit. Once that is reached, they are urgent."""


@dataclass(frozen=True)
class Evidence:
    """What recommendations are drawn from. trend, what_if: None without."""

    peaks: Peaks
    utilization: Utilization
    users: Users
    balance: BalanceReview
    trend: Trend | None
    what_if: WhatIfReview | None


def recommend(evidence: Evidence) -> tuple[Recommendation, ...]:
    """What to do about a service, most urgent first."""
    peaks, used, users = evidence.peaks, evidence.utilization, evidence.users
    found = [*find_refused(peaks, users), *_at_peak(evidence), *find_killed(peaks), *find_lost(users)]
    found += _ahead(peaks, used, evidence.trend, {each.code for each in found})
    if used.headroom is not None and used.headroom <= 1 / REACHED:
        moving = (*_FIRST_LIMIT, "headroom_low")
        found = [replace(each, judgement="act") if each.code in moving else each for each in found]
    if isinstance(users.objective, ObjectiveUse):
        found += find_missed(users.objective, found)
    found += _one_lost(used)
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.judgement)))


def is_short(utilization: Utilization, trend: Trend | None) -> bool:
    """Whether capacity is to be added: headroom is low, or the trend reaches a limit."""
    return (utilization.headroom is not None and utilization.headroom < LOW) or bool(trend and trend.first)


def _at_peak(evidence: Evidence) -> Iterator[Recommendation]:
    """The findings that have advice, each once, with the evidence of the server where it is worst."""
    by_code: dict[str, list[tuple[Finding, str]]] = {}
    for server, figures in evidence.peaks.present:
        for module in AT_PEAK:
            for finding in module(figures):
                if finding.change:
                    by_code.setdefault(finding.code, []).append((finding, server.server))
    covered = {less for code in by_code for less in _ALREADY_SAID.get(code, ())}
    for code, found in by_code.items():
        if code in covered:
            continue
        finding, name = min(found, key=lambda pair: SEVERITIES.index(pair[0].severity))
        yield recommendation(
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


def _predicted(what_if: WhatIfReview | None, change: str) -> Iterator[str]:
    """What the model says about the setting that an advice names."""
    rows = what_if.rows if what_if else ()
    row = next((row for row in rows if not row.is_today and f" {row.setting} " in change), None)
    today = next((row for row in rows if row.is_today), None)
    if row and today and row.response_times[0] is not None and today.response_times[0] is not None:
        yield (
            f"The model of section 8 predicts {duration(row.response_times[0])} at peak with {row.setting}, and "
            f"{duration(today.response_times[0])} with {today.setting}."
        )


def _ahead(peaks: Peaks, utilization: Utilization, trend: Trend | None, said: set[str]) -> list[Recommendation]:
    """Capacity to add before the first limit is reached, where no finding says so."""
    tightest = next(((name, figures) for name, figures in peaks.present if name.server == utilization.server), None)
    if tightest is None or utilization.headroom is None or utilization.first is None:
        return []
    if not is_short(utilization, trend) or said & {"unevenness_hurts", "saturation", "interpreter_bound", "cpu_bound"}:
        return []
    server, figures = tightest
    limit = (trend.first if trend and trend.first else None) or utilization.first
    advice = even_out_or_add(figures, limit == "hottest_interpreter")
    soon = "" if trend is None or trend.first is None else ", and the trend reaches that limit (section 7)"
    return [
        recommendation(
            "headroom_low",
            "plan",
            f"Headroom {factor(utilization.headroom)} at peak: {gives_out(utilization.first)} first{soon}.",
            advice,
            _as_tight(utilization),
            f"In the quarter hour that counts, {server.server} had {mean_count(figures.flow.observed or 0)} of "
            f"{figures.ceiling or 0} threads in service.",
        )
    ]


def _as_tight(utilization: Utilization) -> tuple[str, ...]:
    """The servers with nearly the smallest headroom."""
    least = utilization.headroom or 0.0
    return tuple(each.server for each in utilization.servers if each.factor and each.factor <= ALIKE * least)


def even_out_or_add(figures: Figures, hottest: bool) -> str:
    """Advice: to spread the load of the hottest worker where that is the limit and the workers are uneven."""
    balance = figures.balance
    uneven = (balance.hot_ratio or 0.0) >= max(evenness.UNEVEN, balance.noise_floor or 0.0)
    return evenness.even_out(figures) if hottest and uneven else add_capacity(figures)


def _one_lost(utilization: Utilization) -> Iterator[Recommendation]:
    """The number of servers with which one can be lost, where the present number does not suffice. The hottest
    interpreter does not count: even workers are the cheaper remedy."""
    serving = [use for use in utilization.limits if use.limit != "hottest_interpreter" and use.one_lost is not None]
    worst = max(serving, key=lambda use: use.one_lost or 0.0, default=None)
    if worst is None or worst.one_lost is None or worst.one_lost < REACHED:
        return
    servers = len(utilization.servers)
    needed = ceil(worst.one_lost * (servers - 1) / REACHED) + 1
    yield recommendation(
        "server_lost",
        "plan",
        f"The service cannot lose a server at peak: the others would be at {percent(worst.one_lost)} of a limit.",
        f"Run {needed} servers of the present size instead of {servers}.",
        (),
        f"If {utilization.lost_server or 'a server'} is lost at peak, its requests go to the others, and "
        f"{gives_out(worst.limit)} at once.",
        f"With {needed} servers, the loss of one leaves the others below {percent(REACHED)}.",
    )
