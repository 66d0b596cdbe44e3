"""Findings about CPU: single interpreters, and all CPUs together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.advice import CPU_FULL, add_capacity, lacks_cpu
from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.littles_law import shows_a_limit, waiting_clause
from uwsgi_headroom.analysis.wait_states import is_contended, queues_for_lock
from uwsgi_headroom.words.formats import counted, duration, numbered

INTERPRETER_FULL = REACHED
"""At or above this load of an interpreter (CPU seconds per second), its threads mostly wait for its lock."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about CPU."""
    yield from _interpreters(figures)
    yield from _cpus(figures)


def _interpreters(figures: Figures) -> Iterator[Finding]:
    active = [worker for worker in figures.balance.active if worker.interpreter_load is not None]
    full = [
        worker
        for worker in active
        if (worker.interpreter_load or 0) >= INTERPRETER_FULL and is_contended(worker) is not False
    ]
    if not full:
        return
    everywhere = len(full) == len(active)
    if len(full) == 1:
        saturated = f"The interpreter of worker {full[0].worker_id} is"
    elif everywhere:
        saturated = f"The interpreters of all {len(full)} workers are"
    else:
        saturated = f"The interpreters of {numbered('worker', [worker.worker_id for worker in full])} are"
    highest = max(worker.interpreter_load or 0 for worker in full)
    most = max((worker.concurrency or 0) for worker in full)
    waits = shows_a_limit(figures.flow) or any(queues_for_lock(worker) for worker in full)
    yield Finding(
        code="interpreter_bound",
        severity="critical" if everywhere and waits else "warning",
        title=f"{saturated} saturated.",
        evidence=f"{highest:.2f} CPU seconds a second, where one interpreter can use 1; "
        f"up to {most:.1f} requests at once in such a worker; {_lock_clause(full)}{waiting_clause(figures.flow)}.",
        meaning="One worker runs Python on one CPU at a time; its threads take turns, and each request takes longer."
        + (" Throughput cannot grow any further." if everywhere else ""),
        change=add_capacity(figures)
        if everywhere
        else "Use more `processes` and fewer `threads`, as far as there are CPUs.",
    )


def _lock_clause(workers: Sequence[WorkerFigures]) -> str:
    """How many threads wait for the lock, as a clause; empty if that is not measured."""
    waiting = [worker.lock_waiters for worker in workers if worker.lock_waiters is not None]
    return f"up to {max(waiting):.1f} of them wait for the interpreter lock; " if waiting else ""


def _cpus(figures: Figures) -> Iterator[Finding]:
    cpus = figures.server.cpus
    if cpus is None:
        return
    active = figures.balance.active
    used = sum(worker.interpreter_load or 0 for worker in active)
    left = figures.cpu
    if used < CPU_FULL * cpus.count and not lacks_cpu(figures, cpus.count):
        return
    limit = {
        "affinity": "Widen `cpu-affinity`, or the affinity mask that the service manager sets.",
        "quota": "Raise the CPU quota of its cgroup (CPUQuota, --cpus, resources.limits.cpu).",
        "host": "Add CPUs, or move load to another host.",
    }
    in_service = figures.flow.observed or 0.0
    waits = shows_a_limit(figures.flow) or in_service >= used + cpus.count
    alone = used >= CPU_FULL * cpus.count
    if not (alone or waits) and left is not None and (left.others or 0.0) > left.own:
        return  # the server has enough CPU, and `neighbours` reports who uses the rest
    idle = "" if alone or left is None else f", {left.idle:.2f} idle"
    yield Finding(
        code="cpu_bound",
        severity="critical" if waits else "warning",
        title=f"The workers use all the CPU that they can get: {used:.1f} of {cpus.count:g} CPUs."
        if alone
        else "The workers and other programs use all the CPU there is.",
        evidence=f"{used:.2f} of {cpus.count:g} CPUs in use by {counted(len(active), 'worker')}{idle}, "
        f"{in_service:.1f} requests in service; {waiting_clause(figures.flow)}.",
        meaning="No option of uWSGI adds CPUs; response times grow with load.",
        change=limit[cpus.limited_by] if alone else "Move the other programs to another host, or add CPUs.",
    )
    if len(active) > cpus.count:
        yield Finding(
            code="more_workers_than_cpus",
            severity="info",
            title=f"More busy workers ({len(active)}) than CPUs ({cpus.count:g}).",
            evidence=f"{used:.2f} CPUs in use; mean response time {duration(figures.flow.response_time or 0)}.",
            meaning="Workers that compute at the same time share the CPUs; more of them add memory, not speed.",
            change=f"Use {max(1, round(cpus.count))} to {max(2, round(2 * cpus.count))} `processes` for work that "
            "mostly computes.",
        )
