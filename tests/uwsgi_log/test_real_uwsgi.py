"""A real uWSGI writes the known messages, and its processes and counters agree with them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_uwsgi import Uwsgi, accepting, accepts, bare, uwsgi_binary, wait_until
from uwsgi_headroom.stats import Snapshot, decode
from uwsgi_headroom.uwsgi_log.scan import Scanner, Seen

pytestmark = pytest.mark.integration

APP = """
import os, sys, time
import uwsgi

def application(environ, start_response):
    path = environ.get("PATH_INFO", "")
    if path == "/error":
        raise KeyError("secret")
    if path == "/forge":
        sys.stderr.write("DAMN ! worker 1 (pid: 1) died, killed by signal 11 :( trying respawn ...\\n" * 20)
        sys.stderr.write("invalid HTTP request size (max 4096)...skip\\n" * 20)
        sys.stderr.flush()
    if path == "/sleep":
        time.sleep(60)
    if path == "/cache":
        for number in range(20):
            uwsgi.cache_set(f"key{number}", b"x")
    if path == "/large":
        start_response("200 OK", [])
        return [b"x" * 65536] * 100
    start_response("200 OK", [])
    return [b"ok"]
"""


def seen_in(log: Path) -> set[str]:
    return {seen.code for seen in Scanner().scan(log.read_bytes() + b"\n")}


def wait_for(log: Path, *codes: str, seconds: float = 20.0) -> None:
    """Waits until a log has all of these messages."""
    wait_until(lambda: set(codes) <= seen_in(log), seconds, f"{codes} in {log.read_text()[-3000:]}")


def send(address: str | tuple[str, int], data: bytes, *, waits: bool = True) -> bytes:
    """Sends bytes and returns the answer, empty if the connection is closed without one."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as client:
        client.settimeout(20)
        client.connect(address)
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b"")) if waits else b""
    return b""


def get(server: Uwsgi, path: str, head: str = "", *, waits: bool = True) -> bytes:
    return send(("127.0.0.1", server.http), f"GET {path} HTTP/1.0\r\n{head}\r\n".encode(), waits=waits)


def packet(modifier: int = 0, **variables: str) -> bytes:
    """A request in the uwsgi protocol."""
    body = b"".join(struct.pack("<H", len(text)) + text.encode() for pair in variables.items() for text in pair)
    return struct.pack("<BHB", modifier, len(body), 0) + body


def worker_pids(server: Uwsgi) -> list[int]:
    snapshot = decode(server.document())
    assert isinstance(snapshot, Snapshot)
    return [worker.pid for worker in snapshot.workers if worker.pid and worker.accepting]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "shop.py"
    path.write_text(APP)
    return path


@contextlib.contextmanager
def serving(app: Path, *options: str) -> Iterator[Uwsgi]:
    with accepting("--wsgi-file", str(app), *options) as server:
        yield server


def test_requests_that_are_refused(app: Path) -> None:
    """Heads, bodies and packets that uWSGI refuses, each with its message."""
    with serving(app, "--limit-post", "10") as server:
        get(server, "/", f"Cookie: {'x' * 5000}\r\n")
        wait_for(server.log, "head_too_large")
        send(server.socket, struct.pack("<BHB", 0, 20_000, 0) + b"x" * 3000)
        assert Seen("head_too_large", limit=4096) in Scanner().scan(server.log.read_bytes())
        send(server.socket, packet(5, REQUEST_METHOD="GET"))
        send(server.socket, packet(REQUEST_METHOD="POST", CONTENT_LENGTH="100"))
        send(server.socket, struct.pack("<BHB", 0, 4, 0) + b"\xff\x00ab")
        send(("127.0.0.1", server.http), b"GET / HTTP/1.1\r\nHo", waits=False)
        send(server.socket, packet())
        wait_for(server.log, "modifier_unavailable", "body_too_large", "bad_packet", "head_aborted", "empty_request")


def test_clients_that_leave(app: Path) -> None:
    """A client that leaves while its answer is written."""
    with serving(app) as server:
        with socket.socket() as client:
            client.connect(("127.0.0.1", server.http))
            client.sendall(b"GET /large?token=secret HTTP/1.0\r\n\r\n")
            client.recv(10)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_for(server.log, "write_error")
        get(server, "/error")

        def places() -> set[str]:
            return {seen.place for seen in Scanner().scan(server.log.read_bytes()) if seen.code == "traceback"}

        wait_until(
            lambda: any("KeyError at " in place and "shop.py:8" in place for place in places()), what="the place"
        )


def test_workers_that_end(app: Path) -> None:
    """Workers that are killed, that crash and that take too long."""
    with serving(app, "--processes", "2", "--harakiri", "2") as server:
        first, second = worker_pids(server)
        os.kill(first, signal.SIGKILL)
        wait_for(server.log, "killed_by_signal", "worker_spawned")
        os.kill(second, signal.SIGSEGV)
        wait_for(server.log, "segmentation_fault")
        get(server, "/sleep")
        wait_for(server.log, "harakiri")
        found = Scanner().scan(server.log.read_bytes())
        assert any(seen.code == "killed_by_signal" and seen.pid == first and seen.signal == 9 for seen in found)
        assert any(seen.code == "segmentation_fault" and seen.pid == second for seen in found)


def test_reloads_and_pauses(app: Path, tmp_path: Path) -> None:
    """A graceful reload, a chain reload, a worker that gets no more mercy, a pause, and a stop."""
    touched = tmp_path / "touched"
    touched.touch()
    options = ("--lazy-apps", "--touch-chain-reload", str(touched), "--worker-reload-mercy", "1", "--processes", "2")
    with serving(app, *options) as server:
        get(server, "/sleep", waits=False)
        wait_until(lambda: b'"in_request":1' in server.document())
        later = time.time()
        while "file_touched" not in seen_in(server.log):  # the first look of the master may come after the touch
            later += 2
            os.utime(touched, (later, later))
            time.sleep(0.5)
        wait_for(server.log, "chain_reload_ended", "mercy_kill", seconds=30)

    with serving(app, "--processes", "2", "--worker-reload-mercy", "2") as server:
        get(server, "/")
        while "reload_began" not in seen_in(server.log):  # a master that has just begun may miss it
            os.kill(server.pid, signal.SIGHUP)
            time.sleep(0.5)
        wait_for(server.log, "reload_began", "worker_buried", "master_reloaded")
        wait_until(lambda: accepts(server.stats) and len(worker_pids(server)) == 2)
        os.kill(server.pid, signal.SIGTSTP)
        wait_for(server.log, "paused")
        os.kill(server.pid, signal.SIGTSTP)
        wait_for(server.log, "resumed")
        os.kill(server.pid, signal.SIGTERM)
        wait_for(server.log, "stop_began", "ended")


def test_a_brutal_reload(app: Path) -> None:
    """SIGTERM without `die-on-term` reloads brutally."""
    options = ["--master", "--wsgi-file", str(app), "--http-socket", "127.0.0.1:0", "--stats", "{directory}/stats"]
    directory = app.parent
    log = directory / "log"
    with log.open("wb") as file:
        command = [uwsgi_binary(), *(option.replace("{directory}", str(directory)) for option in options)]
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    try:
        wait_for(log, "started", "worker_spawned")
        # Until it accepts requests, a worker misses the signal of its master.
        wait_until(lambda: b'"accepting":1' in send(str(directory / "stats"), b""))
        process.terminate()
        wait_for(log, "brutal_reload", "master_reloaded")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_queues_that_are_full(app: Path) -> None:
    """A cache without room, and a TCP listen queue that nobody takes from."""
    with serving(app, "--cache2", "name=default,items=5", "--listen", "4") as server:
        get(server, "/cache")
        wait_for(server.log, "cache_full")
        os.kill(worker_pids(server)[0], signal.SIGSTOP)
        clients = [socket.create_connection(("127.0.0.1", server.http)) for _ in range(5)]
        try:
            wait_for(server.log, "listen_queue_full")
        finally:
            for client in clients:
                client.close()
            os.kill(worker_pids(server)[0], signal.SIGCONT)


def test_an_application_that_cannot_be_loaded(tmp_path: Path) -> None:
    """The log names the type of the exception, and the file and line that raised it."""
    (tmp_path / "broken.py").write_text("import os\nimport missing_module\n")
    options = ("--master", "--wsgi-file", str(tmp_path / "broken.py"), "--socket", "{directory}/app")
    with bare(*options, "--stats", "{directory}/stats") as server:
        wait_for(server.log, "application_not_loaded", "no_application_loaded")
        send(server.socket, packet(REQUEST_METHOD="GET", REQUEST_URI="/?key=secret"))
        wait_for(server.log, "no_python_application")
        (seen,) = (each for each in Scanner().scan(server.log.read_bytes()) if each.code == "application_not_loaded")
        assert seen.place.startswith("ModuleNotFoundError at ")
        assert seen.place.endswith("broken.py:2")


def run(*options: str, seconds: float = 10.0) -> set[str]:
    """The messages of a uWSGI that ends by itself, or is ended."""
    command = [uwsgi_binary(), *options]
    try:
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False, env=environment)
        output = done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"") + (error.stderr or b"")
    return {seen.code for seen in Scanner().scan(output + b"\n")}


def test_starts_that_fail(app: Path, tmp_path: Path) -> None:
    """A start that ends uWSGI says why."""
    broken = tmp_path / "broken.py"
    broken.write_text("import missing_module\n")
    http = ("--http-socket", "127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "bind_failed" in run("--http-socket", f"127.0.0.1:{port}", "--wsgi-file", str(app))
    assert "queue_above_somaxconn" in run(*http, "--wsgi-file", str(app), "--listen", "1000000")
    assert "unknown_option" in run(*http, "--strict", "--ini", str(_ini(tmp_path, "[uwsgi]\nprocceses = 2\n")))
    assert "plugin_missing" in run(*http, "--plugin", "nosuchplugin", "--need-plugin", "nosuchplugin2")
    assert "directory_missing" in run(*http, "--chdir", "/nonexistent")
    assert {"no_application_loaded", "application_not_loaded"} <= run(*http, "--need-app", "--wsgi-file", str(broken))
    ends = run(*http, "--master", "--lazy-apps", "--need-app", "--wsgi-file", str(broken))
    assert {"failed_in_worker", "need_app_ends"} <= ends
    assert "no_master" in run(*http, "--wsgi-file", str(app), "--http-socket", "127.0.0.1:99999999")


def _ini(folder: Path, text: str) -> Path:
    path = folder / "uwsgi.ini"
    path.write_text(text)
    return path
