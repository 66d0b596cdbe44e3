"""Usable CPUs: from trees of `/proc` and `/sys` (see tests/kernel/trees.py), and from this machine."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.trees import TREES
from tests.support.other_namespaces import as_root
from uwsgi_headroom.kernel.cpus import GroupQuota, UsableCpus, read_usable_cpus

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
    ],
)
def test_tightest_quota(tree: str, expected: UsableCpus) -> None:
    """The tightest quota applies, from the process's own cgroup up to the root of the mount."""
    assert read_usable_cpus(4242, affinity=range(8), root=TREES / tree) == expected


@pytest.mark.parametrize("tree", ["v1_neighbour", "v2_neighbour"])
def test_neighbouring_container(tree: str) -> None:
    """The quota of a cgroup that is not mounted here is unknown, which is different from no quota."""
    assert read_usable_cpus(4242, affinity=range(8), root=TREES / tree) is None


def test_every_group_with_a_quota_and_its_usage_file() -> None:
    """Each level with a quota is listed with its usage file; levels without a quota are not."""
    root = TREES / "v2_quota"
    cpus = read_usable_cpus(4242, affinity=range(8), root=root)
    assert cpus is not None
    slice_ = root / "sys/fs/cgroup/web.slice"
    assert cpus.groups == (
        GroupQuota(2.5, str(slice_ / "cpu.stat")),
        GroupQuota(4.0, str(slice_ / "app.service/cpu.stat")),
    )


def test_usage_file_of_a_group_that_cpuacct_does_not_know() -> None:
    """If version 1 counts CPU time in a separate hierarchy, with the process elsewhere in it, there is no usage
    file."""
    cpus = read_usable_cpus(4242, affinity=range(8), root=TREES / "v1_quota")
    assert cpus is not None
    assert {group.usage_file for group in cpus.groups} == {None}


@pytest.mark.parametrize("mounts", [("cpu,cpuacct",), ("cpu", "cpuacct")])
def test_usage_file_of_a_group_of_version_1(mounts: tuple[str, ...], tmp_path: Path) -> None:
    """In the same mount as cpu or another one, cpuacct counts a group if the process has the same path in both."""
    for name, text in {
        "proc/7/cgroup": "".join(f"{place}:{mount}:/app\n" for place, mount in enumerate(mounts, 1)),
        "proc/self/mountinfo": "".join(
            f"3{place} 23 0:2{place} / /cg/{mount} rw - cgroup cgroup rw,{mount}\n"
            for place, mount in enumerate(mounts)
        ),
        "sys/devices/system/cpu/online": "0-3\n",
        f"cg/{mounts[0]}/app/cpu.cfs_quota_us": "50000\n",
        f"cg/{mounts[0]}/app/cpu.cfs_period_us": "100000\n",
        **{f"cg/{mount}/app/cgroup.procs": "7\n" for mount in mounts},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    cpus = read_usable_cpus(7, affinity=range(8), root=tmp_path)
    assert cpus is not None
    assert cpus.groups == (GroupQuota(0.5, str(tmp_path / "cg" / mounts[-1] / "app" / "cpuacct.usage")),)


@pytest.mark.parametrize(("online", "count"), [("0\n", 1), ("0-3,8\n", 5), ("0,2,4-5\n", 4)])
def test_cpus_that_are_offline_do_not_count(online: str, count: int, tmp_path: Path) -> None:
    """The kernel lists CPUs that are online as spans and single ones, with gaps where one was switched off."""
    shutil.copytree(TREES / "v2_no_quota", tmp_path / "root")
    (tmp_path / "root/sys/devices/system/cpu/online").write_text(online)
    cpus = read_usable_cpus(4242, affinity=range(8), root=tmp_path / "root")
    assert cpus is not None
    assert cpus.count == count


def test_affinity_below_the_quota() -> None:
    """If the process may run on fewer CPUs than its quota, affinity is the limit."""
    cpus = read_usable_cpus(4242, affinity={0, 5}, root=TREES / "v2_quota")
    assert cpus == UsableCpus(2, "affinity", host=8, affinity=2, quota=2.5)


def test_here() -> None:
    """A process that is pinned to one CPU of this machine can use at most one."""
    with subprocess.Popen(["sleep", "60"]) as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        cpus = read_usable_cpus(process.pid)
        process.kill()
    assert cpus is not None
    assert cpus.affinity == 1
    assert cpus.host == os.sysconf("SC_NPROCESSORS_ONLN")
    assert cpus.count <= 1


def test_gone() -> None:
    """The CPUs that a process can use are unknown after its end."""
    assert read_usable_cpus(2**22 + 1) is None


@contextlib.contextmanager
def cgroup(name: str, quota: int) -> Iterator[Path]:
    """A real cgroup, removed at the end of the test."""
    folder = CPU_CONTROLLER / name
    folder.mkdir()
    try:
        (folder / "cpu.cfs_quota_us").write_text(str(quota))
        yield folder
    finally:
        folder.rmdir()


@as_root
@pytest.mark.skipif(
    not (CPU_CONTROLLER / "cpu.cfs_quota_us").parent.joinpath("cgroup.procs").exists(),
    reason="the cpu controller of this machine is not in cgroup version 1",
)
def test_real_quota() -> None:
    """A quota on a cgroup's parent applies to a process in the cgroup."""
    name = f"headroom-{os.getpid()}"
    with (
        cgroup(name, 70_000),
        cgroup(f"{name}/inner", -1) as inner,
        subprocess.Popen(["sleep", "60"]) as process,
    ):
        (inner / "cgroup.procs").write_text(str(process.pid))
        cpus = read_usable_cpus(process.pid)
        process.kill()
        process.wait()
    assert cpus is not None
    assert (cpus.count, cpus.limited_by) == (0.7, "quota")
