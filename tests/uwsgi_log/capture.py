"""Captures uWSGI's messages from one uWSGI: `UWSGI=PATH python3 -m tests.uwsgi_log.capture`.

Writes the part of `captured.log` for this version: for each known message that could be provoked, the first line with
it. Other lines are left out, those of requests and of the application above all, and directories are those of a made-up
machine. How the versions are built: `tests/fixtures/capture.py`.
"""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.real_uwsgi import accepting, bare, uwsgi_binary
from uwsgi_headroom.stats import decode
from uwsgi_headroom.uwsgi_log.scan import Scanner

CAPTURED = Path(__file__).with_name("captured.log")
SECONDS = 20.0


APP = """
import os, sys, time
import uwsgi

def application(environ, start_response):
    path = environ.get("PATH_INFO", "")
    if path == "/error":
        raise KeyError("secret")
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


def seen_in(log):
    return {seen.code for seen in Scanner().scan(log.read_bytes() + b"\n")}


def send(address, data, *, waits=True):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as client:
        client.settimeout(20)
        client.connect(address)
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b"")) if waits else b""
    return b""


def get(server, path, head="", *, waits=True):
    return send(("127.0.0.1", server.http), f"GET {path} HTTP/1.0\r\n{head}\r\n".encode(), waits=waits)


def packet(modifier=0, **variables):
    body = b"".join(struct.pack("<H", len(text)) + text.encode() for pair in variables.items() for text in pair)
    return struct.pack("<BHB", modifier, len(body), 0) + body


def worker_pids(server):
    snapshot = decode(server.document())
    return [worker.pid for worker in snapshot.workers if worker.pid and worker.accepting]


@contextlib.contextmanager
def serving(app, *options):
    with accepting("--wsgi-file", str(app), *options) as server:
        yield server


def read_captured():
    """The captured lines by version, which is in the first of them."""
    parts = re.split(r"^(?=\*\*\* Starting uWSGI (\S+) )", CAPTURED.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def main():
    version = subprocess.run([uwsgi_binary(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        texts = list(provoke(Path(folder)))
    lines = dict(pair for text in texts for pair in _known_lines(text))
    codes = sorted(lines, key=lambda code: (code != "started", code))
    captured = read_captured() | {version: b"".join(lines[code] for code in codes).decode()}
    CAPTURED.write_text("".join(captured.values()))
    print(f"{version}: {len(lines)} messages")


def _known_lines(text):
    """The known messages of a log, each with its line; of a traceback and a request, nothing."""
    scanner = Scanner()
    for line in text.splitlines(keepends=True):
        for seen in scanner.scan(line):
            if seen.code not in ("traceback", "status_5xx"):
                yield seen.code, re.sub(rb"/\S*/headroom-\w+|/tmp/\w+", b"/srv/shop", line)


def provoke(folder):
    app, broken, touched, ini = (folder / name for name in ("shop.py", "broken.py", "touched", "uwsgi.ini"))
    app.write_text(APP)
    broken.write_text("import os\nimport missing_module\n")
    touched.touch()
    serve = ("--wsgi-file", str(app))
    options = ("--limit-post", "10", "--harakiri", "2", "--cache2", "name=default,items=5", "--listen", "4")
    with accepting(*serve, *options, "--processes", "2") as server:
        _refuse(server)
        _end_workers(server)
        _fill_queue(server)
        yield _end(server)
    mercy = ("--lazy-apps", "--touch-chain-reload", str(touched), "--worker-reload-mercy", "1")
    with accepting(*serve, *mercy, "--processes", "2") as server:
        get(server, "/sleep", waits=False)
        _await(server.log, "chain_reload_ended", lambda: os.utime(touched, (time.time() + 9, time.time() + 9)))
        yield _end(server)
    with accepting(*serve, "--processes", "2") as server:
        get(server, "/")
        _await(server.log, "resumed", lambda: os.kill(server.pid, signal.SIGTSTP), pause=1.5)
        _await(server.log, "master_reloaded", lambda: os.kill(server.pid, signal.SIGHUP), pause=3.0)
        yield _end(server)
    places = ("--socket", "{directory}/a", "--stats", "{directory}/stats")
    with bare("--master", "--wsgi-file", str(broken), *places) as it:
        send(str(it.directory / "a"), packet(REQUEST_METHOD="GET"))
        yield _end(it)
    http = ("--http-socket", "127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield _run("--http-socket", f"127.0.0.1:{taken.getsockname()[1]}", *serve)
    ini.write_text("[uwsgi]\nprocceses = 2\n")
    yield _run(*http, *serve, "--listen", "1000000")
    yield _run(*http, "--strict", "--ini", str(ini))
    yield _run(*http, "--plugin", "nosuchplugin", "--need-plugin", "nosuchplugin2")
    yield _run(*http, "--chdir", "/nonexistent")
    yield _run(*http, "--need-app", "--wsgi-file", str(broken))
    yield _run(*http, "--master", "--lazy-apps", "--need-app", "--wsgi-file", str(broken))
    yield _run(*http, "--harakiri", "5", "--wsgi-file", str(app), "--callable", "missing")


def _refuse(server):
    get(server, "/", f"Cookie: {'x' * 5000}\r\n")
    for data in (
        struct.pack("<BHB", 0, 20_000, 0) + b"x" * 3000,
        packet(5, REQUEST_METHOD="GET"),
        packet(REQUEST_METHOD="POST", CONTENT_LENGTH="100"),
        struct.pack("<BHB", 0, 4, 0) + b"\xff\x00ab",
        packet(),
    ):
        send(server.socket, data)
    send(("127.0.0.1", server.http), b"GET / HTTP/1.1\r\nHo", waits=False)
    with socket.create_connection(("127.0.0.1", server.http)) as client:
        client.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        client.recv(10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _await(server.log, "write_error")  # before its worker is ended
    get(server, "/cache")
    _await(server.log, "cache_full")


def _end_workers(server):
    first, second = worker_pids(server)
    os.kill(first, signal.SIGKILL)
    _await(server.log, "killed_by_signal")
    os.kill(second, signal.SIGSEGV)
    _await(server.log, "segmentation_fault")
    get(server, "/sleep")
    _await(server.log, "harakiri")


def _fill_queue(server):
    time.sleep(2.0)  # until both workers are there again
    pids = worker_pids(server)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    clients = [socket.create_connection(("127.0.0.1", server.http)) for _ in range(5)]
    _await(server.log, "listen_queue_full")
    for client in clients:
        client.close()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def _await(log, code, act=lambda: None, pause=0.5):
    """Waits for a message, and acts again and again until then; not without end, since a version may lack it."""
    end = time.monotonic() + SECONDS
    while code not in seen_in(log) and time.monotonic() < end:
        act()
        time.sleep(pause)


def _end(server):
    os.kill(server.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(SECONDS)
    return server.log.read_bytes()


def _run(*options):
    command = [uwsgi_binary(), *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=8, check=False, env={**os.environ, "LC_ALL": "C"})
        return done.stdout + done.stderr + b"\n"
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"") + (error.stderr or b"") + b"\n"


if __name__ == "__main__":
    main()
