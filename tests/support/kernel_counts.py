"""Reads the kernel's figures of a process: its peak memory, and how long it waited for a CPU."""

import re
from pathlib import Path


def peak_resident_bytes(pid: int) -> int:
    """The high-water mark of a process's resident memory in bytes (proc_pid_status(5))."""
    return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0])


def run_queue_seconds(pid: int) -> float:
    """Seconds since its start for which a process's main thread was ready to run while others had the CPUs (the
    kernel's sched-stats.rst); 0 if the kernel does not count them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
