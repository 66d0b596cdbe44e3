"""What to do: the findings of `check`, each a cause with its harms, and what only a long range shows.

Findings are judged in the quarter hour that counts. What clients felt at other times (refused, slower than the
objective) is joined to its cause in the quarter hours in which it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, inf
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import Advice, advise_capacity
from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import (
    SEVERITIES,
    Finding,
    collect_findings,
    correct_headroom,
    evenness,
    queue,
    workers,
)
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.report.forecast import Forecast
from uwsgi_headroom.report.quarters import Absent, ServerHistory, judge, queue_full_seconds
from uwsgi_headroom.report.render.document import Block, Table, Text
from uwsgi_headroom.report.review.peaks import Peaks, growth_if_lost
from uwsgi_headroom.report.review.trend import Trend
from uwsgi_headroom.report.review.users import Users, count_missed, find_full_share
from uwsgi_headroom.report.review.utilization import LimitUse, Utilization
from uwsgi_headroom.store.record import Record
from uwsgi_headroom.words.states import JUDGEMENTS
from uwsgi_headroom.words.template import Facts, fill

Judgement = Literal["act", "plan", "ok", "unknown"]
"""act: a limit is nearly full or users are harmed at peak. plan: not yet, but soon, or if a server is lost. unknown:
too little data."""

MOST_URGENT_FIRST: tuple[Judgement, ...] = ("act", "plan", "unknown", "ok")

URGENCY: dict[str, Judgement] = {"critical": "act", "warning": "plan", "info": "ok"}
"""How urgent a finding is, by its severity."""

LOW = 1.5
"""Headroom below which there is something to plan, as for other programs in `check`."""

ALIKE = 1.1
"""Servers whose headroom is at most this multiple of the smallest need the same."""

SPARE = 0.85
"""The most of a limit that is in use on the others, if one of so many servers is lost that are recommended."""

_FIRST_LIMIT = {"unevenness_hurts", "interpreter_bound", "saturation", "cpu_bound", "cpu_used_by_others"}
"""Findings whose advice moves out the first limit. Once that is nearly full, they are urgent."""


class Recommendation(Struct, frozen=True, kw_only=True):
    """code: of the finding in `check` that it comes from; setting: the processes x threads that it advises, empty if it
    advises none; serves: the requests per second that a server then serves at least; harms: what users felt of the same
    cause, a sentence or two each; effect: what else it brings."""

    code: str
    judgement: Judgement
    title: str
    action: str
    servers: tuple[str, ...]
    evidence: str
    setting: str = ""
    serves: float | None = None
    harms: tuple[str, ...] = ()
    effect: str = ""


class Evidence(Struct, frozen=True):
    """What recommendations and the verdict are drawn from. covered: the smallest share of the range of which a server
    has data; partial: whether the source failed halfway."""

    peaks: Peaks
    utilization: Utilization
    users: Users
    trend: Trend | Absent
    covered: float
    partial: bool

    @property
    def is_short(self) -> bool:
        """Whether capacity is to be added: headroom is low, or the trend reaches a limit."""
        room = self.utilization.headroom
        return (room is not None and room < LOW) or self.reached is not None

    @property
    def reached(self) -> Limit | None:
        return None if isinstance(self.trend, Absent) else self.trend.first

    @property
    def forecast(self) -> Forecast | None:
        """That of the limit that is reached first, else of the fullest one; None if it is refused."""
        return None if isinstance(self.trend, Absent) else self.trend.forecast


class ServerFinding(Struct, frozen=True):
    """A finding with its harms, on one server. when: in which quarter hours, as the start of a sentence."""

    finding: Finding
    server: str
    when: str

    @property
    def codes(self) -> set[str]:
        return {self.finding.code, *(harm.code for harm in self.finding.harms)}

    def say(self, finding: Finding) -> str:
        return f"{self.when}, on {self.server}: {finding.evidence} {finding.meaning}".strip()


AT_PEAK, IN_RANGE = "In the quarter hour that counts", "In the period of this report"


def recommend(evidence: Evidence) -> tuple[Recommendation, ...]:
    found = [*_find_ended(evidence.peaks), *_find_refused(evidence), *_find_missed(evidence), *_at_peak(evidence.peaks)]
    by_code: dict[str, list[ServerFinding]] = {}
    for each in sorted(found, key=lambda each: SEVERITIES.index(each.finding.severity)):
        by_code.setdefault(each.finding.code, []).append(each)
    made = [_combine(evidence, alike) for alike in by_code.values()]
    if not {code for each in found for code in each.codes} & (_FIRST_LIMIT - {"cpu_used_by_others"}):
        made += _add_ahead(evidence)
    made = _survive_a_loss(evidence, sorted(made, key=_rank))
    return tuple(reconcile(sorted(made, key=_rank)))


COVERED = "Set processes x threads to {setting}, as another recommendation says: it covers this one."


def reconcile(found: Sequence[Recommendation]) -> Iterator[Recommendation]:
    """The same with one setting: that which serves most."""
    most = max((each for each in found if each.setting), key=lambda each: each.serves or 0.0, default=None)
    for each in found:
        if most and each.setting and each.setting != most.setting:
            action = fill(COVERED, {"setting": most.setting})
            yield replace(each, action=action, setting=most.setting, serves=most.serves, effect="")
        else:
            yield each


def _rank(found: Recommendation) -> int:
    return MOST_URGENT_FIRST.index(found.judgement)


def _at_peak(peaks: Peaks) -> Iterator[ServerFinding]:
    for server, figures in peaks.present.items():
        for finding in collect_findings(correct_headroom(figures)):
            if finding.change or finding.severity != "info":
                yield ServerFinding(finding, server, AT_PEAK)


def _find_ended(peaks: Peaks) -> Iterator[ServerFinding]:
    for server in peaks.service.servers:
        if any(each.window.harakiris or any(worker.lost for worker in each.window.workers) for each in server.records):
            found = workers.find(judge(server.records))
            yield from (ServerFinding(each, server.server, IN_RANGE) for each in found if each.severity != "info")


REFUSED = (
    "The listen queue was at its limit for {full:fine_percent} of the time.[counted?  The hosts' kernels "
    "counted {refused} dropped TCP connections (they do not count those that a UNIX socket refuses).]"
)


def _find_refused(evidence: Evidence) -> Iterator[ServerFinding]:
    users, servers = evidence.users, evidence.peaks.service.servers
    full = {server.server: share for server in servers if (share := find_full_share(server))}
    if not full:
        return
    worst = max(servers, key=lambda server: full.get(server.server, 0.0))
    facts: Facts = {"full": full[worst.server], "refused": users.refused}
    harm = Finding(
        code="clients_refused",
        severity="critical" if full[worst.server] >= queue.FULL[0] else "warning",
        title="Listen queues were full, so clients were refused or had to retry.",
        evidence=fill(REFUSED, {**facts, "counted": users.refused is not None}),
        kind=queue.QUEUE_FULL,
        change="First find out what the threads wait for. Raise `listen` only if the queue fills in short bursts.",
    )
    yield _join(harm, worst, lambda record: bool(queue_full_seconds(record)), "While its listen queue was full")


MISSED_TITLE = (
    "{bad:fine_percent} of the requests were slower than {threshold:duration}, lost or refused (the objective permits "
    "{permitted:fine_percent})."
)
MISSED = "{missed:amount} of {requests:amount} requests missed the objective: {budget:factor} the error budget."


def _find_missed(evidence: Evidence) -> Iterator[ServerFinding]:
    objective, servers = evidence.users.objective, evidence.peaks.service.servers
    if isinstance(objective, Absent) or objective.budget <= 1:
        return
    permitted, missed = 1 - objective.objective, objective.bad * objective.requests
    facts: Facts = {name: getattr(objective, name) for name in ("bad", "threshold", "requests", "budget")}
    facts |= {"permitted": permitted, "missed": missed}
    harm = Finding(
        code="objective_missed",
        severity="critical",
        title=fill(MISSED_TITLE, facts),
        evidence=fill(MISSED, facts),
        kind=queue.BURNS,
        change="Look at what slow requests wait for, and at the hours in which they are slow (section 3).",
    )
    worst = max(servers, key=lambda server: sum((count_missed(each) or (0, 0))[1] for each in server.records))
    if evidence.users.lost > missed / 2:  # workers that end explain it, and no waiting
        yield ServerFinding(harm, worst.server, IN_RANGE)
        return

    def burns(record: Record) -> bool:
        judged, bad = count_missed(record) or (0.0, 0.0)
        return bad > permitted * judged

    yield _join(harm, worst, burns, "While the error budget burned too fast")


def _join(harm: Finding, server: ServerHistory, felt: Callable[[Record], bool], when: str) -> ServerFinding:
    """A harm, or the cause that has it among its harms, by the quarter hours in which it was felt."""
    records = [record for record in server.records if felt(record)]
    if not records:
        return ServerFinding(harm, server.server, when)
    judged = collect_findings(correct_headroom(judge(records)), [harm])
    causes = [ServerFinding(each, server.server, when) for each in judged]
    return next(found for found in causes if harm.code in found.codes)


_NOT_KNOWN = (
    "No change is known to help: look at what requests wait for then, and at what else happened at these times."
)


def _combine(evidence: Evidence, alike: Sequence[ServerFinding]) -> Recommendation:
    worst = alike[0]
    harms: dict[str, str] = {}
    for each in alike:
        for harm in each.finding.harms:
            harms.setdefault(harm.code, each.say(harm))
    finding = worst.finding
    moves = evidence.utilization.is_nearly_full and any(each.codes & _FIRST_LIMIT for each in alike)
    made = Recommendation(
        code=finding.code,
        judgement="act" if moves else URGENCY[finding.severity],
        title=finding.title,
        action=finding.change or _NOT_KNOWN,
        servers=tuple(dict.fromkeys(each.server for each in alike)),
        evidence=worst.say(finding),
        harms=tuple(harms.values()),
    )
    return _promise(made, evidence.peaks, worst.server, finding)


def today_of(figures: Figures) -> Setting:
    processes = len(figures.server.workers)
    return Setting(processes, max(1, round((figures.configured or 0) / max(1, processes))))


def _promise(found: Recommendation, peaks: Peaks, name: str, advice: Finding | Advice) -> Recommendation:
    figures, wanted = peaks.present.get(name), dict(advice.settings)
    if figures is None or not wanted:
        return found
    today = today_of(figures)
    setting = Setting(wanted.get("processes", today.processes), wanted.get("threads", today.threads))
    return found if setting == today else replace(found, setting=str(setting), serves=advice.serves)


def _serving(utilization: Utilization) -> list[LimitUse]:
    """The limits of throughput: even workers are the remedy for the hottest interpreter."""
    return [use for use in utilization.limits if use.limit != "hottest_interpreter"]


AHEAD = "Headroom {room:factor} at peak: {outcome} first[soon? , and the trend reaches that limit (section 4)]."
AHEAD_EVIDENCE = AT_PEAK + ", {server} had {busy:mean} of {threads} threads in service."


def _add_ahead(evidence: Evidence) -> Iterator[Recommendation]:
    used, peaks = evidence.utilization, evidence.peaks
    if used.headroom is None or used.first is None or used.server is None or not evidence.is_short:
        return
    figures, least = peaks.present[used.server], used.headroom
    advice = _even_out_or_add(figures, evidence.reached or used.first)
    facts: Facts = {"room": least, "outcome": gives_out(used.first), "soon": evidence.reached is not None}
    facts |= {"server": used.server, "busy": figures.flow.observed or 0, "threads": figures.ceiling or 0}
    made = Recommendation(
        code="headroom_low",
        judgement="act" if used.is_nearly_full else "plan",
        title=fill(AHEAD, facts),
        action=advice.change,
        servers=tuple(each.server for each in used.servers if (each.headroom.factor or inf) <= ALIKE * least),
        evidence=fill(AHEAD_EVIDENCE, facts),
    )
    yield _promise(made, peaks, used.server, advice)


def _even_out_or_add(figures: Figures, limit: Limit) -> Advice:
    balance = figures.balance
    uneven = (balance.hot_ratio or 0.0) >= max(evenness.UNEVEN, balance.noise_floor or 0.0)
    if limit == "hottest_interpreter" and uneven:
        return Advice(evenness.even_out(figures))
    return advise_capacity(figures)


LOST_TITLE = "The service cannot lose a server at peak: the others would need {use:percent} of a limit."
LOST_EVIDENCE = "If {lost} is lost at peak, its requests go to the others, and {outcome} at once."
LOST_GAIN = "{effect} If a server is then lost at peak, the others use {after:percent} of a limit."
MORE = "Run {needed} servers of the present size instead of {number}."
MORE_EFFECT = "With {needed} servers, the loss of one leaves the others below {spare:percent}."


def _survive_a_loss(evidence: Evidence, found: list[Recommendation]) -> list[Recommendation]:
    """The recommendations, with what to do where the others cannot carry the load of a lost server: the setting that
    is advised for all servers, or one for this load alone; else more servers."""
    peaks, used = evidence.peaks, evidence.utilization
    worst = max(_serving(used), key=lambda use: use.one_lost or 0.0, default=None)
    if worst is None or worst.one_lost is None or worst.one_lost <= 1:
        return found
    names, first = tuple(peaks.present), next(iter(peaks.present))
    facts: Facts = {"use": worst.one_lost, "lost": used.lost_server or "a server", "outcome": gives_out(worst.limit)}
    alone = Recommendation(
        code="server_lost",
        judgement="plan",
        title=fill(LOST_TITLE, facts),
        action="",
        servers=names,
        evidence=fill(LOST_EVIDENCE, facts),
    )
    step = next((each for each in found if each.setting and len(each.servers) == len(names)), None)
    if step is None:
        advice = advise_capacity(peaks.present[first])
        step = _promise(replace(alone, action=advice.change), peaks, first, advice)
        found = [*found, step]
    after = max(_use_after(use, peaks, step) for use in _serving(used))
    if after <= 1:
        gain = fill(LOST_GAIN, {"effect": step.effect, "after": after}).strip()
        return [replace(each, effect=gain) if each is step else each for each in found]
    needed = ceil(worst.one_lost * (len(names) - 1) / SPARE) + 1
    facts = {"needed": needed, "number": len(names), "spare": SPARE}
    more = replace(alone, servers=(), action=fill(MORE, facts), effect=fill(MORE_EFFECT, facts))
    return [*(each for each in found if each.code != "server_lost"), more]


def _use_after(use: LimitUse, peaks: Peaks, step: Recommendation) -> float:
    """The use of a limit with one server lost, in an advised setting; infinite if that serves less."""
    if use.one_lost is None:
        return 0.0
    judged = peaks.present
    wanted = max((each.flow.throughput or 0.0) * growth_if_lost(judged, name) for name, each in judged.items())
    if step.serves is None or step.serves < wanted:
        return inf
    today, after = today_of(next(iter(judged.values()))), Setting(*map(int, step.setting.split("x")))
    more = {"threads": after.in_all / today.in_all, "interpreters": after.processes / today.processes}
    return use.one_lost / more.get(use.limit, 1.0)


INTRODUCTION = "What to do, most urgent first. To verify a change, run `uwsgi-headroom check` at the next peak."


def write(found: Sequence[Recommendation], servers: int) -> Iterator[Block]:
    """servers: how many the service has."""
    if not found:
        yield Text("Nothing to change.")
    for number, each in enumerate(found, 1):
        rows = (
            ("What to do", each.action),
            ("Where", f"all {servers} servers" if len(each.servers) == servers > 1 else ", ".join(each.servers)),
            ("What users felt", " ".join(each.harms)),
            ("Evidence", each.evidence),
            ("Expected effect", each.effect),
        )
        yield Table(
            heads=(f"{number}. {JUDGEMENTS[each.judgement].urgency}", each.title),
            rows=[*(row for row in rows if row[1]), ("Owner, date", "")],
            style="advice",
        )
