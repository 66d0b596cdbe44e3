"""What the kernel counts of a process: how much memory it took at most, and how long it waited for a CPU."""

from __future__ import annotations

import re
from pathlib import Path


def peak_resident_bytes(pid: int) -> int:
    """The high-water mark of its resident memory (proc_pid_status(5))."""
    return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0])


def run_queue_seconds(pid: int) -> float:
    """How long its main thread was ready to run while others had the CPUs (the kernel's sched-stats.rst), since it
    began; 0 where the kernel does not count it."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
