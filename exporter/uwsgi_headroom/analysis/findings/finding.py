"""Defines what a finding is, and which runbook belongs to it, if any."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from uwsgi_headroom.analysis.littles_law import Flow, waiting_clause

if TYPE_CHECKING:
    from uwsgi_headroom.analysis.findings.kind import Kind

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


class Wording(NamedTuple):
    """What people read of a finding who may only scrape: no path, command, line of code or value of an option."""

    title: str = ""
    evidence: str = ""
    act: str = ""
    clause: str = ""


NO_WORDING = Wording()


@dataclass(frozen=True, slots=True)
class Finding:
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
    """How long requests wait, the clause of it in the evidence; empty without one."""
    without_wait: str = ""
    """The evidence without this clause, for a block in which another finding says it."""
    kind: Kind | None = None
    """The row that says it."""
    worker_id: int | None = None
    """The worker that is meant, if it is one."""
    public: Wording = NO_WORDING


class Evidence(NamedTuple):
    """Evidence that says how long requests wait. The names are those of a finding's fields."""

    evidence: str
    wait: str
    without_wait: str


def add_wait(first: str, flow: Flow, more: str = "") -> Evidence:
    """The evidence with how long the requests of a flow wait. first: its first sentence, without the full stop. more:
    further sentences, each after a space."""
    wait = waiting_clause(flow)
    return Evidence(f"{first}; {wait}.{more}", wait, f"{first}.{more}")


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
