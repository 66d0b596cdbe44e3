"""Defines what a finding is, and which runbook belongs to it: that of the alert for the same problem, if any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a server. critical: requests suffer now; warning: they will, or some do; info: good to know.

    code: a stable name; title: one sentence; evidence: the figures behind it; meaning: why it matters; change: what to
    do, with uWSGI's option; empty if there is nothing to do.
    """

    code: str
    severity: Severity
    title: str
    evidence: str
    meaning: str = ""
    change: str = ""


RUNBOOKS = {
    "unevenness_hurts": "UwsgiHotWorkerSaturated",
    "uneven": "UwsgiWorkersUneven",
    "unevenness_harmless": "UwsgiWorkersUneven",
    "saturation": "UwsgiConcurrencyNearCapacity",
    "cheaper_does_not_scale": "UwsgiQueueWaitHigh",
    "interpreter_bound": "UwsgiInterpreterBound",
    "interpreter_lock_held": "UwsgiInterpreterBound",
    "computes_outside_the_lock": "UwsgiInterpreterBound",
    "slow_clients": "UwsgiConcurrencyNearCapacity",
    "application_lock": "UwsgiConcurrencyNearCapacity",
    "waits_for_backend": "UwsgiConcurrencyNearCapacity",
    "waits_not_known": "UwsgiConcurrencyNearCapacity",
    "cpu_bound": "UwsgiCpuBound",
    "cpu_used_by_others": "UwsgiCpuBound",
    "more_workers_than_cpus": "UwsgiCpuBound",
    "workers_share_one_cpu": "UwsgiWorkersShareOneCpu",
    "clients_refused": "UwsgiListenQueueOverflowing",
    "queue_filling": "UwsgiListenQueueFilling",
    "queue_wait": "UwsgiQueueWaitHigh",
    "queue_not_measurable": "UwsgiQueueNotMeasurable",
    "objective_missed": "UwsgiErrorBudgetBurning",
    "request_stuck": "UwsgiRequestStuck",
    "harakiri": "UwsgiHarakiri",
    "requests_lost": "UwsgiRequestsLost",
    "respawn_loop": "UwsgiRespawnLoop",
    "workers_ended": "UwsgiRequestsLost",
    "no_application": "UwsgiNoApplication",
    "workers_missing": "UwsgiRespawnLoop",
    "exceptions": "UwsgiExceptionsHigh",
    "memory_growing": "UwsgiWorkerMemoryGrowing",
    "vassals_throttled": "UwsgiVassalThrottled",
}
"""Names of runbooks by the finding's code. Other findings need no runbook."""
