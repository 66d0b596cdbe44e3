"""The cgroups of a process, from trees of `/proc` and `/sys` (tests/kernel/trees.py); the list of mounts."""

import ctypes
import os
from pathlib import Path

import pytest

from tests.kernel.trees import TREES, write_files
from tests.support.other_namespaces import as_root, in_child
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.kernel.cgroups import LONGEST_SECONDS, MOST_LEVELS, Cgroups, Mounts, find_cgroups, read_task_limit
from uwsgi_headroom.surroundings import Tasks


@pytest.mark.parametrize(
    ("tree", "version", "folders"),
    [
        ("v1_quota", 1, ["cpu", "cpu/site", "cpu/site/app", "cpu/site/app/worker"]),
        ("v1_container", 1, ["cpu"]),
        ("v2_quota", 2, ["", "web.slice", "web.slice/app.service", "web.slice/app.service/workers"]),
        ("v2_host_mount", 2, ["", "app"]),
    ],
)
def test_levels(tree, version, folders):
    cgroups = find_cgroups(4242, "cpu", TREES / tree)
    assert cgroups.version == version
    assert [Path(folder) for folder in cgroups.folders] == [TREES / tree / "sys/fs/cgroup" / name for name in folders]


def test_levels_are_bounded(tmp_path):
    path, mount = "/a" * (MOST_LEVELS + 1), "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    write_files(tmp_path, {"proc/4242/cgroup": f"0::{path}\n", "proc/self/mountinfo": mount})
    write_files(tmp_path / "sys/fs/cgroup", {f"{path[1:]}/cgroup.procs": "", f"{path[3:]}/cgroup.procs": ""})
    with pytest.raises(OSError, match="too many levels"):
        find_cgroups(4242, "cpu", tmp_path)
    write_files(tmp_path, {"proc/4242/cgroup": f"0::{path[2:]}\n"})
    assert len(find_cgroups(4242, "cpu", tmp_path).folders) == MOST_LEVELS + 1


def test_each_controller_has_its_own_version(tmp_path):
    """On a hybrid host, what version 1 lacks belongs to version 2. A controller that the kernel lacks has no levels."""
    write_files(tmp_path, {"proc/4242/cgroup": "3:pids:/\n"})
    assert find_cgroups(4242, "cpu", tmp_path) == Cgroups(0)
    cgroups = find_cgroups(4242, "hugetlb", TREES / "hybrid_quota")
    assert cgroups.version == 2
    assert all("unified" in folder for folder in cgroups.folders)


@pytest.mark.parametrize(
    ("mount_root", "path", "levels"),
    [
        ("/", "/", [""]),
        ("/", "/app", ["", "app"]),
        ("/app", "/app", [""]),
        ("/app", "/app/worker", ["", "worker"]),
        ("/app", "/app-2", None),  # the same beginning, another cgroup
        ("/app", "/", None),
        ("/", "/../neighbour", None),
        ("/..", "/..", [""]),
        ("/..", "/../neighbour", ["", "neighbour"]),
    ],
)
def test_a_cgroup_is_below_the_root_of_a_mount(tmp_path, mount_root, path, levels):
    """It shows those below it, by the names of the kernel, and none whose name only begins like its own."""
    top, mount = tmp_path / "sys/fs/cgroup", f"35 24 0:30 {mount_root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    write_files(tmp_path, {"proc/4242/cgroup": f"0::{path}\n", "proc/self/mountinfo": mount})
    write_files(top, {f"{shown}cgroup.procs": "" for shown in ("", "app/", "worker/", "neighbour/", "2/", "-2/")})
    if levels is None:
        with pytest.raises(FileNotFoundError, match="not mounted here"):
            find_cgroups(4242, "cpu", tmp_path)
    else:
        cgroups = find_cgroups(4242, "cpu", tmp_path)
        assert [Path(folder) for folder in cgroups.folders] == [top / level for level in levels]
        assert list(cgroups.names) == [os.path.join(mount_root, level).rstrip("/") or "/" for level in levels]


def test_the_list_is_that_of_the_kernel():
    assert Mounts().read() == Path("/proc/self/mountinfo").read_text()
    # Without a change, the same text is returned for a minute; then it is read again.
    hands = MovableClock()
    mounts = Mounts(hands.clock.monotonic)
    first = mounts.read()
    assert mounts.read() is first
    hands.move(LONGEST_SECONDS)
    again = mounts.read()
    assert again == first
    assert again is not first


@as_root
def test_a_mount(tmp_path):
    mounts = Mounts()
    before = mounts.read()
    libc = ctypes.CDLL(None)

    def mount_and_read() -> list[bool]:
        libc.unshare(0x00020000)  # CLONE_NEWNS
        libc.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
        found = [str(tmp_path) in mounts.read()]
        libc.mount(b"none", os.fsencode(tmp_path), b"tmpfs", 0, None)
        found.append(str(tmp_path) in mounts.read())
        libc.umount(os.fsencode(tmp_path))
        return [*found, str(tmp_path) in mounts.read()]

    assert in_child(mount_and_read) == [False, True, False]
    assert mounts.read() == before


def tasks(folder: str, used: int, most: str) -> dict[str, str]:
    return {f"{folder}/cgroup.procs": "", f"{folder}/pids.current": f"{used}\n", f"{folder}/pids.max": f"{most}\n"}


@pytest.mark.parametrize(
    ("service", "slice_", "limit"),
    [
        ((90, "max"), (900, "1000"), Tasks(900, 1000)),
        ((90, "100"), (900, "1000"), Tasks(90, 100)),
        ((110, "100"), (900, "max"), Tasks(110, 100)),  # lowered since
        ((90, "max"), (900, "max"), None),
        ((0, "0"), (900, "max"), None),
        ((90, "many"), (900, "1000"), None),
    ],
)
def test_the_limit_of_processes_and_threads(tmp_path, service, slice_, limit):
    """Of all levels, the one with the fewest left counts; the root has none."""
    files = {
        "proc/7/cgroup": "0::/web.slice/uwsgi.service\n",
        "proc/self/mountinfo": "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    }
    folder = "sys/fs/cgroup/web.slice"
    write_files(tmp_path, files | tasks(folder, *slice_) | tasks(f"{folder}/uwsgi.service", *service))
    assert read_task_limit(7, {}, root=tmp_path) == limit
    assert read_task_limit(8, {}, root=tmp_path) is None
