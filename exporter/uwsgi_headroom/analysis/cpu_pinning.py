"""Workers and CPUs."""

from __future__ import annotations

from collections import Counter

from uwsgi_headroom.kernel.facts import HostFacts


def count_workers_sharing_one_cpu(host: HostFacts) -> int:
    """How many workers of a server are pinned to one CPU together with another of them.

    A mask that the master has too is inherited (one CPU in the host, its container, or by `taskset`) and no pin.
    """
    masks = [process.affinity for process in host.processes.values()]
    pinned = Counter(mask for mask in masks if mask and len(mask) == 1 and mask != host.master_affinity)
    return sum(workers for workers in pinned.values() if workers > 1)
