"""Runs a command so that none of its descendants can outlive the run, however the run ends.

`python -I -S guard.py DIRECTORY COMMAND...` becomes the parent of all orphans below it, as an init process is. It ends
every descendant with SIGKILL when the command has ended, or at end of file on standard input: the kernel closes the
other end of that pipe also if the runner itself was killed. Only then it removes DIRECTORY too, unless that is empty;
a runner that is alive writes a byte before it closes the pipe, because it still needs the files.

SIGINT, SIGTERM and SIGQUIT are passed on to the command. The exit status is the command's: 128 + n for signal n, 127 if
it could not be started, 125 if a process could not be ended. This file runs alone, on the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict

LEFT_OVER = 125
NOT_STARTED = 127

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG of linux/prctl.h
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_KILL_SECONDS = 10.0


def read_stats() -> dict[int, list[bytes]]:
    """Read the fields after the name in `/proc/PID/stat` of all processes, by pid."""
    stats = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                stats[int(name)] = file.read().rpartition(b")")[2].split()
    return stats


def descendants(pid: int, stats: dict[int, list[bytes]] | None = None) -> list[int]:
    """Return the PIDs of all processes below `pid`, also of those that ended and were not waited for."""
    children = defaultdict(list)
    for each, fields in (read_stats() if stats is None else stats).items():
        children[int(fields[1])].append(each)
    found = [pid]
    for parent in found:
        found += children[parent]
    return found[1:]


def main(directory: str, command: list[str]) -> int:
    """Run the command; return the exit status."""
    signals, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)  # each signal arrives as a byte with its number
    for number in (*_FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    _prctl(_SUBREAPER, 1)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: _prctl(_DEATH_SIGNAL, signal.SIGKILL),  # noqa: PLW1509  there is one thread
        )
    except (OSError, ValueError) as error:
        print(f"cannot run {command[0]}: {error}", file=sys.stderr)
        return NOT_STARTED
    status, is_abandoned = _wait(child.pid, signals)
    if not _end_descendants():
        return LEFT_OVER
    if is_abandoned and directory:
        shutil.rmtree(directory, ignore_errors=True)
    return status


def _wait(pid: int, signals: int) -> tuple[int, bool]:
    """Wait for the end of the command or of standard input. Return the exit status, and whether the runner is gone."""
    while True:
        ready, _, _ = select.select([sys.stdin.fileno(), signals], [], [])
        if sys.stdin.fileno() in ready:
            return 0, not os.read(sys.stdin.fileno(), 1)
        for number in os.read(signals, 512):
            if number in _FORWARDED:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        status = _reap(pid)
        if status is not None:
            return (status if status >= 0 else 128 - status), False


def _reap(pid: int = 0) -> int | None:
    """Take note of all children that have ended. Return the exit status of `pid` if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if not ended:
                break
            if ended == pid:
                found = os.waitstatus_to_exitcode(status)
    return found


def _end_descendants() -> bool:
    """Kill all descendants; False if some cannot be killed."""
    give_up_at = time.monotonic() + _KILL_SECONDS
    while pids := descendants(os.getpid()):  # again, because one of them may just have started another
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.005)
    return True


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(ImportError, AttributeError):
        import ctypes  # noqa: PLC0415  missing from some builds of Python

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
