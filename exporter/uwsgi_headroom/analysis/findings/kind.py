"""Defines what a finding is, and a kind of finding: a row of words. A rule finds the facts, and the row says them.

A code, which scripts match, has a row for each wording. Nothing else holds a sentence about it, or says what else it
is: a harm of waiting, a cause of it, or what a runbook is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import force_setattr

from uwsgi_headroom.analysis.destinations import join_labels
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import waiting_clause
from uwsgi_headroom.analysis.log_words import read_log
from uwsgi_headroom.analysis.routes import describe_route
from uwsgi_headroom.analysis.setting_facts import DEFAULT_MERCY
from uwsgi_headroom.analysis.shortages import count_calls, find_cpu_of_own_threads, list_loads
from uwsgi_headroom.analysis.wait_states import WaitFigures, of_request
from uwsgi_headroom.analysis.worker_states import (
    count_lost,
    count_respawns,
    mean_life,
    name_slots,
    part_away,
    see_calls,
)
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import listed
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

    title: one sentence, without a measured figure; evidence: the figures behind it; meaning: why it matters; change:
    what to do, with uWSGI's option; empty if there is nothing to do.
    """

    code: str
    severity: Severity
    title: str
    evidence: str
    kind: Kind
    """The row that says it."""
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
    worker_id: int | None = None
    """The worker that is meant, if it is one."""
    public: Wording = field(default_factory=Wording)
    is_over: bool = False
    """Whether it is about a part of the window that has ended: that makes no page."""


Role = Literal["harm", "cause", "limit", "setting", "note"]
"""harm: users feel it; cause: it makes requests wait; limit: what ends first; setting: an option that will hurt."""


COMMON: Mapping[str, Callable[[Figures], Fact | Private]] = {
    "available": lambda figures: figures.server.memory is not None and figures.server.memory.available,
    "away": part_away,
    "by_workers": lambda figures: sum(list_loads(figures)),
    "asked": lambda figures: Private(join_labels(figures.waits.destinations if figures.waits else ()), "its backends"),
    "calls": lambda figures: see_calls(figures.server),
    "cgroup": lambda figures: figures.server.memory is not None and figures.server.memory.limited_by == "cgroup",
    "completed": lambda figures: figures.flow.requests,
    "counted": lambda figures: figures.window.is_counted,
    "cpu_wait": lambda figures: figures.waits is not None and figures.share("cpu_wait"),
    "lazy": lambda figures: figures.server.setup.options.lazy_apps,
    "lives": mean_life,
    "lost": count_lost,
    "mercy": lambda figures: figures.server.setup.options.worker_reload_mercy or DEFAULT_MERCY,
    "options": lambda figures: listed([f"`{name}`" for name in figures.server.setup.options.ends_workers] or [""]),
    "queries": count_calls,
    "reloads": lambda figures: figures.window.reloads,
    "requests": lambda figures: figures.flow.requests,
    "respawns": count_respawns,
    "rest": lambda figures: Private(find_cpu_of_own_threads(figures) or None),  # of threads that serve no request
    "route": lambda figures: Private(describe_route(figures.routes, figures.server)),
    "seconds": lambda figures: figures.window.seconds,
    "slots": lambda figures: name_slots(figures.server),
    "variable": lambda figures: figures.server.sample.pool_variable,
    "wait": lambda figures: waiting_clause(figures.flow),
    "workers": lambda figures: len(figures.server.workers),
}
"""Facts that many rows need, by the names that the rows call them."""

OF_STATE: Mapping[str, Callable[[WaitFigures, State], Fact]] = {
    "busy": lambda waits, _: waits.total,
    "of_request": lambda waits, state: of_request(waits, waits.each(state) or None),
    "share": lambda waits, state: waits.share(state),
    "waiting": lambda waits, state: waits.threads.get(state, 0.0),
}
"""The same about the threads in the state that a row is about, the first of its `states`."""


PAGE_AFTER = 300.0
"""For how many seconds a finding is critical before it is a page, if its row says nothing."""


class Kind(Struct, frozen=True, dict=True):
    """A row. severity: those that it can have, such as `critical or warning`. All texts are templates. title: one
    sentence, without a figure that changes from window to window; evidence: the figures; meaning: why it matters; act:
    the first thing to do, in 100 characters; then: what else; clause: the title of a cause, to follow a harm and a
    colon."""

    code: str
    severity: str
    title: str
    evidence: str
    meaning: str = ""
    act: str = ""
    then: str = ""
    clause: str = ""
    role: Role | None = None
    """Without one, a row with a clause is a cause, and another row a note."""
    page_after: float = PAGE_AFTER
    """Seconds for which it is critical before it is a page."""
    runbook: str = ""
    """The alert whose runbook is about it."""
    log: tuple[str, ...] = ()
    """The messages of uWSGI's log that may say why (`read_log`)."""
    replaces: tuple[str, ...] = ()
    """The codes of findings that are symptoms of this one, where it has a clause, unless they are more severe."""
    waiting: int = 0
    """The place among the harms that waiting does, in the order in which users feel them, 1 the worst; 0 for others."""
    explained_by: str = ""
    """The code of the cause that explains this harm, if it is none of waiting."""
    fills_threads: bool = False
    """Whether this cause fills the threads, also while no request waits for one."""
    limits: Literal["", "waits", "always", "turns", "lock"] = ""
    """When this cause limits a server whose threads, interpreters and CPUs are free (`correct_headroom`)."""
    states: tuple[State, ...] = ()
    """What the threads do that it is about, whose lines of code are named."""
    event: Literal["", "worker_ended", "reload"] = ""
    """The kind of the journal's events that it counts."""
    keeps_out: bool = False
    """Whether clients cannot connect because of it, so that it explains why no request came."""
    keeps_from_serving: bool = False
    """Whether it explains why free threads take no request."""

    def __post_init__(self) -> None:
        force_setattr(self, "role", self.role or ("cause" if self.clause else "note"))

    @cached_property
    def severities(self) -> tuple[Severity, ...]:
        """Those that it can have, the worst first."""
        return tuple(each for each in SEVERITIES if each in self.severity)

    @cached_property
    def facts(self) -> frozenset[str]:
        """The names of the facts that the row needs, but for the severities, which it always has."""
        texts = (self.title, self.evidence, self.meaning, self.act, self.then, self.clause)
        return frozenset().union(*map(names_in, texts)) - {*SEVERITIES}

    def found(
        self,
        figures: Figures | None = None,
        *known: Mapping[str, Fact | Private] | Struct | tuple[object, ...],
        worse: int = 0,
        of_host: bool = False,
        is_over: bool = False,
        worker_id: int | None = None,
        settings: tuple[tuple[str, int], ...] = (),
        serves: float | None = None,
        **more: Fact | Private,
    ) -> Finding:
        """The finding with the facts that the row needs: `more`, what it takes of `known`, which are facts by name or
        records with such fields, and the rest from the figures, by their names in COMMON, and from the log. worse: how
        many of the reasons for a worse severity than the mildest one hold. worker_id: the worker that is meant, if no
        fact `ids` has it alone."""
        facts = more
        for each in known:
            by_name = each if isinstance(each, Mapping) else _fields(each)
            facts |= {name: by_name[name] for name in self.facts & by_name.keys() - facts.keys()}
        if figures is not None:
            of_log = read_log(figures.server, self.log) if self.log else {}
            facts = {name: of_log[name] for name in self.facts & of_log.keys()} | facts
            facts |= {name: COMMON[name](figures) for name in (self.facts & COMMON.keys()) - facts.keys()}
            of_state = (self.facts & OF_STATE.keys()) - facts.keys()
            if figures.waits and self.states:
                facts |= {name: OF_STATE[name](figures.waits, self.states[0]) for name in of_state}
        if facts.keys() != self.facts:
            raise TypeError(f"{self.code}: {sorted(facts.keys() ^ self.facts)}")
        severity = self.severities[-1 - worse]
        facts |= {each: each == severity for each in SEVERITIES}
        match facts.get("ids"):
            case [int(only)]:
                worker_id = only
        public = (fill(text, facts, public=True) for text in (self.title, self.evidence, self.act, self.clause))
        return Finding(
            code=self.code,
            severity=severity,
            title=fill(self.title, facts),
            evidence=fill(self.evidence, facts),
            kind=self,
            meaning=fill(self.meaning, facts),
            change=f"{fill(self.act, facts)} {fill(self.then, facts)}".strip(),
            clause=fill(self.clause, facts),
            settings=settings,
            serves=serves,
            of_host=of_host,
            wait=str(facts.get("wait") or ""),
            worker_id=worker_id,
            public=Wording(*public),
            is_over=is_over,
        )


def _fields(record: Struct | tuple[object, ...]) -> dict[str, Any]:
    names = record.__struct_fields__ if isinstance(record, Struct) else getattr(record, "_fields", ())
    return {name: getattr(record, name) for name in names}


_HAS_ROOM = re.compile(r"\s*\((?:check first that|\d[\d,]* more workers? of)\b[^()]*\)|: [^():]* available(?=\))")
_ENDS = re.compile(r"(?:(?<=\.)\s+(?=[A-Z`]|uWSGI)|;)(?=(?:[^`]*`[^`]*`)*[^`]*$)")


def say_settings(settings: Sequence[tuple[str, int]]) -> str:
    """The sentence that says what to set; empty without settings."""
    return fill("[options? Set {options:list}.]", {"options": [f"`{name}` to {number}" for name, number in settings]})


def first_act(change: str) -> str:
    """The first act of an advice, without the full stop, and of memory (`fits`) only what is lacking."""
    return _ENDS.split(_HAS_ROOM.sub("", change), maxsplit=1)[0].rstrip(".")
