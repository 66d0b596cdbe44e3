"""Reads the CPU time of the whole machine, once a second for all servers.

`/proc/stat` has a line for each online CPU (proc_stat(5)). Time waiting for a disk (iowait) counts as idle, since
another process could run. Time taken by the hypervisor (steal) counts as used, since no process here can have it. User
time includes guest time. Time of niced processes counts as used, although they would yield.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uwsgi_headroom.kernel import procfs

READ_SECONDS = 1.0
"""The longest age of a reading. The kernel counts in hundredths of a second, and with hundreds of CPUs the file takes
long to generate."""

FORGET_SECONDS = 60.0
"""Seconds without a request after which a cgroup is no longer read."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class MachineTimes:
    """CPU seconds since boot at the monotonic time `at`: by online CPU, and by usage file of a cgroup (None if the
    file cannot be read). The idle time of a CPU may decrease slightly, and restarts after the CPU was offline."""

    at: float
    idle: Mapping[int, float]
    used: Mapping[int, float]
    groups: dict[str, float | None] = field(default_factory=dict)


class MachineCpu:
    """Keeps the latest reading of the machine, which all servers of an exporter share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, root: Path = Path("/")) -> None:
        self._clock = clock
        self._path = os.path.join(root, "proc/stat")
        self._read_at = float("-inf")
        self._latest: MachineTimes | None = None
        self._asked: dict[str, float] = {}  # by usage file, the time of the last request

    def read(self, usage_files: Iterable[str] = ()) -> MachineTimes | None:
        """The latest reading, at most a second old, including these cgroups; None if the kernel does not report it."""
        now = self._clock()
        for path in usage_files:
            self._asked[path] = now
        if now - self._read_at >= READ_SECONDS:
            self._read_at = now
            self._asked = {path: at for path, at in self._asked.items() if now - at < FORGET_SECONDS}
            self._latest = self._read(now)
        if self._latest is not None:
            for path in self._asked.keys() - self._latest.groups.keys():
                self._latest.groups[path] = read_usage(path)
        return self._latest

    def _read(self, at: float) -> MachineTimes | None:
        try:
            idle, used = parse_stat(procfs.read_file(self._path))
        except (OSError, ValueError):
            return None
        return MachineTimes(at, idle, used)


def parse_stat(text: bytes) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds idle and used, by CPU, from the text of `/proc/stat`. Raises ValueError if it is not as in proc(5)."""
    idle, used = {}, {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            break  # the CPUs come first, then a long line of interrupts
        name, *ticks = line.split(None, 9)[:9]
        if name == b"cpu":
            continue  # the sum, which includes offline CPUs
        if len(ticks) < 5:
            raise ValueError(f"/proc/stat has {len(ticks)} times of a CPU")
        at_rest = int(ticks[3]) + int(ticks[4])  # idle and iowait
        cpu = int(name[3:])
        idle[cpu] = at_rest / _TICKS
        used[cpu] = (sum(map(int, ticks)) - at_rest) / _TICKS
    return idle, used


def read_usage(path: str) -> float | None:
    """CPU seconds used by the processes of a cgroup, from its `cpu.stat` (version 2) or `cpuacct.usage` (version 1);
    None if the file cannot be read."""
    try:
        text = procfs.read_file(path)
        if path.endswith("cpuacct.usage"):
            return int(text) / 1e9
        (usage,) = [line.split()[1] for line in text.splitlines() if line.startswith(b"usage_usec ")]
        return int(usage) / 1e6
    except (OSError, ValueError):
        return None
