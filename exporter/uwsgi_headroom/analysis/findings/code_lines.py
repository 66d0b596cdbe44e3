"""Names the lines of code in findings of other modules, where the code is looked at.

A finding about threads in some state has the lines in which they are; if most are in one, a cause says so too. A lock
of the application also has the line of its holder, if nearly always one thread of the worker is further down in the
function in which the others wait. Stuck requests have the lines of the threads that have been in one function for as
long.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import LEAST_SEEN, Figures
from uwsgi_headroom.analysis.findings.kind import Finding
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.code_look import Line
from uwsgi_headroom.history.window import CodeWindow, Lasting
from uwsgi_headroom.words.formats import code_place, listed, percent
from uwsgi_headroom.words.states import name_activity
from uwsgi_headroom.words.template import Facts, fill

LEAST_SHARE, MOST_NAMED = 0.1, 3
"""Of a line that is named, and how many are."""

LEAST_LOCK_LOOKS = 10
"""Fewer looks at a worker whose threads wait at a line do not show the holder."""

HELD, SEVERAL = 0.5, 0.1
"""In what part of these looks one thread must be further down for it to be the holder, and in how
many more than one may be: a lock goes from one to the next while threads are looked at."""

LEAST_STUCK = 0.5
"""For how much of the age from which on a request is stuck its thread must have been in one function."""

PLACE = "{place}[callee?  in {callee}]"
WHERE = "[named?  Where these threads are in the code: {named}.]"
HOLDER = (
    " While threads wait at {waited}, another thread of the same worker has already passed this line: that thread "
    "holds the lock, and is[not always?  most often] in {line}[doing?  {doing}]."
)
STUCK = "{number:stuck request} {number:is|are} in the function {line}[doing? , {doing}]"


def name_lines(figures: Figures, findings: Sequence[Finding]) -> list[Finding]:
    code = figures.code
    if code is None or code.off is not None:
        return list(findings)
    return [_name(figures, code, each) for each in findings]


def _name(figures: Figures, code: CodeWindow, finding: Finding) -> Finding:
    if finding.code == "request_stuck":
        return replace(finding, evidence=f"{finding.evidence}{_describe_stuck(figures, code)}")
    looks = figures.looks(finding.kind.states)
    whole = sum(looks.values())
    if whole < LEAST_SEEN:
        return finding
    shown = [line for line in [*looks][:MOST_NAMED] if looks[line] >= LEAST_SHARE * whole]
    named = ", ".join(f"{percent(looks[line] / whole)} in {_describe(line)}" for line in shown)
    holder = _describe_holder(code) * (finding.code == "application_lock")
    finding = replace(finding, evidence=f"{finding.evidence}{fill(WHERE, {'named': named})}{holder}")
    if finding.clause and (place := figures.main_place(finding.kind.states)):
        return replace(finding, clause=f"{finding.clause}, mostly in {place}")
    return finding


def _describe_holder(code: CodeWindow) -> str:
    lock = next(iter(code.locks), None)
    if lock is None:
        return ""
    held = sum(use.looks for use in lock.holders)
    if lock.looks < LEAST_LOCK_LOOKS or held < HELD * lock.looks or lock.several > SEVERAL * lock.looks:
        return ""
    use = lock.holders[0]
    state = max(use.states, key=lambda state: use.states[state])
    address = max(use.addresses, key=lambda address: use.addresses[address], default="")
    doing = name_activity(state, address * (state in ("backend", "dns")))
    facts: Facts = {"waited": code_place(*lock.waited[:3]), "line": _describe(use.line), "doing": doing}
    return fill(HOLDER, facts | {"always": use.looks >= MOSTLY * held})


def _describe_stuck(figures: Figures, code: CodeWindow) -> str:
    least = LEAST_STUCK * figures.stuck_seconds
    lasting: dict[int, list[Lasting]] = defaultdict(list)
    for each in code.lasting:
        if each.seconds >= least and each.line.line:
            lasting[each.worker_id].append(each)
    found: Counter[tuple[Line, str]] = Counter()
    for worker in figures.server.workers:
        stuck = sum(age is not None and age >= figures.stuck_seconds for age in worker.ages.values())
        if len(lasting[worker.worker_id]) <= stuck:
            found.update((each.line, name_activity(each.state, each.address)) for each in lasting[worker.worker_id])
    if not found:
        return ""
    parts = [
        fill(STUCK, {"number": number, "line": _describe(line), "doing": doing})
        for (line, doing), number in found.most_common(MOST_NAMED)
    ]
    return f" In the code, {listed(parts)}."


def _describe(line: Line) -> str:
    if not line.line:
        return "outside of Python code"
    return fill(PLACE, {"place": code_place(*line[:3]), "callee": line.callee})
