"""Idle CPU time of one server: its CPUs, its quotas, and the tightest of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.trees import TICKS, KernelTree
from tests.support.clock import MovableClock
from uwsgi_headroom.kernel.cpus import QUOTA_PERIOD, CpuTimes, GroupQuota, MachineCpu, ServerCpu


class Machine:
    """Two CPUs, and a clock that moves while they run."""

    def __init__(self, root: Path, cpus: int = 2) -> None:
        self.tree, self._hands = KernelTree(root, cpus), MovableClock()
        self.cpu = MachineCpu(self._hands.clock.monotonic, root)

    def run(self, *used: float, seconds: float = 10.0) -> None:
        """Use each CPU for part of the seconds and leave it idle for the rest."""
        for place, busy in enumerate(used):
            self.tree.run(place, used=busy, idle=seconds - busy)
        self._hands.move(seconds)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def values(times: CpuTimes | None) -> tuple[float, float, float]:
    assert times
    return pytest.approx((times.measured_seconds, times.idle_seconds, times.used_seconds))


def test_totals_begin_at_zero(machine: Machine) -> None:
    """Times before the first reading do not count, and the totals stay the same object until the next reading."""
    machine.run(5.0, 5.0)
    server = ServerCpu(machine.cpu)
    first = server.read((0, 1), ())
    assert values(first) == (0, 0, 0)
    assert server.read((0, 1), ()) is first


def test_only_usable_cpus_count(machine: Machine) -> None:
    """A process on another CPU takes no idle time from a pinned server."""
    everywhere, pinned = ServerCpu(machine.cpu), ServerCpu(machine.cpu)
    everywhere.read((0, 1), ())
    pinned.read((1,), ())
    machine.run(9.0, 2.0)
    assert values(everywhere.read((0, 1), ())) == (10, 9, 11)
    assert values(pinned.read((1,), ())) == (10, 8, 2)


def test_quota_that_is_nearly_used_up_is_tighter_than_idle_cpus(machine: Machine) -> None:
    """If the group's remaining quota is less than the idle CPUs, it is the idle time; the group's use is the used
    time."""
    server, group = ServerCpu(machine.cpu), machine.tree.group(0.5)
    server.read((0, 1), (group,))
    machine.tree.use_group(4.0)
    machine.run(4.0, 0.0)
    assert values(server.read((0, 1), (group,))) == (10, 1, 4)


def test_cpus_that_are_taken_are_tighter_than_an_unused_quota(machine: Machine) -> None:
    """A quota cannot be used while other processes use the CPUs."""
    server, group = ServerCpu(machine.cpu), machine.tree.group(1.5)
    server.read((0, 1), (group,))
    machine.tree.use_group(1.0)
    machine.run(10.0, 9.5)
    assert values(server.read((0, 1), (group,))) == (10, 0.5, 19.5)


def test_excess_of_a_period_counts_against_the_next_step(machine: Machine) -> None:
    """A step may contain one period too many: a group that uses its whole quota has no idle time on average."""
    server, group = ServerCpu(machine.cpu), machine.tree.group(1.0)
    server.read((0, 1), (group,))
    assert QUOTA_PERIOD == 0.1  # the kernel's default: cpu.max of cgroup-v2(7), cpu.cfs_period_us
    for used in (10 + QUOTA_PERIOD, 10 - QUOTA_PERIOD) * 3:
        machine.tree.use_group(used)
        machine.run(used / 2, used / 2)
        times = server.read((0, 1), (group,))
    assert values(times) == (60, 0, 60)


def test_group_without_a_usage_file_leaves_idle_time_unknown(machine: Machine) -> None:
    """If a quota's remainder is unknown, so is the idle time."""
    server = ServerCpu(machine.cpu)
    assert server.read((0, 1), (GroupQuota(1.0, None),)) is None
    assert server.read((0, 1), (GroupQuota(1.0, str(machine.tree.root / "gone" / "cpu.stat")),)) == CpuTimes()
    machine.run(1.0, 1.0)
    assert server.read((0, 1), (GroupQuota(1.0, str(machine.tree.root / "gone" / "cpu.stat")),)) is None


def test_kernel_that_counts_nothing_is_ignored(machine: Machine) -> None:
    """If the kernel reports CPUs as neither idle nor used, it does not count, and the CPUs are not saturated."""
    server = ServerCpu(machine.cpu)
    server.read((0, 1), ())
    machine.run(0.0, 0.0, seconds=2.0)
    assert server.read((0, 1), ())
    machine._hands.move(10.0)
    assert server.read((0, 1), ()) is None
    assert server.read((0, 1), ()) is None
    machine.run(1.0, 1.0)
    assert values(server.read((0, 1), ())) == (12, 22, 2)


def test_cpu_that_goes_offline_decreases_no_total(machine: Machine) -> None:
    """A step counts only CPUs that were online at both ends; a CPU that comes back starts again."""
    server = ServerCpu(machine.cpu)
    server.read((0, 1), ())
    machine.run(1.0, 1.0)
    server.read((0, 1), ())
    machine.tree.offline = {1}
    machine.run(2.0, 0.0)
    assert values(server.read((0, 1), ())) == (20, 26, 4)
    machine.tree.offline = set()
    machine.run(2.0, 0.0)
    assert values(server.read((0, 1), ())) == (30, 34, 6)


quotas = st.none() | st.sampled_from([0.25, 1.0, 1.5])
parts = st.integers(0, 100).map(lambda part: part / 100)
steps = st.lists(st.tuples(parts, parts, parts, st.sets(st.just(1))), max_size=12)


@settings(max_examples=60, deadline=None)
@given(steps, quotas)
def test_idle_and_used_are_the_capacity(moves: list[tuple[float, float, float, set[int]]], quota: float | None) -> None:
    """For any CPUs and groups, no total decreases, and idle + used of a step is a capacity of the server."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        groups = (machine.tree.group(quota),) if quota else ()
        server = ServerCpu(machine.cpu)
        before = server.read((0, 1), groups)
        online = {0, 1}
        for first, second, of_group, offline in moves:
            machine.tree.offline = offline
            machine.tree.use_group(of_group * 10 * (quota or 0))
            machine.run(first * 10, second * 10)
            after = server.read((0, 1), groups)
            assert before
            assert after
            both, online = online - offline, {0, 1} - offline
            capacities = [10.0 * len(both & online), *([10 * quota] if quota else [])]
            step = after.idle_seconds + after.used_seconds - before.idle_seconds - before.used_seconds
            assert any(abs(step - capacity) <= 2 / TICKS for capacity in capacities)
            assert after.idle_seconds >= before.idle_seconds
            assert after.used_seconds >= before.used_seconds
            assert after.measured_seconds >= before.measured_seconds
            before = after
