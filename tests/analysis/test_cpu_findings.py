"""Findings about CPUs: who uses them, which limit they have, and requests that wait for one."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import findings_by_code, judge, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, first_act, load
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.cpus import Throttling, UsableCpus
from uwsgi_headroom.record import Destination, Quota
from uwsgi_headroom.surroundings import RoleUse


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


@pytest.mark.parametrize(
    ("address", "act"),
    [
        ("127.0.0.1:5432", "Check `pg_stat_activity` to see what postgres at 127.0.0.1:5432 runs"),
        ("/run/.s.PGSQL.5432", "Check `pg_stat_activity` to see what postgres at /run/.s.PGSQL.5432 runs"),
        ("10.0.0.9:5432", "Move the other programs to another host"),
    ],
)
@pytest.mark.parametrize("own", [0.5, 0.1])
def test_a_database_on_this_host(address, act, own):
    """What uses the other CPUs is most likely the backend for which requests wait: to move it would not help."""
    rows = (worker(number, 500, each=0.04, cpu=15 * own, busy=20.0) for number in (1, 2, 3, 4))
    waits = {"backend": 0.8, "cpu_wait": 0.5}
    of = window(60.0, *rows, cpu=(own, 0.0, 2 - own), waits=waits)
    found = judge(of, Server(cpus=2.0), destinations={Destination("backend", (address,)): 0.8})
    rows = [each for each in found.values() if each.kind in (load.OTHERS_USE_ALL, load.USED_BY_OTHERS)]
    assert [first_act(each.change)[: len(act)] for each in rows] == [act]


@pytest.mark.parametrize(("waiting", "expected"), [(0.03, "info"), (0.05, "warning")])
def test_others_that_leave_nothing_are_a_warning(waiting, expected):
    """If requests wait for it, or that is not known."""
    waits = {"sleep": 0.3 - waiting, "cpu": 0.1, "cpu_wait": waiting}
    assert severity(beside(0.1, 0.0, 1.9, waits), "cpu_used_by_others") == expected
    unknown = beside(0.1, 0.0, 1.9)["cpu_used_by_others"]
    assert (unknown.kind, unknown.of_host) == (load.USED_BY_OTHERS, True)


MULES = RoleUse("mule", 2, 100.0, 1.1, 50_000_000)


def of_roles(own: float, idle: float, *uses: RoleUse, sleep: float = 2.0, **known: object) -> dict[str, Finding]:
    """The findings beside others, among them uWSGI's own processes, that leave so many of two CPUs idle."""
    rows = [worker(number, 600, each=0.1, cpu=15 * own, busy=60.0) for number in range(1, 5)]
    waits = {"cpu": own, "cpu_wait": 0.3, "sleep": sleep} if sleep else {"cpu": 0.5, "cpu_wait": 2.0}
    of = window(60, *rows, cpu=(own, idle, 2.0 - own - idle), waits=waits)
    return findings_by_code(of, Server(cpus=2.0), roles=uses, **known)


@pytest.mark.parametrize(
    ("uses", "are_named"),
    [((MULES,), True), ((), False), ((MULES._replace(cpus=0.3),), False), ((MULES._replace(cpus=None),), False)],
)
def test_mules_are_no_other_programs(uses, are_named):
    """Where they use most of what others use, they are named, and what to do is about them."""
    finding = of_roles(0.5, 0.3, *uses)["cpu_used_by_others"]
    starved = of_roles(0.5, 0.0, *uses, sleep=0.0)["cpu_bound"]
    assert all(("mules" in text) == are_named for text in (finding.title, finding.change, starved.title))


@pytest.mark.parametrize(
    ("of", "processes", "expected"),
    [
        (window(60, worker(1, 0)), 1, "critical"),
        (window(60, worker(1, 0)), 2, "warning"),
        (window(60, worker(1, 9)), 1, "warning"),
    ],
)
def test_a_router_that_is_stopped(of, processes, expected):
    """Critical if all are, and no request comes by another way. One that runs is no finding."""
    router = RoleUse("router", processes, 1.0, 0.0, 5_000_000, (77,))
    found = findings_by_code(of, Server(), roles=(router,))["router_stopped"]
    assert (found.severity, "`kill -CONT 77`" in found.change, "77" in found.public.act) == (expected, True, False)
    assert "router_stopped" not in findings_by_code(of, Server(), roles=(router._replace(stopped=()),))


QUOTA = Quota("/system.slice/uwsgi.service", 0.5, 8)


def throttled(part: float, periods: int = 300, **waits: float) -> Window:
    """A minute of little use, in which a quota stopped the workers in this part of its periods."""
    rows = [worker(number, 60, each=0.24, cpu=3.6, busy=14.4) for number in (1, 2)]
    counts = {"throttled_periods": round(part * periods), "throttled_seconds": part * periods * 0.05}
    return replace(window(60, *rows, waits=waits or None), quota_periods=periods, **counts)


def under_quota(of: Window, quota: Quota = QUOTA) -> dict[str, Finding]:
    usable = UsableCpus(quota.cpus, "quota", 8, 8, quota.cpus)
    return findings_by_code(of, Server(processes=2, threads=2), cpus=usable, throttling=Throttling(quota))


@pytest.mark.parametrize(("quota", "words"), [(QUOTA, "from 0.5 CPUs to 2 CPUs"), (Quota("/", 3.0, 8), "from 3 CPUs.")])
def test_a_quota_is_named_with_what_to_set(quota, words):
    """From what to what: workers of one interpreter each never use more CPUs than there are workers."""
    finding = under_quota(throttled(0.43, cpu=0.12, cpu_wait=0.36), quota)["cpu_throttled"]
    assert words in finding.change
    assert "43 % of its periods (129 of 300)" in finding.evidence
    assert "uwsgi.service" not in "".join(finding.public)


def test_a_quota_that_is_used_up_is_named():
    """It may be that of a slice above the unit, which the advice would else not lead to."""
    rows = [worker(number, 600, cpu=14.9, busy=60.0) for number in (1, 2)]
    cpus, quota = UsableCpus(0.5, "quota", 2, 2, 0.5), Throttling(Quota("/web.slice", 0.5, 2), 10, 9, 1.0)
    finding = findings_by_code(window(60, *rows), cpus=cpus, throttling=quota)["cpu_bound"]
    assert finding.change.startswith("Raise the CPU quota of the cgroup /web.slice from 0.5 CPUs to 2 CPUs. ")
    assert "web.slice" not in "".join(finding.public)


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
