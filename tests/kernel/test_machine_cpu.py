"""CPU time of the machine: how `/proc/stat` is parsed, and how often it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel.trees import TICKS, KernelTree
from tests.support.clock import MovableClock
from uwsgi_headroom.kernel.cpus import FORGET_SECONDS, READ_SECONDS, MachineCpu, parse_stat


def test_iowait_is_idle_and_steal_is_used() -> None:
    """iowait is idle time, since the CPU could do other work; steal is used; user time includes a guest's."""
    line = f"cpu3 {1 * TICKS} {2 * TICKS} {4 * TICKS} {8 * TICKS} {16 * TICKS} {32 * TICKS} {64 * TICKS} {128 * TICKS}"
    idle, used = parse_stat(f"cpu 9 9 9 9 9 9 9 9 9 9\n{line} 1 2\nintr 5 0 0\ncpu7 0 0 0 0 0\n".encode())
    assert idle == {3: 8 + 16}
    assert used == {3: 1 + 2 + 4 + 32 + 64 + 128}


@pytest.mark.parametrize("text", [b"cpu0 1 2 3\n", b"cpu0 1 2 3 x 5\n", b"cpuX 1 2 3 4 5\n"])
def test_an_invalid_stat_is_unknown(text: bytes, tmp_path: Path) -> None:
    """A file with too few or invalid times makes the reading unknown."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_bytes(text)
    assert MachineCpu(root=tmp_path).read() is None


def test_missing_stat(tmp_path: Path) -> None:
    """Without the file the reading is unknown."""
    assert MachineCpu(root=tmp_path).read() is None


def test_one_reading_a_second_for_all_servers(tmp_path: Path) -> None:
    """Within a second every caller gets the same reading, then a new one."""
    hands, tree = MovableClock(), KernelTree(tmp_path)
    machine = MachineCpu(hands.clock.monotonic, tmp_path)
    tree.run(0, idle=1.0)
    first = machine.read()
    tree.run(0, idle=1.0)
    hands.move(READ_SECONDS * 0.9)
    assert machine.read() is first
    hands.move(READ_SECONDS * 0.1)
    second = machine.read()
    assert first
    assert second
    assert second.idle[0] - first.idle[0] == pytest.approx(1.0)
    assert second.at - first.at == pytest.approx(READ_SECONDS)


def test_usage_of_cgroups_is_part_of_a_reading(tmp_path: Path) -> None:
    """A requested cgroup is in the current reading and the next ones, until no server has asked for it for a minute."""
    hands, tree = MovableClock(), KernelTree(tmp_path)
    machine = MachineCpu(hands.clock.monotonic, tmp_path)
    path, missing = tree.use_group(1.5), str(tmp_path / "cpu.stat")
    machine.read()
    first = machine.read([path, missing])
    assert first
    assert first.groups == {path: 1.5, missing: None}
    tree.use_group(0.25)
    hands.move(READ_SECONDS)
    second = machine.read()
    assert second
    assert second.groups[path] == 1.75
    hands.move(FORGET_SECONDS)
    third = machine.read()
    assert third
    assert third.groups == {}


def test_usage_of_version_1(tmp_path: Path) -> None:
    """Version 1 has nanoseconds in a file of their own."""
    (tmp_path / "cpuacct.usage").write_text("2500000000\n")
    path = str(tmp_path / "cpuacct.usage")
    reading = MachineCpu(root=KernelTree(tmp_path).root).read([path])
    assert reading
    assert reading.groups == {path: 2.5}


def test_here() -> None:
    """This machine lists its CPUs, and each has idle or used time."""
    reading = MachineCpu().read()
    assert reading
    assert os.sched_getaffinity(0) <= reading.idle.keys() == reading.used.keys()
    assert all(reading.idle[cpu] + reading.used[cpu] > 0 for cpu in reading.idle)
