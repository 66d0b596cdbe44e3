"""Joins the harms that users feel with the cause that explains them: one block for each cause, and one change.

A harm is what users feel: not served, refused, lost, waiting in the queue. A cause is what makes it, on positive
evidence. Waiting has one cause at a time: the resource that is used up first makes all others wait. So of several, the
deepest is taken. Where none is seen, the block says so; no advice is given by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import (
    MOSTLY_BUSY,
    Advice,
    Settings,
    advise_capacity,
    find_proven_step,
    waits_while_threads_are_free,
)
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import queue
from uwsgi_headroom.analysis.findings.kind import SEVERITIES, Finding, Wording, say_settings
from uwsgi_headroom.analysis.littles_law import waiting_clause
from uwsgi_headroom.analysis.worker_states import name_slots, show_calls

CAUSES = [
    "workers_paused",
    "reload_waits",
    "workers_ending",
    "cheaper_starts_slowly",
    "start_hangs",
    "workers_stopped",
    "accept_blocked",
    "recycled_together",
    "workers_missing",
    "out_of_memory",
    "respawn_loop",
    "descriptors_used_up",
    "output_blocked",
    "connection_shared",
    "harakiri",
    "loop_held",
    "waits_for_threads",
    "signal_handlers",
    "unfinished_requests",
    "request_stuck",
    "cpu_throttled",
    "cpu_bound",
    "cpu_wait",
    "unevenness_hurts",
    "interpreter_bound",
    "interpreter_lock_held",
    "pool_exhausted",
    "application_lock",
    "sleeps_again",
    "static_files",
    "works_after_response",
    "slow_clients",
    "waits_for_files",
    "backend_saturated",
    "waits_for_backend",
    "clients_left",
    "cheaper_does_not_scale",
    "saturation",
    "router_full",
]
"""The codes of the causes of waiting, the deepest first: each, where it is seen, causes those after it."""

DEPTHS = {code: depth for depth, code in enumerate(CAUSES)}

LACKS_CAPACITY = DEPTHS["request_stuck"]
"""The depth from which on a longer queue may help: before, clients would only wait longer."""

NOT_SEEN = "it is not known why"
LOOK = "Run {} to see what the workers do while requests wait."

BURSTS = 0.05
"""If all threads are in use for at least this part of the time, bursts make requests wait although threads are free on
average."""


def find_cause(findings: Iterable[Finding]) -> Finding | None:
    """The deepest cause of waiting among them; None without one."""
    return min((each for each in findings if each.clause), key=lambda each: DEPTHS[each.code], default=None)


def find_harm(findings: Sequence[Finding]) -> str | None:
    """The code of the worst harm of waiting in the first finding, which a verdict is about; None without."""
    found = [each for finding in findings[:1] for each in (finding, *finding.harms) if each.kind.waiting]
    harms = [each for each in found if each.severity == "critical" or each.code != "saturation"]
    return getattr(min(harms, key=lambda each: each.kind.waiting, default=None), "code", None)


def diagnose(figures: Figures, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, worst first, with the harms of waiting joined to their cause, or to the worst of them."""
    cause = find_cause(each for each in findings if each.code != "router_full")  # there, clients wait before
    harms = [each for each in findings if cause and each.kind.explained_by == cause.code]
    waiting = sorted((each for each in findings if each.kind.waiting), key=lambda each: each.kind.waiting)
    harms += [each for each in waiting if _hurts(figures, each, cause)]
    if not harms:
        return list(findings)
    if cause is None:
        head, joined = harms[0], harms[1:]
        waits = any(harm.code != "objective_missed" for harm in harms)
        change, settings, serves, clause, _ = _explain(figures) if waits else Advice(head.change, cause=NOT_SEEN)
    else:
        head, joined = cause, [harm for harm in harms if harm is not cause]
        clause, change, settings, serves = cause.clause, cause.change, cause.settings, cause.serves
    is_full = any(harm.code in ("clients_refused", "queue_filling") for harm in harms)
    if is_full and (cause is None or DEPTHS[cause.code] >= LACKS_CAPACITY):
        change = " ".join(dict.fromkeys(filter(None, (change, queue.advise_longer_queue(figures)))))
    if not joined and cause is not None:
        return list(findings)
    hidden = {id(finding) for finding in (head, *joined)}
    head, joined = _say_once(figures, head, joined)
    block = replace(
        head,
        severity=min((head.severity, *[harm.severity for harm in joined]), key=SEVERITIES.index),
        title=_join(harms[0].title, clause),
        public=_join_wording(harms[0], head, cause.public.clause if cause else clause, settings),
        change=change,
        settings=settings,
        serves=serves,
        harms=tuple(joined),
    )
    rest = [finding for finding in findings if id(finding) not in hidden]
    return sorted([block, *rest], key=lambda finding: SEVERITIES.index(finding.severity))


def _join(harm: str, cause: str) -> str:
    return f"{harm.rstrip('.')}: {cause}."


def _join_wording(harm: Finding, head: Finding, clause: str, settings: Settings) -> Wording:
    """What alerts say of a block: the harm, its cause, and what to set, unless the row of the cause says what to do."""
    title = _join(harm.public.title, clause) if clause and harm.public.title else harm.public.title
    is_its_own = bool(settings) or not head.settings  # else what it sets is not what helps
    return head.public._replace(title=title, act=head.public.act * is_its_own or say_settings(settings))


def _say_once(figures: Figures, head: Finding, joined: Sequence[Finding]) -> tuple[Finding, list[Finding]]:
    """A block's findings, of which one says how long requests wait. Those that are joined are read first."""
    waits = [waiting_clause(flow) for flow in (figures.flow, figures.longest_wait[0])]
    is_said, block = any(each.code == "queue_wait" for each in (head, *joined)), list[Finding]()
    for each in (*joined, head):
        says_it = each.wait in waits
        repeated = f"; {each.wait}" * (is_said and says_it)
        block.append(replace(each, evidence=each.evidence.replace(repeated, "")))
        is_said |= says_it
    return block[-1], block[:-1]


def _hurts(figures: Figures, finding: Finding, cause: Finding | None) -> bool:
    """Whether users feel a harm of waiting now; full threads are one while requests wait."""
    if finding.code == "objective_missed" and figures.objective:
        last = figures.objective.windows[-1]
        if last.lost > last.slow + last.waited + last.refused:
            return False
    if finding.code == "saturation" and finding.severity != "critical":
        return cause is not None and cause.kind.fills_threads
    return finding.severity != "info"


def _explain(figures: Figures) -> Advice:
    """The cause, as a clause, and what to do, where no finding is the cause, by the evidence for advice on capacity."""
    step = find_proven_step(figures)
    if step is None:
        return Advice(advise_capacity(figures).change, cause=NOT_SEEN)
    window, fullest = figures.window, queue.find_fullest(figures)
    is_free = (figures.flow.observed or 0.0) < MOSTLY_BUSY * (figures.ceiling or 0)
    if step.all_busy and is_free and fullest and queue.is_opened_short(figures, fullest):
        return Advice(queue.advise_longer_queue(figures), cause=queue.OPENED_SHORT)
    if step.all_busy and waits_while_threads_are_free(figures):
        if window.full_seconds < BURSTS * window.observed_seconds:
            is_now = any(worker.pid for worker in figures.server.workers)
            return Advice(LOOK.format(show_calls(figures.server)) * is_now, cause=NOT_SEEN)
        return step._replace(cause=f"bursts fill all {name_slots(figures.server)}")
    return step
