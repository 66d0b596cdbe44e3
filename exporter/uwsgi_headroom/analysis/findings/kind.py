"""Defines what a finding is, and a kind of finding: a row of words. A rule finds the facts, and the row says them.

A code, which scripts match, has a row for each wording. Nothing else holds a sentence about it: a row has no choice of
words but those of `template`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import force_setattr

from uwsgi_headroom.words.template import Fact, Private, fill, names_in

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


class Wording(NamedTuple):
    """What people read of a finding who may only scrape: no path, command, line of code or value of an option."""

    title: str = ""
    evidence: str = ""
    act: str = ""
    clause: str = ""


class Finding(Struct, frozen=True):
    """A finding about a server. critical: requests suffer now; warning: they will, or some do; info: good to know.

    code: a stable name; title: one sentence; evidence: the figures behind it; meaning: why it matters; change: what to
    do, with uWSGI's option; empty if there is nothing to do. A title has no measured figure, so that it is the same
    from window to window while the load is steady.
    """

    code: str
    severity: Severity
    title: str
    evidence: str
    meaning: str = ""
    change: str = ""
    clause: str = ""
    """The title of a cause as a clause, to follow a harm and a colon; empty if it is no cause of harms."""
    settings: tuple[tuple[str, int], ...] = ()
    """The options of uWSGI that `change` sets to a number, and these numbers."""
    serves: float | None = None
    """The requests per second that the server serves at least with these settings; None if unknown."""
    harms: tuple[Finding, ...] = ()
    """The findings that this one explains (see `diagnosis`)."""
    of_host: bool = False
    """Whether the host lacks something, so that no setting of this uWSGI changes it."""
    wait: str = ""
    """How long requests wait: the clause after the semicolon in the evidence; empty without one."""
    kind: Kind | None = None
    """The row that says it."""
    worker_id: int | None = None
    """The worker that is meant, if it is one."""
    public: Wording = field(default_factory=Wording)


Role = Literal["harm", "cause", "limit", "setting", "note"]
"""harm: users feel it; cause: it makes requests wait or fail; limit: what ends first with more load; setting: an option
that will hurt; note: good to know."""

Range = Literal["critical", "warning", "info", "critical or warning", "warning or info", "critical, warning or info"]
"""The severities that a row can have."""


class Kind(Struct, frozen=True, dict=True):
    """A row. All texts are templates.

    title: one sentence, without a figure that changes from window to window; evidence: the figures; meaning: why it
    matters; act: the first thing to do, in 100 characters; then: what else to do; clause: the title of a cause, to
    follow a harm and a colon. role: without one, a row with a clause is a cause, and another row a note. page_after:
    seconds for which it is critical before it is a page. replaces: the codes of findings that are symptoms of this one,
    where it has a clause, unless they are more severe.
    """

    code: str
    severity: Range
    title: str
    evidence: str
    meaning: str = ""
    act: str = ""
    then: str = ""
    clause: str = ""
    role: Role | None = None
    page_after: float = 300.0
    replaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "role", self.role or ("cause" if self.clause else "note"))

    @cached_property
    def severities(self) -> tuple[Severity, ...]:
        """Those that it can have, the worst first."""
        return tuple(each for each in SEVERITIES if each in self.severity)

    @cached_property
    def facts(self) -> frozenset[str]:
        """The names of the facts that the row needs. It also has each severity as a fact, for parts that depend on the
        severity that was found."""
        return frozenset().union(*map(names_in, self._texts())) - {*SEVERITIES}

    def found(
        self,
        known: Mapping[str, Fact | Private] = MappingProxyType({}),
        *,
        worse: int = 0,
        of_host: bool = False,
        worker_id: int | None = None,
        settings: tuple[tuple[str, int], ...] = (),
        serves: float | None = None,
        **more: Fact | Private,
    ) -> Finding:
        """The finding with these facts, `known` and `more`: exactly those that the row needs. Where one is `wait`, a
        clause that says how long requests wait, a block can leave it out. worse: how many of the reasons for a worse
        severity than the mildest one hold. worker_id: the worker that is meant, if it is one, and no fact `ids` has it
        alone; of_host, settings, serves: see `Finding`."""
        facts = {**known, **more}
        if facts.keys() != self.facts:
            raise TypeError(f"{self.code}: {sorted(facts.keys() ^ self.facts)}")
        severity = self.severities[-1 - worse]
        facts |= {each: each == severity for each in SEVERITIES}
        match facts.get("ids"):
            case [int(only)]:
                worker_id = only
        return Finding(
            code=self.code,
            severity=severity,
            title=fill(self.title, facts),
            evidence=fill(self.evidence, facts),
            meaning=fill(self.meaning, facts),
            change=f"{fill(self.act, facts)} {fill(self.then, facts)}".strip(),
            clause=fill(self.clause, facts),
            settings=settings,
            serves=serves,
            of_host=of_host,
            wait=str(facts.get("wait") or ""),
            kind=self,
            worker_id=worker_id,
            public=Wording(
                *(fill(text, facts, public=True) for text in (self.title, self.evidence, self.act, self.clause))
            ),
        )

    def _texts(self) -> tuple[str, ...]:
        return self.title, self.evidence, self.meaning, self.act, self.then, self.clause


_HAS_ROOM = re.compile(r"\s*\((?:check first that|\d[\d,]* more workers? of)\b[^()]*\)")
_ENDS = re.compile(r"(?:(?<=\.)\s+(?=[A-Z`])|;)(?=(?:[^`]*`[^`]*`)*[^`]*$)")


def first_act(change: str) -> str:
    """The first act of an advice, without the full stop, and without how memory suffices for it (`fits`), which a
    shortage is not."""
    return _ENDS.split(_HAS_ROOM.sub("", change), maxsplit=1)[0].rstrip(".")


_EXPLAINED = {
    "UwsgiDown": "was_down",
    "UwsgiRequestStuck": "workers_paused request_stuck",
    "UwsgiWorkersUneven": "unevenness_hurts uneven unevenness_harmless",
    "UwsgiConcurrencyNearCapacity": "saturation static_files backend_saturated sleeps_again waits_for_backend",
    "UwsgiQueueWaitHigh": "cheaper_does_not_scale cheaper_starts_slowly signal_handlers queue_wait recycled_together",
    "UwsgiInterpreterBound": "interpreter_bound interpreter_lock_held computes_outside_the_lock",
    "UwsgiClientsSlow": "slow_clients",
    "UwsgiLockBound": "application_lock pool_exhausted waits_for_threads",
    "UwsgiCpuBound": "cpu_throttled cpu_wait cpu_bound more_workers_than_cpus workers_share_one_cpu",
    "UwsgiHostFull": "cpu_used_by_others",
    "UwsgiListenQueueOverflowing": "clients_refused queue_filling",
    "UwsgiSlower": "became_slower",
    "UwsgiErrorBudgetBurning": "objective_missed",
    "UwsgiRequestsLost": "harakiri out_of_memory requests_lost respawn_loop workers_ended workers_missing",
    "UwsgiRequestsRejected": "requests_rejected",
    "UwsgiNoApplication": "requests_unanswered no_application",
    "UwsgiLoopHeld": "loop_held",
    "UwsgiConnectionShared": "connection_shared",
    "UwsgiDescriptorsLow": "descriptors_used_up",
    "UwsgiOutputBlocked": "output_blocked",
    "UwsgiWorkerMemoryGrowing": "memory_recycled memory_growing",
    "UwsgiExceptionsHigh": "exceptions clients_left",
    "UwsgiVassalThrottled": "vassals_throttled",
}
"""The codes of the findings that a runbook is about. Other findings need none."""

RUNBOOKS = {code: runbook for runbook, codes in _EXPLAINED.items() for code in codes.split()}
"""Names of runbooks by the finding's code."""
