"""Why a stats server that takes connections does not answer, by the state of its process: it is stopped or frozen, or
waits for a full pipe.

The process is proven to be of this host: the kernel names it as the peer of a UNIX socket (SO_PEERCRED), or the caller
has proven it.
"""

from __future__ import annotations

import os
from pathlib import Path

_ROOT = Path("/")
_WRITES_A_PIPE = ("anon_pipe_write", "pipe_write")
"""The kernel functions that write to a pipe; the first is the name from Linux 6.13 on."""


def explain_silence(pid: int | None, *, is_uwsgi: bool) -> str:
    """Why a server does not answer, and what to do. pid: its process here, None if that is not proven; is_uwsgi:
    whether uWSGI's stats were read there before."""
    if pid and _sees_own_processes():
        if stopped := explain_stopped(pid):
            return stopped
        if waits_to_write_a_pipe(pid):
            return (
                f"uWSGI's master ({pid}) waits to write to a full pipe, most likely its log, and the server is stuck: "
                "check the process that should read that pipe"
            )
    return "uWSGI's master is busy (reloading, ending a worker, or blocked by another reader of its stats)" + (
        "" if is_uwsgi else ", or this is not a stats server"
    )


def explain_stopped(pid: int, *, root: Path = _ROOT) -> str:
    """That a process is stopped, and how to resume it; empty if it is not, or if that is not visible."""
    status = _read_lines(root / "proc" / str(pid) / "status")
    state = status.get("State", "")[:1]
    tracer = status.get("TracerPid", "0")
    if state == "t" or (state == "T" and tracer != "0"):
        return (
            f"process {pid}, which serves the stats, is stopped by a debugger (process {tracer}): let it continue "
            "there, or end the debugger"
        )
    if state == "T":
        return (
            f"process {pid}, which serves the stats, is stopped (SIGSTOP, or Ctrl-Z in a shell): resume it with "
            f"`kill -CONT {pid}`"
        )
    if state and _is_frozen(pid, root):
        return (
            f"process {pid}, which serves the stats, is frozen by its cgroup: thaw it (`docker unpause CONTAINER`, or "
            "`systemctl thaw UNIT`)"
        )
    return ""


def waits_to_write_a_pipe(pid: int, *, proc: Path = Path("/proc")) -> bool:
    """Whether a process waits because the pipe it writes to is full, as the kernel says (proc_pid_wchan(5)); False if
    this user may not read its state."""
    try:
        return (proc / str(pid) / "wchan").read_text() in _WRITES_A_PIPE
    except (OSError, ValueError):
        return False


def _sees_own_processes() -> bool:
    """Whether /proc belongs to this process's own PID namespace: in another one, a PID there is another process."""
    return _read_lines(Path("/proc/self/status")).get("NSpid") == str(os.getpid())


def _is_frozen(pid: int, root: Path) -> bool:
    """Whether the freezer of cgroup version 1 or 2 holds a process; its state also includes that of the levels
    above."""
    try:
        for line in (root / "proc" / str(pid) / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            folder = root / "sys/fs/cgroup"
            if "freezer" in controllers.split(","):
                if _read(folder / "freezer" / path.lstrip("/") / "freezer.state").strip() == "FROZEN":
                    return True
            elif not controllers:
                events = [folder / top / path.lstrip("/") / "cgroup.events" for top in ("", "unified")]
                if any("frozen 1" in _read(file).splitlines() for file in events):
                    return True
    except (OSError, ValueError):
        pass
    return False


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _read_lines(path: Path) -> dict[str, str]:
    """The values of a file of /proc by their names; empty if it cannot be read."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in _read(path).splitlines())}
