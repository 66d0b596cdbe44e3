"""Finds workers with coroutines that use CPU time only to look for a free core.

While all async cores of a worker are in use and a request waits in the listen queue, uWSGI's event loop finds its
socket readable, cannot take the request, and looks again without a pause (core/async.c and plugins/gevent of uWSGI
2.0.31). Its CPU time is no limit of the load then, and is known only once cores are free.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from msgspec.structs import replace

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.record import ServerRecord

FULL, AT_TIMES = 0.9, 0.1
"""The part of a worker's async cores that is in use on average, and of the time in which those of all workers are."""

OF_KERNEL = 0.25
"""The part of a worker's CPU time that is the kernel's: 0.42 to 0.49 where the loop only looked again, 0.32 where the
requests computed for half of the time, and 0.15 where they computed all the time."""


LEAST = 0.1
"""CPUs below which a worker hardly polls: others take what waits. What it uses is near no limit either."""


def find_polling(window: Window, server: ServerRecord) -> dict[int, float]:
    """By worker: the CPUs that it uses while it polls."""
    seconds = window.observed_seconds
    if server.setup.concurrency_kind != "async" or not seconds:
        return {}
    cores = {worker.worker_id: worker.threads or inf for worker in server.workers}
    least = 0.0 if window.full_seconds >= AT_TIMES * seconds else FULL * seconds
    polling = [each for each in window.workers if _polls(each, least * cores.get(each.worker_id, inf))]
    used = {each.worker_id: (each.cpu_seconds or 0.0) / window.seconds for each in polling}
    return {worker_id: cpus for worker_id, cpus in used.items() if cpus >= LEAST}


def _polls(worker: WorkerWindow, least: float) -> bool:
    """Whether a worker whose cores were in use for at least these core seconds spends its CPU time in the kernel."""
    if (worker.busy_seconds or 0.0) < least:
        return False
    return (ratio(worker.system_seconds or 0.0, worker.cpu_seconds or 0.0) or 0.0) >= OF_KERNEL


def without_cpu(window: Window, workers: Mapping[int, float]) -> Window:
    """The window without the CPU time of these workers, which is not known: they would use it with any load."""
    if not workers:
        return window
    known = [replace(each, cpu_seconds=None) if each.worker_id in workers else each for each in window.workers]
    return replace(window, workers=tuple(known), cpu=None)
