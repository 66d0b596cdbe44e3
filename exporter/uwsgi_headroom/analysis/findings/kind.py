"""Defines a kind of finding: a row of words. A rule finds the facts, and the row says them.

A code, which scripts match, has a row for each wording and severity. Nothing else holds a sentence about it: a row has
no choice of words but those of `template`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from uwsgi_headroom.analysis.findings.finding import Finding, Severity, Wording
from uwsgi_headroom.words.template import Fact, Private, fill, names_in

Role = Literal["harm", "cause", "limit", "setting", "note"]
"""harm: users feel it; cause: it makes requests wait or fail; limit: what ends first with more load; setting: an option
that will hurt; note: good to know."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A row. All texts are templates.

    title: one sentence, without a figure that changes from window to window; evidence: the figures; meaning: why it
    matters; act: the first thing to do, in 100 characters; then: what else to do; clause: the title of a cause, to
    follow a harm and a colon. page_after: seconds for which it is critical before it is a page. of_host: see `Finding`.
    """

    code: str
    role: Role
    severity: Severity
    title: str
    evidence: str
    meaning: str = ""
    act: str = ""
    then: str = ""
    clause: str = ""
    page_after: float = 300.0
    of_host: bool = False
    facts: frozenset[str] = field(init=False)
    """The names of the facts that the row needs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", frozenset().union(*map(names_in, self._texts())))

    def found(
        self,
        known: Mapping[str, Fact | Private] = MappingProxyType({}),
        *,
        worker_id: int | None = None,
        settings: tuple[tuple[str, int], ...] = (),
        serves: float | None = None,
        **more: Fact | Private,
    ) -> Finding:
        """The finding with these facts, `known` and `more`: exactly those that the row needs. Where one is `wait`, a
        clause that says how long requests wait, the evidence can leave it out. worker_id: the worker that is meant, if
        it is one, and no fact `ids` has it alone; settings, serves: see `Finding`."""
        facts = {**known, **more}
        if facts.keys() != self.facts:
            raise TypeError(f"{self.code}: {sorted(facts.keys() ^ self.facts)}")
        wait = str(facts.get("wait") or "")
        match facts.get("ids"):
            case [int(only)]:
                worker_id = only
        return Finding(
            code=self.code,
            severity=self.severity,
            title=fill(self.title, facts),
            evidence=fill(self.evidence, facts),
            meaning=fill(self.meaning, facts),
            change=f"{fill(self.act, facts)} {fill(self.then, facts)}".strip(),
            clause=fill(self.clause, facts),
            settings=settings,
            serves=serves,
            of_host=self.of_host,
            wait=wait,
            without_wait=fill(self.evidence, {**facts, "wait": None}) if wait else "",
            kind=self,
            worker_id=worker_id,
            public=Wording(
                *(fill(text, facts, public=True) for text in (self.title, self.evidence, self.act, self.clause))
            ),
        )

    def _texts(self) -> tuple[str, ...]:
        return self.title, self.evidence, self.meaning, self.act, self.then, self.clause
