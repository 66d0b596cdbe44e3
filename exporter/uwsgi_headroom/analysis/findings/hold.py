"""Holds findings for a while, so that what people read does not come and go at a steady load.

A finding that needs action begins when two looks agree, or 10 s after a look that no other followed, and ends when it
was not seen for 60 s. Of the findings about waiting only the worst is held, with the deepest cause. What alerts say of
a problem changes only with its row or severity, and never while it is a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import localtime, strftime
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.findings.diagnosis import DEPTHS
from uwsgi_headroom.analysis.findings.kind import PAGE_AFTER, SEVERITIES, Finding

HOLD_SECONDS = 60.0
"""How long a finding stays after it was last seen: as long as the window that is judged."""

AGREE, BEGIN_SECONDS = 2, 10.0
"""The looks, or the seconds since the first one, after which a finding has begun."""

MOST_ALERTS = 5
"""The most problems of one server that alerts know: more would not help who is called."""

_WAITING = "waiting"


class Held(Struct, frozen=True):
    """A problem. finding: as it was last seen at its worst or deepest; named: as alerts name it; since: when it was
    first seen (epoch seconds); first, seen, critical: when it was first and last seen, and since when it has been
    critical (monotonic); looks: how often it was seen; harms: since when it and each of its harms have been critical,
    by code; is_page: whether it is a page, to its end."""

    finding: Finding
    named: Finding
    since: float
    first: float
    seen: float
    critical: float
    looks: int = 1
    harms: Mapping[str, float] = MappingProxyType({})
    is_page: bool = False

    def has_begun(self, at: float, looked_at: float) -> bool:
        """Whether it has begun. looked_at: when the server was last looked at."""
        return self.looks >= AGREE or (self.seen == looked_at and at - self.first >= BEGIN_SECONDS)

    def is_due(self, now: Finding) -> bool:
        """Whether it has been critical for as long as its row, or that of a harm, says, and goes on. now: as it was
        just seen. A burst of seconds stays in the window for a minute, and is no page after it. A harm counts where
        the row of the cause has no time of its own: else a standstill would wait until its cause is old."""
        since = {**self.harms, self.named.code: self.critical}
        harms = self.finding.harms if self.finding.kind.page_after >= PAGE_AFTER else ()
        after = {each.code: each.kind.page_after for each in (*harms, self.finding) if each.severity == "critical"}
        after |= {self.named.code: self.named.kind.page_after}
        every = (now, *now.harms)
        over = {each.code for each in every if each.is_over} - {each.code for each in every if not each.is_over}
        is_old = any(self.seen - since[code] >= after[code] for code in (since.keys() & after.keys()) - over)
        return self.named.severity == "critical" and is_old


class Hold:
    """The findings of one server over time. `at` is monotonic, `epoch` the same time in epoch seconds."""

    def __init__(self) -> None:
        self._held: Mapping[str, Held] = {}
        self._codes: dict[str, tuple[float, float]] = {}  # by code: its start (epoch), and when it was last seen
        self._looked_at = float("-inf")
        self.judged_at: float | None = None
        """When the server was last judged (epoch seconds)."""
        self.before_outage: frozenset[str] = frozenset()
        """The codes of the findings that there were when the server was last lost."""

    def look(self, findings: Sequence[Finding], at: float, epoch: float, *, is_whole: bool) -> list[Finding]:
        """Take what is judged now, worst first, and return what has begun. Of a part of a window, nothing is held."""
        keep = HOLD_SECONDS * is_whole
        self._codes |= {code: (self._codes.get(code, (epoch, at))[0], at) for each in findings for code in codes(each)}
        self._codes = {code: held for code, held in self._codes.items() if at - held[1] < keep or held[1] == at}
        self._held = self._merge(findings, at, epoch, keep)
        self._looked_at, self.judged_at = at, epoch
        return _list(self._held, findings, at, epoch, begun_only=True)

    def show(self, findings: Sequence[Finding], at: float, epoch: float, *, is_whole: bool) -> list[Finding]:
        """What people read of what is judged now, without taking it: what has begun, and of a part of a window all."""
        keep = HOLD_SECONDS * is_whole
        return _list(self._merge(findings, at, epoch, keep), findings, at, epoch, begun_only=is_whole)

    def alerts(self, at: float) -> list[Held]:
        """The problems that alerts are about, worst first, no code twice."""
        begun = [held for held in self._held.values() if held.has_begun(at, self._looked_at)]
        order = sorted(begun, key=lambda held: (SEVERITIES.index(held.named.severity), held.since))
        by_code = {held.named.code: held for held in reversed(order)}
        return [held for held in order if by_code[held.named.code] is held][:MOST_ALERTS]

    def since(self, code: str) -> float | None:
        """The start (epoch seconds) of the present finding with this code; None if there is none."""
        return self._codes.get(code, (None, 0.0))[0]

    def interrupt(self) -> None:
        """Forget all findings because the server cannot be read: a later finding is a new one."""
        self.before_outage = frozenset(self._codes)
        self._held, self._codes = {}, {}

    def _merge(self, findings: Sequence[Finding], at: float, epoch: float, keep: float) -> Mapping[str, Held]:
        merged = dict(self._held)
        seen = set[str]()
        for finding in findings:
            if finding.severity == "info":
                continue
            problem = _problem(finding)
            if problem in seen:  # such as an objective missed by lost requests
                problem = finding.code
            seen.add(problem)
            before = merged.get(problem) or Held(finding, finding, epoch, at, at, at)
            merged[problem] = _see(before, finding, at, keep)
        return {problem: held for problem, held in merged.items() if at - held.seen < keep or held.seen == at}


def _see(held: Held, finding: Finding, at: float, keep: float) -> Held:
    """A problem that is seen now. A lesser or less deep finding takes the place of one that was not seen for long."""
    if _rank(finding) > _rank(held.finding) and at - held.seen < keep:
        return held
    named = held.named
    is_same = (finding.kind, finding.severity) == (named.kind, named.severity)
    if not is_same and not (held.is_page and finding.severity == named.severity):
        named = finding
    turned = finding.severity == "critical" and held.finding.severity != "critical"
    every = (finding, *finding.harms)
    held = replace(
        held,
        finding=finding,
        named=named,
        seen=at,
        looks=held.looks + (at > held.seen),
        critical=at if turned else held.critical,
        harms={each.code: held.harms.get(each.code, at) for each in every if each.severity == "critical"},
    )
    return replace(held, is_page=(held.is_page and named.severity == "critical") or held.is_due(finding))


def _list(
    held: Mapping[str, Held], findings: Sequence[Finding], at: float, epoch: float, *, begun_only: bool
) -> list[Finding]:
    """Problems, worst first and in the order in which they are judged now, then what is good to know."""
    places = {_problem(finding): place for place, finding in reversed(list(enumerate(findings)))}
    places |= {finding.code: place for place, finding in enumerate(findings)}

    def urgency(problem: str) -> tuple[int, int]:
        return SEVERITIES.index(held[problem].finding.severity), places.get(problem, len(findings))

    candidates: list[Finding] = []
    for each in (held[problem] for problem in sorted(held, key=urgency)):
        seen, finding = strftime("%H:%M:%S", localtime(epoch - (at - each.seen))), each.finding
        if each.seen != at:
            finding = replace(finding, evidence=f"{finding.evidence} Last seen at {seen}.".lstrip())
        if each.has_begun(at, at) or not begun_only:
            candidates.append(finding)
    shown: list[Finding] = []
    for finding in (*candidates, *(each for each in findings if each.severity == "info")):
        if codes(finding).isdisjoint(code for each in shown for code in codes(each)):  # nothing says it already
            shown.append(finding)
    return shown


def _problem(finding: Finding) -> str:
    return _WAITING if any(each.kind.waiting for each in (finding, *finding.harms)) else finding.code


def codes(finding: Finding) -> set[str]:
    """The codes of a finding and of the harms that it explains."""
    return {finding.code, *[harm.code for harm in finding.harms]}


def _rank(finding: Finding) -> tuple[int, int]:
    return SEVERITIES.index(finding.severity), DEPTHS.get(finding.code, len(DEPTHS))
