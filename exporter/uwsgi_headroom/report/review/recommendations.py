"""Sections 8 and 9: what to do: the blocks of `check`, each a cause with its harms, and what only a long range shows.

A block is that of `analysis.findings`: one cause, the harms that it explains, one change. It is judged in the quarter
hour that counts. What clients felt at other times (refused, slower than the objective) is joined to its cause in the
quarter hours in which it happened. Beyond the advice of `check` there are two recommendations: capacity to add before a
limit is reached, and servers to survive the loss of one. Section 9: settings that will or may cause trouble.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from uwsgi_headroom.analysis import settings
from uwsgi_headroom.analysis.advice import advise_capacity
from uwsgi_headroom.analysis.bottlenecks import Advice
from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import SEVERITIES, Finding, collect_findings, evenness, queue, workers
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.record import AdviceSeverity
from uwsgi_headroom.report.columns import ServerData
from uwsgi_headroom.report.review.peaks import Peaks, growth_if_lost
from uwsgi_headroom.report.review.remedies import remedy_of
from uwsgi_headroom.report.review.sections import (
    MOST_URGENT_FIRST,
    Absent,
    BalanceReview,
    Judgement,
    LimitUse,
    Recommendation,
    SettingAdvice,
    SettingsReview,
    Trend,
    Users,
    Utilization,
)
from uwsgi_headroom.report.review.trend import first_of
from uwsgi_headroom.report.review.utilization import is_nearly_full
from uwsgi_headroom.report.review.what_if import today_of
from uwsgi_headroom.report.review.windows import figures_at
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.words.formats import counted, duration, factor, fine_percent, listed, mean_count, percent, rate

URGENCY: dict[str, Judgement] = {"critical": "act", "warning": "plan", "info": "ok"}
"""How urgent a finding is, by its severity."""

LOW = 1.5
"""Headroom below which there is something to plan, as for other programs in `check`."""

ALIKE = 1.1
"""Servers whose headroom is at most this multiple of the smallest need the same."""

SPARE = 0.85
"""The most of a limit that is in use on the others, if one of so many servers is lost that are recommended."""

_FIRST_LIMIT = ("unevenness_hurts", "interpreter_bound", "saturation", "cpu_bound", "cpu_used_by_others")
"""Findings whose advice moves out the first limit. Once that is nearly full, they are urgent."""


class Evidence(Struct, frozen=True):
    """What recommendations are drawn from."""

    peaks: Peaks
    utilization: Utilization
    users: Users
    balance: BalanceReview
    trend: Trend | Absent


class Block(Struct, frozen=True):
    """A finding with the harms that it explains, on one server. when: in which quarter hours, as the start of a
    sentence."""

    finding: Finding
    server: str
    when: str

    @property
    def codes(self) -> set[str]:
        return {self.finding.code, *(harm.code for harm in self.finding.harms)}

    def say(self, finding: Finding) -> str:
        """The evidence of the finding, or of one of its harms, with its time and server."""
        return f"{self.when}, on {self.server}: {finding.evidence} {finding.meaning}".strip()


def recommend(evidence: Evidence) -> tuple[Recommendation, ...]:
    """What to do about a service, most urgent first."""
    peaks, used, users = evidence.peaks, evidence.utilization, evidence.users
    ended = [*_find_killed(peaks), *_find_lost(users)]
    blocks = [*_find_refused(peaks, users), *_find_missed(peaks, users), *_at_peak(peaks)]
    found = ended + [
        _of_blocks(evidence, alike, is_full=is_nearly_full(used.headroom))
        for code, alike in _group(blocks).items()
        if code not in {each.code for each in ended}
    ]
    found += _ahead(peaks, used, evidence.trend, {code for block in blocks for code in block.codes})
    found.sort(key=lambda each: MOST_URGENT_FIRST.index(each.judgement))
    ordered = _one_lost(used, found, peaks)
    return tuple(sorted(ordered, key=lambda each: MOST_URGENT_FIRST.index(each.judgement)))


def is_short(utilization: Utilization, trend: Trend | Absent) -> bool:
    """Whether capacity is to be added: headroom is low, or the trend reaches a limit."""
    return (utilization.headroom is not None and utilization.headroom < LOW) or first_of(trend) is not None


def _at_peak(peaks: Peaks) -> Iterator[Block]:
    """The blocks of each server that have advice or hurt, in the quarter hour that counts."""
    for server, figures in peaks.present:
        for finding in collect_findings(figures):
            if finding.change or finding.severity != "info":
                yield Block(finding, server.server, "In the quarter hour that counts")


def _group(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    """The blocks by the code of their cause, the worst first."""
    by_code: dict[str, list[Block]] = {}
    for block in sorted(blocks, key=lambda block: SEVERITIES.index(block.finding.severity)):
        by_code.setdefault(block.finding.code, []).append(block)
    return by_code


_NOT_KNOWN = (
    "No change is known to help: look at what requests wait for then, and at what else happened at these times."
)


def _of_blocks(evidence: Evidence, alike: Sequence[Block], *, is_full: bool) -> Recommendation:
    """One recommendation for blocks of the same cause: that of the worst, with each harm once. is_full: whether a limit
    of the service is nearly full, which makes what moves it urgent."""
    worst = alike[0]
    harms: dict[str, str] = {}
    for block in alike:
        for harm in block.finding.harms:
            harms.setdefault(harm.code, block.say(harm))
    code, finding = worst.finding.code, worst.finding
    moves = is_full and any(block.codes & {*_FIRST_LIMIT} for block in alike)
    made = _recommendation(
        code,
        "act" if moves else URGENCY[finding.severity],
        finding.title,
        finding.change or _NOT_KNOWN,
        tuple(dict.fromkeys(block.server for block in alike)),
        worst.say(finding),
        _even_effect(evidence) if code == "unevenness_hurts" else "",
        tuple(harms.values()),
    )
    return _promise(made, evidence.peaks, worst.server, finding)


def _promise(found: Recommendation, peaks: Peaks, name: str, advice: Finding | Advice) -> Recommendation:
    """A recommendation with the setting of processes and threads that its advice leads to, and with what the server
    then serves at least, beside what it serves at peak."""
    figures = next((figures for server, figures in peaks.present if server.server == name), None)
    if figures is None:
        return found
    today, now, wanted = today_of(figures), figures.flow.throughput, dict(advice.settings)
    setting = Setting(wanted.get("processes", today.processes), wanted.get("threads", today.threads))
    if setting != today:
        found = replace(found, setting=str(setting), serves=advice.serves)
    if advice.serves is None or not now:
        return found
    serves = (
        f"{name} then serves at least {rate(advice.serves)}, {factor(advice.serves / now)} the {rate(now)} at peak."
    )
    return replace(found, effect=f"{serves} {found.effect}")


def _even_effect(evidence: Evidence) -> str:
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
    if lost is not None and lost <= 1:
        texts.append(f"One server can then be lost: the others are at {percent(lost)} of a limit.")
    return " ".join(texts)


def _ahead(peaks: Peaks, utilization: Utilization, trend: Trend | Absent, said: set[str]) -> list[Recommendation]:
    """Capacity to add before the first limit is reached, where no finding says so."""
    tightest = next(((name, figures) for name, figures in peaks.present if name.server == utilization.server), None)
    if tightest is None or utilization.headroom is None or utilization.first is None:
        return []
    if not is_short(utilization, trend) or said & {"unevenness_hurts", "saturation", "interpreter_bound", "cpu_bound"}:
        return []
    (server, figures), least = tightest, utilization.headroom
    reached = first_of(trend)
    advice = _even_out_or_add(figures, reached or utilization.first)
    soon = ", and the trend reaches that limit (section 6)" if reached else ""
    made = _recommendation(
        "headroom_low",
        "act" if is_nearly_full(utilization.headroom) else "plan",
        f"Headroom {factor(utilization.headroom)} at peak: {gives_out(utilization.first)} first{soon}.",
        advice.change,
        tuple(each.server for each in utilization.servers if each.factor and each.factor <= ALIKE * least),
        f"In the quarter hour that counts, {server.server} had {mean_count(figures.flow.observed or 0)} of "
        f"{figures.ceiling or 0} threads in service.",
    )
    return [_promise(made, peaks, server.server, advice)]


def _even_out_or_add(figures: Figures, limit: Limit) -> Advice:
    """Advice: to spread the load of the hottest worker where that is the limit and the workers are uneven."""
    balance = figures.balance
    uneven = (balance.hot_ratio or 0.0) >= max(evenness.UNEVEN, balance.noise_floor or 0.0)
    if limit == "hottest_interpreter" and uneven:
        return Advice(evenness.even_out(figures))
    return advise_capacity(figures)


def _one_lost(utilization: Utilization, found: list[Recommendation], peaks: Peaks) -> list[Recommendation]:
    """The recommendations, with what to do where the others cannot carry the load of a lost server: the setting that is
    advised for all servers, or one for this load alone; more servers if neither suffices. The hottest interpreter does
    not count: even workers are the cheaper remedy."""
    serving = [use for use in utilization.limits if use.limit != "hottest_interpreter" and use.one_lost]
    worst = max(serving, key=lambda use: use.one_lost or 0.0, default=None)
    if worst is None or worst.one_lost is None or worst.one_lost <= 1:
        return found
    (server, figures), names = peaks.present[0], tuple(each.server for each in utilization.servers)
    alone = _recommendation(
        "server_lost",
        "plan",
        f"The service cannot lose a server at peak: the others would need {percent(worst.one_lost)} of a limit.",
        "",
        names,
        f"If {utilization.lost_server or 'a server'} is lost at peak, its requests go to the others, and "
        f"{gives_out(worst.limit)} at once.",
    )
    step = next((each for each in found if each.setting and len(each.servers) == len(names)), None)
    if step is None:
        advice, back = advise_capacity(figures), remedy_of("headroom_low").roll_back
        step = _promise(replace(alone, action=advice.change, roll_back=back), peaks, server.server, advice)
        found = [*found, step]
    after = max(_use_after(use, peaks, step) for use in serving)
    if after <= 1:
        gain = f"{step.effect} If a server is then lost at peak, the others use {percent(after)} of a limit.".strip()
        return [replace(each, effect=gain) if each is step else each for each in found]
    needed = ceil(worst.one_lost * (len(names) - 1) / SPARE) + 1
    more = replace(
        alone,
        servers=(),
        action=f"Run {needed} servers of the present size instead of {len(names)}.",
        effect=f"With {needed} servers, the loss of one leaves the others below {percent(SPARE)}.",
    )
    return [*(each for each in found if each.code != "server_lost"), more]


def _use_after(use: LimitUse, peaks: Peaks, step: Recommendation) -> float:
    """The use of a limit with one server lost, in an advised setting; infinite if it does not promise so much."""
    judged = [figures for _, figures in peaks.present]
    wanted = max((each.flow.throughput or 0.0) * growth_if_lost(judged, at) for at, each in enumerate(judged))
    if step.serves is None or step.serves < wanted:
        return inf
    today, after = today_of(judged[0]), Setting(*map(int, step.setting.split("x")))
    more = {"threads": after.in_all / today.in_all, "interpreters": after.processes / today.processes}
    return (use.one_lost or 0.0) / more.get(use.limit, 1.0)


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
            f"In the period of this report, on {name}: {finding.evidence} {finding.meaning}",
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
        "Check uWSGI's log for `died, killed by signal` (a crash or a kill), and `dmesg` for `Out of memory`.",
        (),
        f"In the period of this report, these were {fine_percent(part)} of all requests; `harakiri` was not the cause.",
    )


def _find_refused(peaks: Peaks, users: Users) -> Iterator[Block]:
    """The block of full listen queues, of the server on which they were full for longest: over the range, and what
    caused it while they were."""
    if not users.queue_full:
        return
    full = [
        (float(np.nanmean(each.queue_full)), each) for each in peaks.service.servers if np.nansum(each.queue_full) > 0
    ]
    worst = max(full, key=lambda pair: pair[0])[1]
    number = f"{users.overflows:,.0f}" if users.overflows else "no"
    dropped = (
        ""
        if users.overflows is None
        else f" The hosts' kernels counted {number} dropped TCP connections (they do not count connections that a UNIX "
        "socket refuses)."
    )
    others = [each.server for _, each in full if each is not worst]
    too = f" The queues of {listed(others)} were also full at times." if others else ""
    harm = Finding(
        code="clients_refused",
        severity="critical" if users.queue_full >= queue.FULL[0] else "warning",
        title="Listen queues were full, so clients were refused or had to retry.",
        evidence=f"In the period of this report, the listen queue of {worst.server} was at its limit for "
        f"{fine_percent(users.queue_full)} of the time.{dropped}{too}",
        kind=queue.QUEUE_FULL,
        change="First find out what the threads wait for. Raise `listen` only if the queue fills in short bursts.",
    )
    yield _join(harm, worst, worst.queue_full > 0, "While its listen queue was full")


def _find_missed(peaks: Peaks, users: Users) -> Iterator[Block]:
    """The block of an objective that was missed over the range: the cause on the server that missed it most."""
    objective = users.objective
    if isinstance(objective, Absent) or objective.budget <= 1:
        return
    judged = [each for each in peaks.service.servers if each.objective]
    worst = max(judged, key=lambda server: float(np.nansum(server.slow)))
    harm = Finding(
        code="objective_missed",
        severity="critical",
        title=f"{fine_percent(objective.bad)} of the requests were slower than {duration(objective.threshold)}, lost "
        f"or refused (the objective permits {fine_percent(1 - objective.objective)}).",
        evidence=f"In the period of this report, {objective.bad * objective.requests:,.0f} of "
        f"{objective.requests:,.0f} requests missed the objective: {factor(objective.budget)} the error budget.",
        kind=queue.BURNS,
        change="Look at what slow requests wait for (section 5), and at the hours in which they are slow (section 3).",
    )
    burning = worst.slow > (1 - objective.objective) * worst.judged
    if (users.lost or 0.0) > objective.bad * objective.requests / 2:  # workers that end explain it, and no waiting
        yield Block(harm, worst.server, "In the period of this report")
    else:
        yield _join(harm, worst, burning, "While the error budget burned too fast")


def _join(harm: Finding, server: ServerData, then: NDArray[np.bool_], when: str) -> Block:
    """The block that has a harm in it, judged with the figures of the quarter hours in which it was felt."""
    places = np.flatnonzero(then & np.isfinite(server.busy))
    if not len(places):
        return Block(harm, server.server, when)
    blocks = collect_findings(figures_at(server, places), [harm])
    return next(block for finding in blocks if harm.code in (block := Block(finding, server.server, when)).codes)


def _recommendation(
    code: str,
    judgement: Judgement,
    title: str,
    action: str,
    servers: tuple[str, ...],
    evidence: str,
    effect: str = "",
    harms: tuple[str, ...] = (),
) -> Recommendation:
    """A recommendation with the remedy of its code. effect: what to expect, where it is known in numbers; harms: what
    users felt of it."""
    remedy = remedy_of(code)
    return Recommendation(
        code=code,
        judgement=judgement,
        title=title,
        action=action,
        servers=servers,
        setting="",
        serves=None,
        evidence=evidence,
        harms=harms,
        effect=effect or remedy.effect,
        verify=remedy.verify,
        roll_back=remedy.roll_back,
    )


_NOT_REVIEWED = (
    "No settings were reviewed: the exporter could not read uWSGI's options, or its data is older than this review. "
    "`uwsgi-headroom review` on the machine does it now."
)


def review_settings(servers: Sequence[ServerData]) -> SettingsReview | Absent:
    """What the rules say about the settings of a service's servers, when they were last reviewed."""
    hit: dict[tuple[AdviceSeverity, str], list[str]] = {}
    for server in servers:
        for rule, severity in (server.settings or {}).items():
            hit.setdefault((severity, rule), []).append(server.server)
    unknown = tuple(server.server for server in servers if server.settings is None)
    if len(unknown) == len(servers):
        return Absent(reason=_NOT_REVIEWED)
    found = [_describe(rule, severity, names) for (severity, rule), names in hit.items()]
    return SettingsReview(advice=tuple(sorted(found, key=lambda each: each.severity == "info")), unknown=unknown)


def _describe(rule: str, severity: AdviceSeverity, servers: Sequence[str]) -> SettingAdvice:
    title = "This version of uwsgi-headroom does not know the rule."
    unknown = settings.Advice(rule=rule, severity=severity, title=title)
    return copy_fields(SettingAdvice, settings.describe_rule(rule, severity) or unknown, servers=tuple(servers))
