"""Events of the verdict, and since when each finding has been so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.journal.events import Journal, Kind

JUDGE_SECONDS = 5.0
"""How often a server is judged for its journal, seconds; less often where it takes long."""

MISSED = 2
"""A finding that so many judgements in a row did not make has not ended: a figure at its threshold goes to and fro."""


EVENTS_OF_FINDINGS: Mapping[str, Kind] = {
    "harakiri": "worker_ended",
    "requests_lost": "worker_ended",
    "respawn_loop": "worker_ended",
    "workers_ended": "worker_ended",
    "workers_missing": "worker_ended",
    "workers_respawned": "worker_ended",
    "reloaded": "reload",
}
"""By code of a finding that counts events of a kind: the kind."""


class Verdicts:
    """The verdict of one server over time. It has changed when two judgements in a row say the same new one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._verdict: tuple[Status, str | None] = "ok", None
        self._sentence = ""
        self._candidate: tuple[tuple[Status, str | None], float] | None = None
        self._judgements = 0
        self._findings: dict[str, tuple[float, int]] = {}  # by code: since when (epoch seconds), and the last judgement

    def judge(self, time: float, status: Status, sentence: str, findings: Sequence[Finding]) -> None:
        """Note a judgement of this time (epoch seconds): `findings` come the worst first."""
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
        """The server cannot be read: what is found later begins then."""
        self._findings.clear()
        self._candidate = None

    def since(self, code: str) -> float | None:
        """Since when (epoch seconds) there has been a finding of this code without a break; None where there is none,
        or it is too new to have been judged."""
        since, last = self._findings.get(code, (None, 0))
        return since if self._judgements - last <= MISSED else None
