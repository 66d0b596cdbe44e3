"""At which levels series are aggregated, by which labels: said once, for every rule.

Prometheus adds labels of its own (job, instance, whatever relabelling says). Rules never list them: they leave out what
a level does away with, and keep the rest. So a join between two levels ignores exactly those labels, and the same
server watched by two exporters is two servers, not an error.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds

WORKER_LABELS = "worker_id"
"""What tells workers of a server apart."""

WITHIN_SERVER = (WORKER_LABELS, "cpu", "kind", "le", "limit", "mode", "reason", "socket", "state")
"""Labels that tell parts and sides of one server apart."""


def by_server(aggregation: str, expression: str, also: str = "") -> str:
    """One figure for each server; `also` leaves out more labels, such as a CPU mode's."""
    return f"{aggregation} without ({_listed(WORKER_LABELS, also)}) ({expression})"


def by_worker(aggregation: str, expression: str, also: str) -> str:
    """One figure for each worker, without the labels `also`."""
    return f"{aggregation} without ({also}) ({expression})"


def by_service(aggregation: str, expression: str, thresholds: Thresholds, also: str = "") -> str:
    """One figure for each service: servers of the same name, in the same job, on any instance."""
    return f"{aggregation} without ({_listed(thresholds.instance_labels, also)}) ({expression})"


def of_server(operator: str) -> str:
    """`operator` between the series of workers on its left and their server's on its right."""
    return f"{operator} ignoring ({WORKER_LABELS}) group_left ()"


def _listed(*labels: str) -> str:
    return ", ".join(label for label in labels if label)
