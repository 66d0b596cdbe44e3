"""Counts workers that `cpu-affinity` pins to the same CPU."""

from __future__ import annotations

from collections import Counter

from uwsgi_headroom.record.server import ServerRecord


def count_workers_sharing_one_cpu(server: ServerRecord) -> int:
    """The number of workers that are pinned to a single CPU together with another worker of the server.

    An affinity mask equal to the master's is inherited (from a host or container with one CPU, or `taskset`), so it
    does not count as pinning.
    """
    masks = [worker.affinity for worker in server.workers]
    pinned = Counter(mask for mask in masks if mask and len(mask) == 1 and mask != server.master_affinity)
    return sum(workers for workers in pinned.values() if workers > 1)
