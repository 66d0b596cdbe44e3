"""A server that is measured: it is ready when its workers are, names each failure in a sentence, and leaves nothing."""

import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from tests.support import real_uwsgi
from uwsgi_headroom.tune import server
from uwsgi_headroom.tune.server import STATS, RunError, running

pytestmark = pytest.mark.integration

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


def test_an_application_that_does_not_import(place):
    """The traceback is in the error."""
    (place / "broken.py").write_text("import nothing_there\n")
    words = (*UWSGI[:-1], f"--wsgi-file={place / 'broken.py'}")
    with running("2x2", words, place) as found, pytest.raises(RunError) as caught:
        found.wait_until_ready("/")
    assert any("No module named 'nothing_there'" in line for line in caught.value.details)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('no backend')", "2x2 closes the connection at a request of /"),
        ("start('503 Busy', []); return [b'']", "2x2 answers with status 503 at a request of /"),
    ],
)
def test_an_application_that_fails(place, body, message, monkeypatch):
    """Its first answers may be errors, for a while."""
    monkeypatch.setattr(server, "FAILING_SECONDS", 0.1)
    (place / "app.py").write_text(f"def application(environ, start):\n    {body}\n")
    words = (*UWSGI[:-1], f"--wsgi-file={place / 'app.py'}")
    with running("2x2", words, place) as found, pytest.raises(RunError, match=message):
        found.wait_until_ready("/")


def test_a_server_that_is_killed(place):
    """Its end is seen, and the workers that it leaves are ended."""
    before = children()
    with running("2x2", UWSGI, place) as found:
        found.wait_until_ready("/")
        os.kill(found.process.pid, signal.SIGKILL)
        found.process.wait(60)
        with pytest.raises(RunError, match=r"2x2 ended \(SIGKILL\)"):
            found.refuse_if_ended()
    assert children() == before


def test_other_children_stay(place):
    """Those that were there before are not of the server."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with running("2x2", UWSGI, place) as found:
            found.wait_until_ready("/")
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0


def test_a_program_that_does_not_exist(place):
    """Is an error, not a traceback."""
    with (
        pytest.raises(RunError, match=r"/nonexistent/server cannot be started: No such file"),
        running("x", ["/nonexistent/server"], place),
    ):
        pass
