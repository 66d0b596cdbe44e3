"""Findings that name uWSGI's own processes that are no workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.test_findings import findings_by_code, with_cpus
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.kernel.facts import Memory
from uwsgi_headroom.kernel.memory import AvailableMemory, WorkerMemory
from uwsgi_headroom.record import RoleUse

MULES = RoleUse("mule", 2, 100.0, 1.1, 50_000_000)
ROUTER = RoleUse("router", 1, 1.0, 0.01, 8_600_000_000)


def beside(own: float, idle: float, others: float) -> Window:
    """A minute of four workers beside others that use so many CPUs."""
    rows = [worker(number, 600, each=0.1, cpu=15 * own, busy=60.0) for number in range(1, 5)]
    return window(60, *rows, cpu=(own, idle, others), waits={"cpu": own, "cpu_wait": 0.3, "sleep": 2.0})


def starved(window_: Window) -> Window:
    """The same, with requests that mostly wait for a CPU."""
    assert window_.waits
    return replace(window_, waits=replace(window_.waits, seconds={"cpu": 30.0, "cpu_wait": 120.0}))


def findings(window_: Window, *uses: RoleUse, memory: Memory | None = None) -> dict[str, Finding]:
    server = Server(cpus=2.0)
    host = with_cpus(server, UsableCpus(2.0, "host", 2, 2, None)).host
    return findings_by_code(window_, server, host=replace(host, roles=uses, memory=memory or host.memory))


def test_mules_are_no_other_programs() -> None:
    """Where they use most of what others use, they are named, and what to do is about them."""
    finding = findings(beside(0.5, 0.3, 1.2), MULES)["cpu_used_by_others"]
    assert "mules" in finding.title
    assert "mules (1.10 CPUs)" in finding.evidence
    assert "mules of this uWSGI" in finding.change
    full = findings(starved(beside(0.5, 0.0, 1.5)), MULES)["cpu_bound"]
    assert "mules" in full.title


@pytest.mark.parametrize("uses", [(), (MULES._replace(cpus=0.3),), (MULES._replace(cpus=None),)])
def test_other_programs_are_other_programs(uses: tuple[RoleUse, ...]) -> None:
    """Where uWSGI's own processes use little of it, or it is not known, the rest is other programs'."""
    finding = findings(beside(0.5, 0.3, 1.2), *uses)["cpu_used_by_others"]
    assert "uWSGI" not in finding.title


def of_workers(available: int) -> Memory:
    return Memory(WorkerMemory(50_000_000, "uss", 200_000_000, {}), AvailableMemory(available, "cgroup"))


@pytest.mark.parametrize(("available", "severity"), [(4_000_000_000, "info"), (20_000_000, "warning")])
def test_a_router_with_a_huge_table(available: int, severity: str) -> None:
    """Its memory is named, with the option; it is a warning where memory is scarce."""
    finding = findings(beside(0.1, 1.8, 0.1), ROUTER, memory=of_workers(available))["role_takes_memory"]
    assert finding.severity == severity
    assert finding.title == "uWSGI's router takes more memory than all workers together."
    assert "8.6 GB" in finding.evidence
    assert "`max-fd`" in finding.change


@pytest.mark.parametrize("use", [ROUTER._replace(resident_bytes=150_000_000), ROUTER._replace(role="master")])
def test_memory_that_is_no_finding(use: RoleUse) -> None:
    """A router of usual size, or the master, which has the application loaded."""
    assert "role_takes_memory" not in findings(beside(0.1, 1.8, 0.1), use, memory=of_workers(10**9))
