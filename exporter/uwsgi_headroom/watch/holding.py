"""Holds findings for a while, so that a verdict does not come and go at a steady load.

A figure near its threshold fluctuates, and a finding with it: seen in one minute, not in the next, and joined to
another cause in the third. So a finding that needs action stays for HOLD_SECONDS after it was last seen, as it was seen
then. Of the findings about waiting only the worst is held, with the deepest cause: they are one problem.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import CAUSES, OF_WAITING, SEVERITIES, Finding

HOLD_SECONDS = 60.0
"""How long a finding stays after it was last seen: as long as the window that is judged."""

LEAST_COVERED = 0.9
"""The part of a window that must be known: what is judged from less, is not held."""

_WAITING = "waiting"


class HeldFindings:
    """The findings of one server over time, about windows of one length."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[float, Finding]] = {}  # by problem: when it was last seen (monotonic)

    def hold(self, figures: Figures, findings: Sequence[Finding], now: float, epoch: float) -> list[Finding]:
        """The findings about the window that ends now, and those that were seen a moment ago, worst first. now:
        monotonic; epoch: the same time in epoch seconds. Nothing is held across an outage."""
        if figures.window.observed_seconds < LEAST_COVERED * figures.window.asked:
            self._held.clear()
            return list(findings)
        self._held = {problem: held for problem, held in self._held.items() if now - held[0] < HOLD_SECONDS}
        places: dict[str, int] = {}
        for place, finding in enumerate(findings):
            if finding.severity == "info":
                continue
            problem = _problem(finding)
            if problem in places:  # such as an objective that was missed by lost requests, beside a wait
                problem = finding.code
            places[problem] = place
            if problem not in self._held or _rank(finding) <= _rank(self._held[problem][1]):
                self._held[problem] = now, finding
        shown: list[Finding] = []

        def urgency(problem: str) -> tuple[int, int]:
            return SEVERITIES.index(self._held[problem][1].severity), places.get(problem, len(findings))

        for problem in sorted(self._held, key=urgency):
            at, finding = self._held[problem]
            _add(shown, finding if at == now else _date(finding, epoch - (now - at)))
        for finding in findings:
            if finding.severity == "info":
                _add(shown, finding)
        return shown


def _add(shown: list[Finding], finding: Finding) -> None:
    """Add a finding, unless what is shown says it already."""
    if _codes(finding).isdisjoint(code for each in shown for code in _codes(each)):
        shown.append(finding)


def _problem(finding: Finding) -> str:
    return _WAITING if not _codes(finding).isdisjoint(OF_WAITING) else finding.code


def _codes(finding: Finding) -> set[str]:
    return {finding.code, *[harm.code for harm in finding.harms]}


def _rank(finding: Finding) -> tuple[int, int]:
    """Smaller is worse, or deeper."""
    depth = CAUSES.index(finding.code) if finding.code in CAUSES else len(CAUSES)
    return SEVERITIES.index(finding.severity), depth


def _date(finding: Finding, epoch: float) -> Finding:
    seen = time.strftime("%H:%M:%S", time.localtime(epoch))
    return replace(finding, evidence=f"{finding.evidence} Last seen at {seen}.".lstrip())
