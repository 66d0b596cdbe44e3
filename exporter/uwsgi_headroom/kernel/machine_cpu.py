"""CPU time of the whole machine, read once a second for all servers.

`/proc/stat` has a line for each CPU that is online (proc_stat(5)). Waiting for a disk (iowait) is idle: another process
could run meanwhile. Time that the hypervisor took (steal) is used: nobody here can have it. A guest's time is in user
already. Time of niced processes is used as well, although they would give way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uwsgi_headroom.kernel import procfs

READ_SECONDS = 1.0
"""How old a reading may be: the kernel counts in hundredths, and of hundreds of CPUs the file takes long to make."""

FORGET_SECONDS = 60.0
"""How long a cgroup is read that no server asks for any more."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class MachineTimes:
    """CPU seconds since boot, at a monotonic instant: by CPU that is online, and by usage file of cgroups (None where
    it cannot be read). Idle time of a CPU may go back a little, and begins anew when the CPU was offline."""

    at: float
    idle: Mapping[int, float]
    used: Mapping[int, float]
    groups: dict[str, float | None] = field(default_factory=dict)


class MachineCpu:
    """The latest reading of the machine, shared by all servers of an exporter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, root: Path = Path("/")) -> None:
        self._clock = clock
        self._path = os.path.join(root, "proc/stat")
        self._read_at = float("-inf")
        self._latest: MachineTimes | None = None
        self._asked: dict[str, float] = {}  # by usage file: when last

    def read(self, usage_files: Iterable[str] = ()) -> MachineTimes | None:
        """The latest reading, a second old at most, with these cgroups in it; None where the kernel does not say."""
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
    """Seconds idle and used by CPU, from the text of `/proc/stat`. Raises ValueError if it is not what proc(5) says."""
    idle, used = {}, {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            break  # the CPUs come first, and behind them a line of every interrupt
        name, *ticks = line.split(None, 9)[:9]
        if name == b"cpu":
            continue  # all of them, those that are offline included
        if len(ticks) < 5:
            raise ValueError(f"/proc/stat has {len(ticks)} times of a CPU")
        at_rest = int(ticks[3]) + int(ticks[4])  # idle and iowait
        cpu = int(name[3:])
        idle[cpu] = at_rest / _TICKS
        used[cpu] = (sum(map(int, ticks)) - at_rest) / _TICKS
    return idle, used


def read_usage(path: str) -> float | None:
    """CPU seconds that the processes of a cgroup have used: `cpu.stat` of version 2, `cpuacct.usage` of version 1."""
    try:
        text = procfs.read_file(path)
        if path.endswith("cpuacct.usage"):
            return int(text) / 1e9
        (usage,) = [line.split()[1] for line in text.splitlines() if line.startswith(b"usage_usec ")]
        return int(usage) / 1e6
    except (OSError, ValueError):
        return None
