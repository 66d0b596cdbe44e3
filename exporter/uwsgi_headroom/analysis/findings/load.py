"""Findings about load against a limit: threads, interpreters, CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.formatting import counted, duration, numbered, percent
from uwsgi_headroom.reading import Reading

THREADS_FULL = (0.10, 0.01)
"""Part of the time with every thread busy that is critical, and a warning: a request then waits, however short the
average load is of capacity. Raise them for a batch server whose clients do not mind waiting."""

THREADS_BUSY = 0.75
"""Mean concurrency against available capacity that is a warning: random arrivals fill the rest now and then."""

INTERPRETER_FULL = 0.90
"""CPU a second of one interpreter from which its threads mostly wait for its lock."""

CPU_FULL = 0.90
"""CPU used by the workers against what they may use at all."""


def find(figures: Figures, reading: Reading) -> Iterator[Finding]:
    """Findings of this module."""
    yield from _threads(figures)
    yield from _interpreters(figures)
    yield from _cpus(figures, reading)


def _threads(figures: Figures) -> Iterator[Finding]:
    window, observed, available = figures.window, figures.flow.observed, figures.available
    if observed is None or not available or not window.observed_seconds:
        return
    full = window.full_seconds / window.observed_seconds
    critical, warning = THREADS_FULL
    if full < warning and observed < THREADS_BUSY * available:
        return
    yield Finding(
        code="saturation",
        severity="critical" if full >= critical else "warning",
        title=f"The threads {'are' if full >= critical else 'are nearly'} all in use.",
        evidence=f"{observed:.1f} of {available} threads busy on average, all of them {percent(full)} of the time.",
        meaning="A request that finds every thread busy waits in the listen queue, and then finds the queue full.",
        change=_more_threads(figures),
    )


def _more_threads(figures: Figures) -> str:
    """More threads help only where the interpreters have time left for them."""
    loads = [worker.interpreter_load for worker in figures.balance.workers if worker.interpreter_load is not None]
    if loads and sum(loads) / len(loads) > INTERPRETER_FULL / 2:
        return "Add `processes`: more threads in these would wait for the interpreters, which are busy already."
    return "Raise `threads` or `processes`, or make the requests shorter; measure again, one change at a time."


def _interpreters(figures: Figures) -> Iterator[Finding]:
    active = [worker for worker in figures.balance.workers if worker.active and worker.interpreter_load is not None]
    full = [worker for worker in active if (worker.interpreter_load or 0) >= INTERPRETER_FULL]
    if not full:
        return
    everywhere = len(full) == len(active)
    wait = max((worker.concurrency or 0) for worker in full)
    if len(full) == 1:
        saturated = f"The interpreter of worker {full[0].worker_id} is"
    elif everywhere:
        saturated = f"The interpreters of all {len(full)} workers are"
    else:
        saturated = f"The interpreters of {numbered('worker', [worker.worker_id for worker in full])} are"
    highest = max(worker.interpreter_load or 0 for worker in full)
    single = everywhere and wait <= 1
    yield Finding(
        code="interpreter_bound",
        severity="critical" if everywhere else "warning",
        title=f"{saturated} saturated.",
        evidence=f"{highest:.2f} CPU seconds a second, where one interpreter can use 1; "
        f"up to {wait:.1f} requests at once in such a worker.",
        meaning="One worker runs Python on one CPU at a time; its threads take turns, and each request takes longer."
        + (" Throughput cannot grow any further." if everywhere else ""),
        change="Add `processes` as far as there are CPUs."
        if single
        else "Use more `processes` and fewer `threads`, as far as there are CPUs.",
    )


def _cpus(figures: Figures, reading: Reading) -> Iterator[Finding]:
    cpus = reading.host.cpus
    if cpus is None:
        return
    active = [worker for worker in figures.balance.workers if worker.active]
    used = sum(worker.interpreter_load or 0 for worker in active)
    if used >= CPU_FULL * cpus.count:
        limit = {
            "affinity": "Its affinity allows no more: widen `cpu-affinity` or the mask the service manager sets.",
            "quota": "Its cgroup's quota allows no more: raise it (CPUQuota, --cpus, resources.limits.cpu).",
            "host": "The host has no more: give it more CPUs, or move load to another host.",
        }
        yield Finding(
            code="cpu_bound",
            severity="critical",
            title="The workers use all the CPU they can get.",
            evidence=f"{used:.2f} of {cpus.count:g} CPUs in use by {counted(len(active), 'worker')}.",
            meaning="No option of uWSGI makes more of them; response times grow from here.",
            change=limit[cpus.limited_by],
        )
        if len(active) > cpus.count:
            yield Finding(
                code="more_workers_than_cpus",
                severity="info",
                title=f"There are more busy workers ({len(active)}) than CPUs ({cpus.count:g}).",
                evidence=f"{used:.2f} CPUs in use; mean response time {duration(figures.flow.response_time or 0)}.",
                meaning="Workers that compute at the same time share the CPUs; more of them add memory, not speed.",
                change=f"About {max(1, round(cpus.count))} to {max(2, round(2 * cpus.count))} `processes` are enough "
                "for work that mostly computes.",
            )
