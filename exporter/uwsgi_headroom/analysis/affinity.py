"""Workers and CPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from uwsgi_headroom.kernel.processes import WorkerProcess


def sharing_one_cpu(processes: Iterable[WorkerProcess]) -> int:
    """How many of these are pinned to one CPU together with another of them."""
    pinned = Counter(process.affinity for process in processes if process.affinity and len(process.affinity) == 1)
    return sum(workers for workers in pinned.values() if workers > 1)
