"""The levels at which rules aggregate series, and the labels of each level.

Prometheus adds its own labels (job, instance, those of relabelling). Rules never list these: an aggregation removes
only the labels of the lower level, and keeps the rest. So a join between two levels ignores exactly the removed labels,
and the same server watched by two exporters counts as two servers and is not an error.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds

WORKER_LABELS = "worker_id"
"""The label that distinguishes the workers of a server."""

WITHIN_SERVER = (WORKER_LABELS, "backend", "cpu", "kind", "le", "limit", "mode", "reason", "route", "socket", "state")
"""Labels that distinguish parts and aspects of one server."""


def by_server(aggregation: str, expression: str, also: str = "") -> str:
    """One figure per server; `also` removes more labels, such as the CPU mode."""
    return f"{aggregation} without ({_listed(WORKER_LABELS, also)}) ({expression})"


def by_worker(aggregation: str, expression: str, also: str) -> str:
    """One figure per worker; `also` lists the labels to remove."""
    return f"{aggregation} without ({also}) ({expression})"


def by_service(aggregation: str, expression: str, thresholds: Thresholds, also: str = "") -> str:
    """One figure per service: servers of the same name, in the same job, on any instance."""
    return f"{aggregation} without ({_listed(thresholds.instance_labels, also)}) ({expression})"


def of_server(operator: str, part: str = WORKER_LABELS) -> str:
    """`operator` with series of workers on its left and of their server on its right; part: the label of other parts of
    a server."""
    return f"{operator} ignoring ({part}) group_left ()"


def _listed(*labels: str) -> str:
    return ", ".join(label for label in labels if label)
