"""The finding about neighbours: other programs that use CPUs which the server could use."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.advice import LEAST_OWN
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.words.formats import factor

SCARCE = 0.5
"""If at least this fraction of the CPUs is idle, there is enough CPU for all programs."""

LOW, MODERATE = 1.5, 3.0
"""CPU headroom below which neighbours are a warning, and below which they are good to know. Raise both if load
jumps."""


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about neighbours."""
    cpu = figures.cpu
    room = figures.headroom.by_limit.get("cpu")
    if cpu is None or cpu.others is None or room is None or room >= MODERATE:
        return
    capacity = cpu.own + cpu.idle + cpu.others
    if cpu.others <= cpu.own or cpu.idle >= SCARCE * capacity:
        return
    yield Finding(
        code="cpu_used_by_others",
        severity="warning" if room < LOW and cpu.own >= LEAST_OWN * capacity else "info",
        title=f"Other programs use {cpu.others:.1f} of the {_number(capacity)} CPUs.",
        evidence=f"{cpu.own:.2f} CPUs in use by the workers, {cpu.idle:.2f} idle, {cpu.others:.2f} in use by others; "
        f"CPU headroom {factor(room)}.",
        meaning="More load makes the workers compete with other programs for CPU, and response times grow. uWSGI's own "
        "mules, spoolers and routers count as other programs.",
        change="Move the other programs to another host, or limit their CPU with a cgroup quota.",
    )


def _number(cpus: float) -> str:
    """Format a number of CPUs. It is measured, so it is rounded: 1.98 becomes 2."""
    return f"{cpus:.1f}".removesuffix(".0")
