"""Records changes of the verdict, and when each finding began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.journal.events import Journal, Kind

JUDGE_SECONDS = 5.0
"""Seconds between two judgements of a server for its journal; more if a judgement takes long."""

MISSED = 2
"""A finding persists through this many consecutive judgements without it: a figure near its threshold fluctuates."""


EVENTS_OF_FINDINGS: Mapping[str, Kind] = {
    "harakiri": "worker_ended",
    "requests_lost": "worker_ended",
    "respawn_loop": "worker_ended",
    "workers_ended": "worker_ended",
    "workers_missing": "worker_ended",
    "workers_respawned": "worker_ended",
    "reloaded": "reload",
}
"""The kind of the events that a finding is based on, by the finding's code."""


class Verdicts:
    """The verdict of one server over time. It changes when two consecutive judgements agree on a new one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._verdict: tuple[Status, str | None] = "ok", None
        self._sentence = ""
        self._candidate: tuple[tuple[Status, str | None], float] | None = None
        self._judgements = 0
        self._findings: dict[str, tuple[float, int]] = {}  # by code: its start (epoch seconds), and its last judgement

    def judge(self, time: float, status: Status, sentence: str, findings: Sequence[Finding]) -> None:
        """Record a judgement at this time (epoch seconds). `findings` are sorted, worst first."""
        since = {finding.code: self.since(finding.code) for finding in findings}
        self._judgements += 1
        for code, so_far in since.items():
            self._findings[code] = time if so_far is None else so_far, self._judgements
        verdict = status, findings[0].code if status != "ok" else None
        if verdict == self._verdict:
            self._sentence, self._candidate = sentence, None
        elif self._candidate is None or self._candidate[0] != verdict:
            self._candidate = verdict, time
        else:
            before = f"Before: {self._verdict[0]}. {self._sentence}" if self._sentence else ""
            self._journal.add(self._candidate[1], "verdict_changed", f"Verdict: {status}. {sentence}", before)
            self._verdict, self._sentence, self._candidate = verdict, sentence, None

    def interrupt(self) -> None:
        """Forget all findings because the server cannot be read: a later finding is a new one."""
        self._findings.clear()
        self._candidate = None

    def since(self, code: str) -> float | None:
        """The start (epoch seconds) of the present finding with this code; None if there is none, or if it is newer
        than the last judgement."""
        since, last = self._findings.get(code, (None, 0))
        return since if self._judgements - last <= MISSED else None
