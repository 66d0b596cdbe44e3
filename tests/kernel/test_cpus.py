"""CPUs that a server can use, and the CPU time of the machine, of its CPUs and of its quotas."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.contained import cgroup, started
from tests.kernel.trees import TICKS, TREES, KernelTree, write_files
from tests.support.other_namespaces import as_root
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.kernel import cpus as module
from uwsgi_headroom.kernel.cpus import CpuTimes, GroupQuota, MachineCpu, ServerCpu, UsableCpus, read_usable_cpus
from uwsgi_headroom.record import Quota

CPU_CONTROLLER = Path("/sys/fs/cgroup/cpu")  # cgroup version 1


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("hybrid_quota", UsableCpus(1.2, "quota", host=2, affinity=8, quota=1.2)),
        ("hybrid_no_quota", UsableCpus(2, "host", host=2, affinity=8, quota=None)),
        ("v1_quota", UsableCpus(1.2, "quota", host=2, affinity=8, quota=1.2)),
        ("v1_container", UsableCpus(1.2, "quota", host=2, affinity=8, quota=1.2)),
        ("v2_quota", UsableCpus(2.5, "quota", host=8, affinity=8, quota=2.5)),
        ("v2_no_quota", UsableCpus(8, "host", host=8, affinity=8, quota=None)),
        ("v2_container", UsableCpus(0.5, "quota", host=8, affinity=8, quota=0.5)),
        ("v2_host_mount", UsableCpus(3, "quota", host=8, affinity=8, quota=3)),
        ("v1_neighbour", None),  # a cgroup that is not mounted here: unknown, which is different from no quota
        ("v2_neighbour", None),
    ],
)
def test_tightest_quota(tree, expected):
    """The tightest quota applies, from the process's own cgroup up to the root of the mount."""
    assert read_usable_cpus(4242, affinity=range(8), root=TREES / tree) == expected


def test_every_group_with_a_quota_and_its_usage_file():
    """Levels without a quota are left out. Version 1 may count CPU time elsewhere: then there is no usage file."""
    slice_ = TREES / "v2_quota/sys/fs/cgroup/web.slice"
    assert read_usable_cpus(4242, affinity=range(8), root=TREES / "v2_quota").groups == (
        GroupQuota(2.5, str(slice_ / "cpu.stat")),
        GroupQuota(4.0, str(slice_ / "app.service/cpu.stat")),
    )
    cpus = read_usable_cpus(4242, affinity=range(8), root=TREES / "v1_quota")
    assert {group.usage_file for group in cpus.groups} == {None}


@pytest.mark.parametrize("mounts", [("cpu,cpuacct",), ("cpu", "cpuacct")])
def test_usage_file_of_a_group_of_version_1(mounts, tmp_path):
    """In the same mount as cpu or another one, cpuacct counts a group if the process has the same path in both."""
    files = {
        "proc/7/cgroup": "".join(f"{place}:{mount}:/app\n" for place, mount in enumerate(mounts, 1)),
        "proc/self/mountinfo": "".join(
            f"3{place} 23 0:2{place} / /cg/{mount} rw - cgroup cgroup rw,{mount}\n"
            for place, mount in enumerate(mounts)
        ),
        "sys/devices/system/cpu/online": "0-3\n",
        f"cg/{mounts[0]}/app/cpu.cfs_quota_us": "50000\n",
        f"cg/{mounts[0]}/app/cpu.cfs_period_us": "100000\n",
        **{f"cg/{mount}/app/cgroup.procs": "7\n" for mount in mounts},
    }
    write_files(tmp_path, files)
    cpus = read_usable_cpus(7, affinity=range(8), root=tmp_path)
    assert cpus.groups == (GroupQuota(0.5, str(tmp_path / "cg" / mounts[-1] / "app" / "cpuacct.usage")),)


@pytest.mark.parametrize(("online", "count"), [("0\n", 1), ("0-3,8\n", 5), ("0,2,4-5\n", 4)])
def test_cpus_that_are_offline_do_not_count(online, count, tmp_path):
    shutil.copytree(TREES / "v2_no_quota", tmp_path / "root")
    (tmp_path / "root/sys/devices/system/cpu/online").write_text(online)
    assert read_usable_cpus(4242, affinity=range(8), root=tmp_path / "root").count == count


def test_affinity_below_the_quota_is_the_limit():
    cpus = read_usable_cpus(4242, affinity={0, 5}, root=TREES / "v2_quota")
    assert cpus == UsableCpus(2, "affinity", host=8, affinity=2, quota=2.5)


def test_here():
    """A process that is pinned to one CPU of this machine can use at most one; after its end, nothing is known."""
    with started("sleep", "60") as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        cpus = read_usable_cpus(process.pid)
    assert read_usable_cpus(process.pid) is None
    assert cpus.affinity == 1
    assert cpus.host == os.sysconf("SC_NPROCESSORS_ONLN")
    assert cpus.count <= 1


@as_root
@pytest.mark.skipif(
    not (CPU_CONTROLLER / "cpu.cfs_quota_us").parent.joinpath("cgroup.procs").exists(),
    reason="the cpu controller of this machine is not in cgroup version 1",
)
def test_real_quota():
    outer, setting = CPU_CONTROLLER / f"headroom-{os.getpid()}", "cpu.cfs_quota_us"
    with cgroup(outer, setting, 70_000), cgroup(outer / "inner", setting, -1) as inner, started("sleep", "60") as it:
        (inner / "cgroup.procs").write_text(str(it.pid))
        cpus = read_usable_cpus(it.pid)
    assert (cpus.count, cpus.limited_by) == (0.7, "quota")


def test_iowait_is_idle_and_steal_is_used():
    line = f"cpu3 {1 * TICKS} {2 * TICKS} {4 * TICKS} {8 * TICKS} {16 * TICKS} {32 * TICKS} {64 * TICKS} {128 * TICKS}"
    idle, used = module.parse_stat(f"cpu 9 9 9 9 9 9 9 9 9 9\n{line} 1 2\nintr 5 0 0\ncpu7 0 0 0 0 0\n".encode())
    assert idle == {3: 8 + 16}
    assert used == {3: 1 + 2 + 4 + 32 + 64 + 128}


@pytest.mark.parametrize("text", ["cpu0 1 2 3\n", "cpu0 1 2 3 x 5\n", "cpuX 1 2 3 4 5\n", None])
def test_an_invalid_stat_is_unknown(text, tmp_path):
    write_files(tmp_path, {} if text is None else {"proc/stat": text})
    assert MachineCpu(root=tmp_path).read() is None


def test_one_reading_a_second_for_all_servers(tmp_path):
    hands, tree = MovableClock(), KernelTree(tmp_path)
    machine = MachineCpu(hands.clock.monotonic, tmp_path)
    tree.run(0, idle=1.0)
    first = machine.read()
    tree.run(0, idle=1.0)
    hands.move(module.READ_SECONDS * 0.9)
    assert machine.read() is first
    hands.move(module.READ_SECONDS * 0.1)
    second = machine.read()
    assert second.idle[0] - first.idle[0] == pytest.approx(1.0)
    assert second.at - first.at == pytest.approx(module.READ_SECONDS)


def test_usage_of_cgroups_is_part_of_a_reading(tmp_path):
    """A requested cgroup is in the current reading and the next ones, until no server has asked for it for a minute."""
    hands, tree = MovableClock(), KernelTree(tmp_path)
    machine = MachineCpu(hands.clock.monotonic, tmp_path)
    path, missing, version_1 = tree.use_group(1.5), str(tmp_path / "cpu.stat"), str(tmp_path / "cpuacct.usage")
    (tmp_path / "cpuacct.usage").write_text("2500000000\n")  # nanoseconds
    machine.read()
    assert machine.read([path, missing, version_1]).groups == {path: 1.5, missing: None, version_1: 2.5}
    tree.use_group(0.25)
    hands.move(module.READ_SECONDS)
    assert machine.read().groups[path] == 1.75
    hands.move(module.FORGET_SECONDS)
    assert machine.read().groups == {}


def test_cpu_times_of_this_machine():
    reading = MachineCpu().read()
    assert os.sched_getaffinity(0) <= reading.idle.keys() == reading.used.keys()
    assert all(reading.idle[cpu] + reading.used[cpu] > 0 for cpu in reading.idle)


class Machine:
    def __init__(self, root: Path, cpus: int = 2) -> None:
        self.tree, self._hands = KernelTree(root, cpus), MovableClock()
        self.cpu = MachineCpu(self._hands.clock.monotonic, root)

    def run(self, *used: float, seconds: float = 10.0) -> None:
        for place, busy in enumerate(used):
            self.tree.run(place, used=busy, idle=seconds - busy)
        self._hands.move(seconds)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def values(times: CpuTimes | None) -> tuple[float, float, float]:
    return pytest.approx((times.measured_seconds, times.idle_seconds, times.used_seconds))


def test_totals_begin_at_zero(machine):
    machine.run(5.0, 5.0)
    server = ServerCpu(machine.cpu)
    first = server.read((0, 1), ())
    assert values(first) == (0, 0, 0)
    assert server.read((0, 1), ()) is first


@pytest.mark.parametrize(
    ("allowed", "quota", "of_group", "used", "expected"),
    [
        ((0, 1), None, 0.0, (9.0, 2.0), (10, 9, 11)),
        ((1,), None, 0.0, (9.0, 2.0), (10, 8, 2)),  # a process on another CPU takes no idle time from a pinned server
        ((0, 1), 0.5, 4.0, (4.0, 0.0), (10, 1, 4)),  # what is left of the quota is less than what is idle
        ((0, 1), 1.5, 1.0, (10.0, 9.5), (10, 0.5, 19.5)),  # other processes use the CPUs
    ],
)
def test_the_tightest_level(machine, allowed, quota, of_group, used, expected):
    """It says what is idle and what is used: the CPUs of the server, or the quota of its group."""
    server, groups = ServerCpu(machine.cpu), (machine.tree.group(quota),) if quota else ()
    server.read(allowed, groups)
    machine.tree.use_group(of_group)
    machine.run(*used)
    assert values(server.read(allowed, groups)) == expected


def test_excess_of_a_period_counts_against_the_next_step(machine):
    """A step may contain one period too many: a group that uses its whole quota has no idle time on average."""
    server, group = ServerCpu(machine.cpu), machine.tree.group(1.0)
    server.read((0, 1), (group,))
    assert module.QUOTA_PERIOD == 0.1  # the kernel's default: cpu.max of cgroup-v2(7), cpu.cfs_period_us
    for used in (10 + module.QUOTA_PERIOD, 10 - module.QUOTA_PERIOD) * 3:
        machine.tree.use_group(used)
        machine.run(used / 2, used / 2)
        times = server.read((0, 1), (group,))
    assert values(times) == (60, 0, 60)


def test_group_without_a_usage_file_leaves_idle_time_unknown(machine):
    server, gone = ServerCpu(machine.cpu), GroupQuota(1.0, str(machine.tree.root / "gone" / "cpu.stat"))
    assert server.read((0, 1), (GroupQuota(1.0, None),)) is None
    assert server.read((0, 1), (gone,)) == CpuTimes()
    machine.run(1.0, 1.0)
    assert server.read((0, 1), (gone,)) is None


def test_kernel_that_counts_nothing_is_ignored(machine):
    server = ServerCpu(machine.cpu)
    server.read((0, 1), ())
    machine.run(0.0, 0.0, seconds=2.0)
    assert server.read((0, 1), ())
    machine._hands.move(10.0)
    assert server.read((0, 1), ()) is None
    assert server.read((0, 1), ()) is None
    machine.run(1.0, 1.0)
    assert values(server.read((0, 1), ())) == (12, 22, 2)


def test_cpu_that_goes_offline_decreases_no_total(machine):
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


@settings(max_examples=30)
@given(steps, quotas)
def test_idle_and_used_are_the_capacity(moves, quota):
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
            both, online = online - offline, {0, 1} - offline
            capacities = [10.0 * len(both & online), *([10 * quota] if quota else [])]
            step = after.idle_seconds + after.used_seconds - before.idle_seconds - before.used_seconds
            assert any(abs(step - capacity) <= 2 / TICKS for capacity in capacities)
            assert after.idle_seconds >= before.idle_seconds
            assert after.used_seconds >= before.used_seconds
            assert after.measured_seconds >= before.measured_seconds
            before = after


THROTTLED_V2 = "usage_usec 900\nuser_usec 500\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\nnr_bursts 0\n"
THROTTLED_V1 = "nr_periods {}\nnr_throttled {}\nthrottled_time {}\n"


class Group:
    def __init__(self, path: Path, name: str, cpus: float) -> None:
        self.path, self.quota = path, GroupQuota(cpus, None, str(path), name)

    def count(self, periods: int, throttled: int, microseconds: int) -> None:
        self.path.write_text(THROTTLED_V2.format(periods, throttled, microseconds))


def cpus(*groups: Group) -> UsableCpus:
    quotas = tuple(group.quota for group in groups)
    return UsableCpus(min(quota.cpus for quota in quotas), "quota", 8, 4, None, quotas)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (THROTTLED_V2.format(100, 43, 1_500_000), module.Counts(43, 100, 1.5)),
        (THROTTLED_V1.format(100, 43, 1_500_000_000), module.Counts(43, 100, 1.5)),
        ("usage_usec 900\n", None),  # the cpu controller is not enabled there
        ("nr_periods many\nnr_throttled 1\nthrottled_usec 1\n", None),
        ("", None),
    ],
)
def test_both_versions_are_read(tmp_path, text, counts):
    """Version 2 counts microseconds and version 1 nanoseconds; a file without counts says nothing."""
    (tmp_path / "cpu.stat").write_text(text)
    assert module.read_counts(str(tmp_path / "cpu.stat")) == counts
    assert module.read_counts(str(tmp_path / "gone")) is None


def test_the_level_that_throttles_most_is_named(tmp_path):
    pod, container = Group(tmp_path / "pod", "/pod", 2.0), Group(tmp_path / "container", "/pod/app", 1.0)
    pod.count(1000, 500, 7_000_000)
    container.count(10, 0, 0)
    counts = module.ThrottleCounts()
    assert counts.read(cpus(pod, container)) == module.Throttling(Quota("/pod/app", 1.0, 4))
    pod.count(1050, 520, 8_500_000)
    container.count(40, 1, 1000)
    assert counts.read(cpus(pod, container)) == module.Throttling(Quota("/pod", 2.0, 4), 50, 20, 1.5)
    container.count(60, 1, 1000)
    assert counts.read(cpus(pod, container)) == module.Throttling(Quota("/pod", 2.0, 4), 70, 20, 1.5), (
        "it throttled last"
    )


def test_a_cgroup_that_was_made_anew_adds_nothing(tmp_path):
    """Totals never decrease. No quota, or a kernel without counts, differs from a quota that stops nobody."""
    group, counts = Group(tmp_path / "stat", "/app", 1.0), module.ThrottleCounts()
    assert counts.read(UsableCpus(4, "host", 8, 4, None)) is None
    assert counts.read(cpus(group)) is None
    for figures, expected in (
        ((100, 50, 100), (0, 0, 0.0)),
        ((3, 1, 100), (0, 0, 0.0)),
        ((5, 2, 1_000_100), (2, 1, 1.0)),
    ):
        group.count(*figures)
        assert counts.read(cpus(group)) == module.Throttling(Quota("/app", 1.0, 4), *expected)
