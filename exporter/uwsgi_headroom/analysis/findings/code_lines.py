"""Names the lines of code in findings that other modules of this room have made, where the code is looked at.

* A finding about threads in some state has the lines in which they are. If most are in one, a cause says so too.
* A lock of the application also has the line of the thread that holds it, on positive evidence only: nearly always one
  thread of the worker, and no more, is further down in the function in which the others wait.
* Stuck requests have the lines of the threads that have been in one function for as long, where there are no more of
  these in a worker than stuck requests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.diagnosis import CAUSES
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.history.window import CodeWindow, Lasting, LockedLine
from uwsgi_headroom.record import Line, State
from uwsgi_headroom.words.formats import code_place, counted, listed, percent
from uwsgi_headroom.words.states import name_activity

LEAST_SEEN = 20.0
"""Fewer looks at such threads say nothing about lines."""

LEAST_SHARE, MOST_NAMED = 0.1, 3
"""Of a line that is named, and how many are."""

LEAST_LOCK_LOOKS = 10
"""Fewer looks at a worker whose threads wait at a line do not show who has the lock."""

HELD, SEVERAL = 0.5, 0.1
"""In how many of these looks, as a part of them, one thread must be further down for it to be the holder, and in how
many more than one may be: a lock goes from one to the next while threads are looked at."""

LEAST_STUCK = 0.5
"""For how much of the age from which on a request is stuck its thread must have been in one function."""


def name_lines(figures: Figures, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with lines of code where these are known."""
    code = figures.code
    if code is None or code.off is not None:
        return list(findings)
    return [_name(figures, code, finding) for finding in findings]


def _name(figures: Figures, code: CodeWindow, finding: Finding) -> Finding:
    if finding.code == "request_stuck":
        return replace(finding, evidence=f"{finding.evidence}{_describe_stuck(figures, code)}")
    lines = _share_out(code, CAUSES[finding.code].states if finding.code in CAUSES else ())
    if not lines:
        return finding
    named = [f"{percent(share)} in {_describe(line)}" for line, share in lines[:MOST_NAMED] if share >= LEAST_SHARE]
    where = f" Where these threads are in the code: {', '.join(named)}." if named else ""
    if finding.code == "application_lock":
        where += _describe_holder(code)
    line, share = lines[0]
    is_one = share >= MOSTLY and line.line > 0
    most = f", mostly in {_describe(line, callee=False)}" if finding.clause and is_one else ""
    evidence, without_wait = f"{finding.evidence}{where}", f"{finding.without_wait}{where}"
    return replace(finding, evidence=evidence, without_wait=without_wait, clause=f"{finding.clause}{most}")


def _share_out(code: CodeWindow, states: Sequence[State]) -> list[tuple[Line, float]]:
    """The lines of the threads that are in one of these states, and the share of each, largest first."""
    looks = {use.line: sum(use.states.get(state, 0.0) for state in states) for use in code.lines}
    whole = sum(looks.values())
    if whole < LEAST_SEEN:
        return []
    return [(line, looks[line] / whole) for line in sorted(looks, key=lambda line: -looks[line]) if looks[line]]


def _describe_holder(code: CodeWindow) -> str:
    """A sentence about the thread that holds the lock for which most threads wait; empty if it was not seen."""
    lock = code.locks[0] if code.locks else None
    if lock is None or not _shows_holder(lock):
        return ""
    use = lock.holders[0]
    state = max(use.states, key=lambda state: use.states[state])
    address = max(use.addresses, key=lambda address: use.addresses[address], default="")
    doing = name_activity(state, address if state in ("backend", "dns") else "")
    often = "" if use.looks >= MOSTLY * _count_held(lock) else " most often"
    return (
        f" While threads wait at {code_place(*lock.waited[:3])}, another thread of the same worker has already passed "
        f"this line: that thread holds the lock, and is{often} in {_describe(use.line)}{f' {doing}' if doing else ''}."
    )


def _shows_holder(lock: LockedLine) -> bool:
    return (
        lock.looks >= LEAST_LOCK_LOOKS
        and _count_held(lock) >= HELD * lock.looks
        and lock.several <= SEVERAL * lock.looks
    )


def _count_held(lock: LockedLine) -> float:
    return sum(use.looks for use in lock.holders)


def _describe_stuck(figures: Figures, code: CodeWindow) -> str:
    """A sentence about where stuck requests are; empty if that is not known."""
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
        f"{counted(number, 'stuck request')} {'is' if number == 1 else 'are'} in the function {_describe(line)}"
        f"{f', {doing}' if doing else ''}"
        for (line, doing), number in found.most_common(MOST_NAMED)
    ]
    return f" In the code, {listed(parts)}."


def _describe(line: Line, *, callee: bool = True) -> str:
    if not line.line:
        return "outside of Python code"
    return f"{code_place(*line[:3])}{f' in {line.callee}' if callee and line.callee else ''}"
