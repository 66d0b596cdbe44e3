"""The finding about other programs that use CPUs which the server could use."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.capacity import LEAST_OWN
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.load import find_full_cpus, is_full_host
from uwsgi_headroom.analysis.roles import describe_busy, find_main_role, name_role
from uwsgi_headroom.analysis.shortages import CPU_WAIT, are_waits_known, waits_for_cpu
from uwsgi_headroom.words.formats import factor

SCARCE = 0.5
"""If at least this fraction of the CPUs is idle, there is enough CPU for all programs."""

LOW, MODERATE = 1.5, 3.0
"""CPU headroom below which other programs are a warning, and below which they are good to know. Raise both if load
jumps."""


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about other programs."""
    cpu = figures.cpu
    room = figures.headroom.by_limit.get("cpu")
    if cpu is None or cpu.others is None or room is None or room >= MODERATE:
        return
    capacity = cpu.own + cpu.idle + cpu.others
    if next(find_full_cpus(figures), None):
        return  # it says so
    if cpu.others <= cpu.own or cpu.idle >= SCARCE * capacity:
        return
    own = find_main_role(figures)
    yield Finding(
        code="cpu_used_by_others",
        severity="warning" if room < LOW and cpu.own >= LEAST_OWN * capacity and _may_wait(figures) else "info",
        title=f"uWSGI's own {name_role(own)} {'uses' if own.processes == 1 else 'use'} more CPU than the workers do."
        if own
        else "Other programs use more CPU than the workers do.",
        evidence=f"Of {_number(capacity)} CPUs, the workers use {cpu.own:.2f}, other programs use {cpu.others:.2f}, "
        f"and {cpu.idle:.2f} are idle; the CPU headroom is {factor(room)}.{describe_busy(figures)}",
        meaning="If load grows, the workers compete with other programs for CPU, and response times grow. uWSGI's own "
        "mules, spoolers and routers count as other programs.",
        change=f"Find out what the {name_role(own)} of this uWSGI {'computes' if own.processes == 1 else 'compute'}, "
        "and move this work to another host, or limit its CPU."
        if own
        else "Move the other programs to another host, or limit their CPU with a cgroup quota.",
        of_host=own is None and is_full_host(figures),
    )


def _may_wait(figures: Figures) -> bool:
    """Whether requests were measured to wait for a CPU for a notable part of their time, or nothing was measured. The
    kernel shares CPUs fairly, so a server that uses little of them hardly waits beside busy other programs."""
    return not are_waits_known(figures) or waits_for_cpu(figures, CPU_WAIT / 2)


def _number(cpus: float) -> str:
    """Format a number of CPUs. It is measured, so it is rounded: 1.98 becomes 2."""
    return f"{cpus:.1f}".removesuffix(".0")
