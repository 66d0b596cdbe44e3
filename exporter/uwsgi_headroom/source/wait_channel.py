"""What a process waits for in the kernel (proc_pid_wchan(5)), as far as that explains its silence."""

from __future__ import annotations

from pathlib import Path

_WRITES_A_PIPE = ("anon_pipe_write", "pipe_write")
"""The kernel's functions, the first from Linux 6.13 on."""


def waits_to_write_a_pipe(pid: int, *, proc: Path = Path("/proc")) -> bool:
    """Whether a process is stopped because a pipe it writes to is full; False where this user may not know."""
    try:
        return (proc / str(pid) / "wchan").read_text() in _WRITES_A_PIPE
    except (OSError, ValueError):
        return False
