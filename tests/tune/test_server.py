"""A server that is measured: it is ready when its workers are, names each failure in a sentence, and leaves nothing."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec import Struct

from tests.support import real_uwsgi
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel.procfs import read_begin
from uwsgi_headroom.tune import server
from uwsgi_headroom.tune.server import STATS, RunError, running

UWSGI = (
    *(real_uwsgi.uwsgi_binary(), "--master", "--need-app", "--enable-threads", "--no-orphans", "--processes=2"),
    *("--threads=2", "--http-socket=127.0.0.1:{port}", f"--stats={STATS}", f"--wsgi-file={real_uwsgi.APP}"),
)


@pytest.fixture
def place(tmp_path_factory):
    """A directory with a short name, for the path of a UNIX socket."""
    return tmp_path_factory.mktemp("s")


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.mark.integration
def test_a_server_is_measured(place):
    """It listens on loopback, and its CPU time and memory are those of all its processes."""
    before = children()
    with running("2x2", UWSGI, place) as found:
        found.wait_until_ready("/?cpu_ms=50")
        host, _ = found.address
        assert host == "127.0.0.1"
        assert found.read_cpu() >= 0.05
        assert found.read_memory() > 5e6
        assert len(children() - before) >= 3
        found.refuse_if_ended()
    assert children() == before
    assert found.read_memory() == 0


@pytest.mark.integration
def test_a_port_that_is_taken(place):
    """The server's own message is part of the error; the program that has the port gets no load."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [word.replace("{port}", str(taken.getsockname()[1])) for word in UWSGI]
        with running("2x2", words, place) as found, pytest.raises(RunError, match=r"2x2 ended \(status 1\)") as caught:
            found.wait_until_ready("/")
        assert any("Address already in use" in line for line in caught.value.details)
        taken.settimeout(0)
        with pytest.raises(BlockingIOError):
            taken.accept()


@pytest.mark.integration
def test_an_application_that_does_not_import(place):
    (place / "broken.py").write_text("import nothing_there\n")
    words = (*UWSGI[:-1], f"--wsgi-file={place / 'broken.py'}")
    with running("2x2", words, place) as found, pytest.raises(RunError) as caught:
        found.wait_until_ready("/")
    assert any("No module named 'nothing_there'" in line for line in caught.value.details)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('no backend')", "2x2 closes the connection at a request of /"),
        ("start('503 Busy', []); return [b'']", "2x2 answers with status 503 at a request of /"),
    ],
)
def test_an_application_that_fails(place, body, message, monkeypatch):
    monkeypatch.setattr(server, "FAILING_SECONDS", 0.1)
    (place / "app.py").write_text(f"def application(environ, start):\n    {body}\n")
    words = (*UWSGI[:-1], f"--wsgi-file={place / 'app.py'}")
    with running("2x2", words, place) as found, pytest.raises(RunError, match=message):
        found.wait_until_ready("/")


@pytest.mark.integration
def test_a_server_that_is_killed(place):
    before = children()
    with running("2x2", UWSGI, place) as found:
        found.wait_until_ready("/")
        os.kill(found.process.pid, signal.SIGKILL)
        found.process.wait(60)
        with pytest.raises(RunError, match=r"2x2 ended \(SIGKILL\)"):
            found.refuse_if_ended()
    assert children() == before


@pytest.mark.integration
def test_other_children_stay(place):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with running("2x2", UWSGI, place) as found:
            found.wait_until_ready("/")
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0


@pytest.mark.integration
def test_a_program_that_does_not_exist_is_an_error(place):
    with (
        pytest.raises(RunError, match=r"/nonexistent/server cannot be started: No such file"),
        running("x", ["/nonexistent/server"], place),
    ):
        pass


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
def test_sigkill_of_any_process_leaves_nothing(tmp_path, victims):
    with guarded(tmp_path) as running:
        if victims == "group":
            os.killpg(running.process.pid, signal.SIGKILL)
        else:
            pids = {"started": running.process.pid, "guard": running.guard, "runner": running.runner}
            os.kill(pids[victims], signal.SIGKILL)
        assert running.process.wait(60) != 0
        wait_until(running.is_gone, what="everything to go")


def test_a_crash_is_a_failure(tmp_path):
    with guarded(tmp_path, "os.abort()") as running:
        assert running.process.wait(60) == 128 + signal.SIGABRT
        assert running.is_gone()
    # Python drops what a finalizer raises, as when a connection is closed while a signal arrives.
    finalized = "type('', (), {'__del__': lambda _: [os.kill(os.getpid(), 15), *map(str, range(9999))]})()"
    with guarded(tmp_path, f"{finalized}; time.sleep(9)") as running:
        assert running.process.wait(60) == 7
