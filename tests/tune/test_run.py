"""A run measures a real uWSGI, names each failure in a sentence, and never leaves a process."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tools.environments import ROOT
from tools.support import real_uwsgi
from uwsgi_headroom.tune.experiment import run, server
from uwsgi_headroom.tune.experiment.run import Planned, run_once
from uwsgi_headroom.tune.experiment.server import Setup
from uwsgi_headroom.tune.loads.load_tools import Load, Loading

pytestmark = pytest.mark.integration

MARK = "HEADROOM_TEST_RUN"

RUNNER = """
from tests.tune.test_run import LOAD, planned, setup
from uwsgi_headroom.tune.experiment.run import run_once
run_once(planned(setup(), LOAD))
"""


def setup(*options: str, app: Path = real_uwsgi.APP) -> Setup:
    command = [real_uwsgi.uwsgi_binary(), "--master", "--need-app", "--enable-threads", "--disable-logging"]
    command += ["--http-socket", "127.0.0.1:{port}", "--stats", "{directory}/stats", "--wsgi-file", str(app)]
    return Setup(name="2x2", command=(*command, "--processes", "2", "--threads", "2", *options))


def planned(the_setup: Setup, load: Load) -> Planned:
    return Planned(the_setup, load, "short", 0)


LOAD = Load(paths=("/?cpu_ms=1&io_ms=4",), clients=3, warm_up=0.2, seconds=1.1)


@pytest.fixture
def mark(monkeypatch):
    """Marks all processes of a test; afterwards none is left."""
    token = secrets.token_hex(8)
    monkeypatch.setenv(MARK, token)
    yield token
    assert marked(token) == []


def marked(token: str) -> list[str]:
    """The processes, except this one, that carry the mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            is_marked = f"{MARK}={token}".encode() in entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if is_marked and int(entry.parent.name) != os.getpid():
            found.append(entry.parent.name)
    return found


def test_figures_agree_with_what_the_clients_saw(mark):
    """uWSGI's counters over the measured time are those of the clients, without the warm-up. On a busy machine the two
    begin at slightly different times, so the requests come at a fixed rate, for longer than such a delay."""
    outcome = run_once(planned(setup(), replace(LOAD, clients=0, rate=60.0, seconds=3.0)))
    assert outcome.error is None
    answers, observed = outcome.answers, outcome.observed
    assert answers.errors == {}
    assert answers.throughput == pytest.approx(60, rel=0.05)
    assert observed.throughput == pytest.approx(answers.throughput, rel=0.15)
    assert 0.004 <= observed.response_time <= answers.mean + 0.001
    assert 0 < observed.concurrency <= 3.5
    assert sum(observed.shares.values()) == pytest.approx(1)
    assert observed.shares.keys() == {1, 2}
    assert sum(observed.waits.values()) <= 4
    assert observed.residency.keys() <= {1, 2}
    assert observed.verdict
    assert len(outcome.cpus) == os.cpu_count()
    assert all(0 <= busy <= 1 for busy in outcome.cpus)
    assert 0 < outcome.server_cpu < 2
    assert 0 < outcome.clients_cpu < 1
    assert outcome.memory > 5_000_000


@pytest.mark.parametrize(("late", "longest"), [(0.5, 1.6), (60.0, run.LEAST_SECONDS)])
def test_the_watch_ends_with_the_load(mark, monkeypatch, late, longest):
    """Also if it begins late, as on a busy machine: its figures would be those of a server without load."""
    watched = []
    wait_for_begin = Loading.wait_for_begin
    monkeypatch.setattr(Loading, "wait_for_begin", lambda load: wait_for_begin(load) - late)
    monkeypatch.setattr(run, "observe", lambda _name, _stats, seconds, _check: watched.append(seconds))
    outcome = run_once(planned(setup(), replace(LOAD, seconds=2.1)))
    assert outcome.error is None
    assert run.LEAST_SECONDS <= watched[0] <= longest


def test_port_is_taken(mark):
    """The server's own message is part of the sentence; the program that has the port is not loaded."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = tuple(word.replace("{port}", port) for word in setup().command)
        outcome = run_once(planned(replace(setup(), command=words), LOAD))
    assert outcome.answers is None
    assert outcome.error.startswith("The server 2x2 ended (status 1). Its log ends with:\n")
    assert "Address already in use" in outcome.error


def test_application_does_not_import(mark, tmp_path):
    """The traceback is in the sentence. The directory that was asked for stays, with the log."""
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_there\n")
    directory = Path(tempfile.mkdtemp(prefix="hr-"))
    outcome = run_once(planned(setup(app=broken), LOAD), directory)
    assert "No module named 'nothing_there'" in outcome.error
    assert "nothing_there" in (directory / "log").read_text()
    shutil.rmtree(directory)


def test_application_raises(mark, tmp_path, monkeypatch):
    """uWSGI then closes the connection: that is an answer, and no reason to wait for another one."""
    monkeypatch.setattr(server, "_FAILING_SECONDS", 0.1)
    app = tmp_path / "app.py"
    app.write_text("def application(environ, start):\n    raise RuntimeError('no backend')\n")
    outcome = run_once(planned(setup(app=app), LOAD))
    assert outcome.answers is None
    assert outcome.error.startswith("The server 2x2 closes the connection of /?cpu_ms=1&io_ms=4 unanswered")
    assert "RuntimeError: no backend" in outcome.error


def test_server_is_killed_halfway(mark, monkeypatch):
    """The run ends at once, not after the timeout of the clients; the workers that outlive the master are ended."""

    def kill_and_observe(name, stats, seconds, check):
        os.kill(int((stats.parent / "pid").read_text()), signal.SIGKILL)
        return observe(name, stats, seconds, check)

    observe = run.observe
    monkeypatch.setattr(run, "observe", kill_and_observe)
    outcome = run_once(planned(setup("--pidfile", "{directory}/pid"), replace(LOAD, seconds=60.0)))
    assert outcome.error.startswith("The server 2x2 ended (SIGKILL)")


def test_guards_are_killed_halfway(mark, monkeypatch):
    """With `no-orphans`, as tune starts it, uWSGI and the clients end with their guards."""

    def kill_and_observe(name, stats, seconds, check):
        for pid in marked(mark):
            with contextlib.suppress(OSError):
                if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    killed.append(os.kill(int(pid), signal.SIGKILL))
        return observe(name, stats, seconds, check)

    observe, killed = run.observe, []
    monkeypatch.setattr(run, "observe", kill_and_observe)
    outcome = run_once(planned(setup("--no-orphans"), replace(LOAD, seconds=60.0)))
    assert len(killed) == 2
    assert "ended (SIGKILL)" in outcome.error
    real_uwsgi.wait_until(lambda: not marked(mark), what="everything to end")


def test_commands_that_do_not_exist(mark, tmp_path, monkeypatch):
    """A missing server, directory or tool is a sentence, not a traceback."""
    outcome = run_once(planned(Setup(name="x", command=("/nonexistent/server",)), LOAD))
    assert "cannot run /nonexistent/server: [Errno 2]" in outcome.error
    outcome = run_once(planned(replace(setup(), cwd=tmp_path / "missing"), LOAD))
    assert "cannot be started in" in outcome.error
    found = setup()
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = run_once(planned(found, replace(LOAD, tool="wrk")))
    assert outcome.error == "wrk is not installed: install the package wrk."


def test_directory_with_a_long_name(tmp_path):
    """The socket of the stats server would not fit."""
    assert "107 bytes" in run_once(planned(setup(), LOAD), tmp_path / ("x" * 100)).error


def test_only_listeners_on_loopback_are_accepted():
    """A listener is known by its inode, and whether it is bound to 127.0.0.1."""
    # Not any port: the kernel may give one port to sockets of two loopback addresses.
    with (
        socket.create_server(("127.0.0.1", real_uwsgi.free_port())) as near,
        socket.create_server(("127.0.0.2", real_uwsgi.free_port())) as other,
    ):
        inodes = [str(os.fstat(each.fileno()).st_ino) for each in (near, other)]
        assert server.find_listeners(near.getsockname()[1]) == {inodes[0]: True}
        assert server.find_listeners(other.getsockname()[1]) == {inodes[1]: False}
        assert server.sockets_of([os.getpid()]) >= set(inodes)


def test_interrupted_runs_leave_nothing():
    """Ctrl-C at any moment, also twice, and SIGKILL of the runner: no process and no file is left."""
    token, place = secrets.token_hex(8), tempfile.mkdtemp(prefix="hr-")
    environment = {**os.environ, MARK: token, "TMPDIR": place}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'exporter'}"
    ends = [(0.2, signal.SIGINT), (0.5, signal.SIGKILL), (0.8, signal.SIGINT), (1.1, signal.SIGKILL)]
    runners = [
        subprocess.Popen([sys.executable, "-c", RUNNER], env=environment, cwd=ROOT, stderr=subprocess.DEVNULL)
        for _ in ends
    ]
    real_uwsgi.wait_until(lambda: len(os.listdir(place)) == len(ends), what="all runs to begin")
    began, most = time.monotonic(), 0
    for (after, sign), runner in zip(ends, runners, strict=True):
        time.sleep(max(0.0, began + after - time.monotonic()))
        most = max(most, len(marked(token)))
        runner.send_signal(sign)
        if sign == signal.SIGINT:
            runner.send_signal(sign)
    statuses = [runner.wait(60) for runner in runners]
    real_uwsgi.wait_until(lambda: not marked(token) and not os.listdir(place), what="everything to end")
    assert most > 2 * len(ends)  # the runners, their guards, and more
    assert -signal.SIGKILL in statuses
    os.rmdir(place)
