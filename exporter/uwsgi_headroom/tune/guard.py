"""Makes sure that nothing outlives a process, however it ends. Needs the standard library only.

`guard_this_process` splits it in three. The process that was started waits and passes signals on. Its child, the guard,
adopts all orphans below it, as an init does. The guard's child goes on with the program. When that has ended, or the
first is gone (the kernel then closes a pipe, also after SIGKILL), the guard ends every descendant with SIGKILL and
removes the directory. If the guard is killed, the program gets SIGTERM.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import secrets
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_DEATH_SIGNAL, _SUBREAPER = 1, 36  # PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of linux/prctl.h
_AGAIN_SECONDS = 0.01

_KILL_SECONDS, _END_SECONDS = 10.0, 20.0  # until descendants are given up, and until a runner obeys a signal
_LIBC = ctypes.CDLL(None)


def guard_this_process(prefix: str) -> Path:
    """Return in a process of which nothing is left when it has ended, with its directory, which is TMPDIR, too. Call it
    before there are threads. prefix: of the directory's name; short, because the path of a UNIX socket is."""
    directory = Path(tempfile.gettempdir()).absolute() / f"{prefix}{secrets.token_hex(4)}"
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # until somebody handles them
    if guard := os.fork():
        os.close(reading)
        _wait_for(guard)
    os.close(writing)
    os.setsid()
    directory.mkdir(0o700)
    _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    if runner := os.fork():
        _guard(runner, reading, directory)
    os.close(reading)
    _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    _LIBC.prctl(_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    atexit.register(_clean_up, directory)  # if the guard was killed
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return directory


def interrupt_on_signals() -> None:
    """Turn the first SIGINT, SIGTERM or SIGHUP into KeyboardInterrupt; ignore further ones, which would disturb it.
    Python drops an exception that begins in a finalizer, such as that of a connection: then it is raised once more."""

    def interrupt(*_: object) -> None:
        for number in _PASSED_ON[:3]:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def raise_again(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        else:
            sys.__unraisablehook__(dropped)

    sys.unraisablehook = raise_again
    for number in (*_PASSED_ON[:3], signal.SIGALRM):
        signal.signal(number, interrupt)


def die_with_parent() -> None:
    """Have the kernel end this process with its parent: a `preexec_fn`."""
    _LIBC.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _wait_for(guard: int) -> NoReturn:
    for each in _PASSED_ON:
        signal.signal(each, lambda number, _: os.kill(guard, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    os.waitid(os.P_PID, guard, os.WEXITED | os.WNOWAIT)  # its PID is no other process's yet
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    code = os.waitstatus_to_exitcode(os.waitpid(guard, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _guard(runner: int, pipe: int, directory: Path) -> NoReturn:
    """Wait for the end of the runner, or of the process that was started; then clean up."""
    signals, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # each signal arrives as a byte with its number
    for each in (*_PASSED_ON, signal.SIGCHLD):
        signal.signal(each, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    end = float("inf")
    while (status := _reap(runner)) is None:
        ready, _, _ = select.select([pipe, signals], [], [], max(0.0, min(60.0, end - time.monotonic())))
        if pipe in ready or time.monotonic() > end:
            break
        for number in os.read(signals, 512) if ready else b"":
            if number in _PASSED_ON:
                os.kill(runner, number)
                end = min(end, time.monotonic() + _END_SECONDS)
    _clean_up(directory)
    os._exit(1 if status is None else status if status >= 0 else 128 - status)


def _reap(runner: int) -> int | None:
    """Wait for all children that have ended. Returns the exit status of the runner if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found = os.waitstatus_to_exitcode(ended[1]) if ended[0] == runner else found
    return found


def _clean_up(directory: Path) -> None:
    kill_descendants()
    shutil.rmtree(directory, ignore_errors=True)


def kill_descendants(spared: Collection[int] = ()) -> None:
    """End the processes below this one with SIGKILL, and wait for them. Orphans become children of this one."""
    end = time.monotonic() + _KILL_SECONDS
    while (pids := children() - set(spared)) and time.monotonic() < end:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.005)


def children() -> set[int]:
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.add(int(name))
    return found
