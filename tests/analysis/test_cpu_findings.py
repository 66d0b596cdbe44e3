"""Findings about CPUs: who uses them, which limit they have, and requests that wait for one."""

import pytest

from tests.analysis.judging import findings_by_code, judge, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, cpus
from uwsgi_headroom.kernel.cpus import UsableCpus


@pytest.mark.parametrize(
    ("limited_by", "word"), [("affinity", "cpu-affinity"), ("quota", "CPUQuota"), ("host", "Add CPUs")]
)
def test_cpu_bound_names_the_limit(limited_by, word):
    """The advice is for the smallest limit: affinity mask, quota or host, of which only the last is not uWSGI's own."""
    rows = [worker(number, 600, cpu=28.0, busy=60.0) for number in (1, 2, 3, 4)]
    found = findings_by_code(window(60, *rows), cpus=UsableCpus(2.0, limited_by, 8, 8, None))
    assert word in found["cpu_bound"].change
    assert found["cpu_bound"].of_host == (limited_by == "host")
    assert found["more_workers_than_cpus"].evidence.startswith("4 workers are busy, ")


def beside(own: float, idle: float, others: float | None, waits: dict[str, float] | None = None) -> dict[str, Finding]:
    """Findings about a server that uses this many CPUs, with this many idle and in use by others."""
    rows = (worker(number, 500, each=0.01, cpu=15 * own, busy=5.0) for number in (1, 2, 3, 4))
    server = Server(cpus=own + idle + (others or 0.0))
    return findings_by_code(window(60.0, *rows, cpu=(own, idle, others), waits=waits), server)


@pytest.mark.parametrize(("waiting", "expected"), [(0.03, "info"), (0.05, "warning")])
def test_others_that_leave_nothing_are_a_warning(waiting, expected):
    """If requests wait for it, or that is not known."""
    waits = {"sleep": 0.3 - waiting, "cpu": 0.1, "cpu_wait": waiting}
    assert severity(beside(0.1, 0.0, 1.9, waits), "cpu_used_by_others") == expected
    unknown = beside(0.1, 0.0, 1.9)["cpu_used_by_others"]
    assert (unknown.kind, unknown.of_host) == (cpus.USED_BY_OTHERS, True)


@pytest.mark.parametrize(
    ("waits", "found"),
    [
        ({"cpu": 0.1, "cpu_wait": 0.3}, True),
        ({"cpu": 0.1, "cpu_wait": 0.1, "sleep": 0.3}, False),  # they mostly sleep
        ({"cpu": 0.1, "unknown": 0.3}, False),
    ],
)
@pytest.mark.parametrize("cpu", [(0.1, 1.0, 0.9), None])
def test_requests_wait_for_a_cpu(waits, found, cpu):
    """Measured, that is a cause, also if half of the CPUs are idle or that is not known. Others are
    idle, so that its own CPUs may be too few."""
    rows = [worker(number, 60, each=0.24, cpu=3.0, busy=14.4) for number in (1, 2)]
    server = Server(processes=2, threads=2, cpus=2.0)
    finding = judge(window(60, *rows, cpu=cpu, waits=waits), server).get("cpu_wait")
    assert (finding is not None and not finding.of_host) == found
    first, *_ = judge(window(60, *rows, waits=waits, app=60.0), server)
    assert (first == "cpu_wait") == found
