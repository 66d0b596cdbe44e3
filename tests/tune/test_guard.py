"""Nothing outlives a guarded process: no process, whatever it does, and no file of its directory."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel.procfs import read_begin

EXPORTER = Path(__file__).parents[2] / "exporter"
MARK = "HEADROOM_TEST_GUARD"

PROGRAM = """
import os, subprocess, sys, time
from uwsgi_headroom.tune.guard import guard_this_process, interrupt_on_signals
interrupt_on_signals()
directory = guard_this_process("g-")
open(directory / "file", "w").close()
stubborn = "trap '' TERM INT HUP; (setsid sleep 600 & setsid sh -c 'sleep 600 & sleep 600' &) ; sleep 600"
subprocess.Popen(["sh", "-c", stubborn], start_new_session=True)
time.sleep(0.2)
try:
    print(os.getpid(), os.getppid(), os.environ["TMPDIR"] == str(directory), flush=True)
    {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


class Guarded(Struct, frozen=True):
    process: subprocess.Popen[str]
    runner: int
    guard: int
    token: str
    directory: Path

    def is_gone(self) -> bool:
        return not marked(self.token) and not list(self.directory.iterdir())


def marked(token: str) -> list[int]:
    """The processes that carry the mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={token}".encode() in read_begin(1 << 16, entry).split(b"\0"):
                found.append(int(entry.parent.name))
    return found


@contextlib.contextmanager
def guarded(directory: Path, work: str = "time.sleep(600)") -> Iterator[Guarded]:
    token = secrets.token_hex(8)
    environment = {**os.environ, MARK: token, "TMPDIR": str(directory), "PYTHONPATH": str(EXPORTER)}
    command = [sys.executable, "-c", PROGRAM.replace("{work}", work)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        runner, guard, has_directory = process.stdout.readline().split()
        assert has_directory == "True"
        yield Guarded(process, int(runner), int(guard), token, directory)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: not marked(token), what="all processes to end")


def test_the_end_of_the_program_is_that_of_all(tmp_path):
    """With its exit status; orphans in sessions of their own end, too, before it is seen to end."""
    with guarded(tmp_path, "sys.exit(3)") as running:
        assert running.process.wait(60) == 3
        assert running.is_gone()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_passed_on(tmp_path, number):
    """A second one does not disturb the end. The process that was started waits for all others."""
    with guarded(tmp_path) as running:
        assert len(marked(running.token)) >= 6
        running.process.send_signal(number)
        running.process.send_signal(number)
        assert running.process.wait(60) == 7
        assert running.is_gone()


@pytest.mark.parametrize("victims", ["started", "guard", "runner", "group"])
def test_sigkill_leaves_nothing(tmp_path, victims):
    """Of any one of the three, or of the whole process group."""
    with guarded(tmp_path) as running:
        if victims == "group":
            os.killpg(running.process.pid, signal.SIGKILL)
        else:
            pids = {"started": running.process.pid, "guard": running.guard, "runner": running.runner}
            os.kill(pids[victims], signal.SIGKILL)
        assert running.process.wait(60) != 0
        wait_until(running.is_gone, what="everything to go")


def test_a_crash_is_a_failure(tmp_path):
    """The status is that of the signal, as a shell has it."""
    with guarded(tmp_path, "os.abort()") as running:
        assert running.process.wait(60) == 128 + signal.SIGABRT
        assert running.is_gone()


def test_a_signal_in_a_finalizer_is_not_lost(tmp_path):
    """Python drops what a finalizer raises, as when a connection is closed while a signal arrives."""
    finalized = "type('', (), {'__del__': lambda _: [os.kill(os.getpid(), 15), *map(str, range(9999))]})()"
    with guarded(tmp_path, f"{finalized}; time.sleep(9)") as running:
        assert running.process.wait(60) == 7
