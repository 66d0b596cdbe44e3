"""How much memory a process took at most, as the kernel counts it."""

from __future__ import annotations

import re
from pathlib import Path


def peak_resident_bytes(pid: int) -> int:
    """The high-water mark of its resident memory (proc_pid_status(5))."""
    return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0])
