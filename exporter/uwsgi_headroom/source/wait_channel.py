"""Checks with the kernel (proc_pid_wchan(5)) whether a silent process waits for a full pipe."""

from __future__ import annotations

from pathlib import Path

_WRITES_A_PIPE = ("anon_pipe_write", "pipe_write")
"""The kernel functions that write to a pipe; the first is the name from Linux 6.13 on."""


def waits_to_write_a_pipe(pid: int, *, proc: Path = Path("/proc")) -> bool:
    """Whether a process waits because the pipe it writes to is full; False if this user may not read its state."""
    try:
        return (proc / str(pid) / "wchan").read_text() in _WRITES_A_PIPE
    except (OSError, ValueError):
        return False
