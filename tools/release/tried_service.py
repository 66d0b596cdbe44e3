"""Runs the command of the packaged service on a minimal Debian, beside a real uWSGI, and checks its metrics."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from app.loopback import free_port, get
from tools.machine import Machine

REQUESTS = 37
WORKERS = 2
READY_SECONDS = 60.0
USER = "nobody"  # as unprivileged as the user that DynamicUser= makes

_UNIT = "usr/lib/systemd/system/uwsgi-headroom.service"
_APPLICATION = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'ok']\n"
_FIGURE = re.compile(r"^(\w+)(\{[^}]*\})? (\S+)$", re.MULTILINE)


class FailedError(Exception):
    """The package does not work as promised; the message says what is wrong."""


def output(bare: Machine, *words: str) -> str:
    """Returns what a command prints. Raises `FailedError` if it fails."""
    ran = subprocess.run(bare.command(words), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if ran.returncode:
        raise FailedError(f"{' '.join(words)}: status {ran.returncode}: {ran.stderr.strip() or ran.stdout.strip()}")
    return ran.stdout


def command_of(unit: str) -> list[str]:
    """Returns the words of ExecStart= of a unit."""
    (line,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    return str(line).split()


def total(metrics: str, name: str) -> float:
    """Returns the sum of a metric's series."""
    return sum(float(value) for found, _, value in _FIGURE.findall(metrics) if found == name)


def check_service(bare: Machine, history: Path) -> None:
    """Runs uWSGI and the service's command, sends requests, and compares. Raises `FailedError`."""
    (bare.root / "srv/app.py").write_text(_APPLICATION)
    (bare.root / "run/uwsgi").mkdir(parents=True, exist_ok=True)
    output(bare, "install", "-d", "-o", "www-data", "/run/uwsgi")
    inside = "/" + str(history.relative_to(bare.root))
    output(bare, "install", "-d", "-m", "755", "/var/lib/private")
    output(bare, "install", "-d", "-o", USER, str(Path(inside).parent))
    # systemd makes this link for a unit with DynamicUser= and StateDirectory=.
    output(bare, "ln", "-s", "private/uwsgi-headroom", "/var/lib/uwsgi-headroom")
    http, port = free_port(), free_port()
    words = command_of((bare.root / _UNIT).read_text())
    settings = [f"UWSGI_HEADROOM_HISTORY={inside}", f"UWSGI_HEADROOM_WEB_LISTEN_ADDRESS=127.0.0.1:{port}"]
    with _running(bare, _uwsgi(http)), _running(bare, ["env", *settings, *_as(USER), *words]):
        _wait(lambda: get(http, "/") == "ok", "uWSGI does not answer")
        _wait(lambda: total(get(port, "/metrics") or "", "uwsgi_up") == 1, "uwsgi_up is not 1")
        before = total(get(port, "/metrics") or "", "uwsgi_worker_requests_total")
        for _ in range(REQUESTS):
            if get(http, "/", timeout=30) != "ok":
                raise FailedError("a request failed")
        _wait(lambda: _counted(port) - before == REQUESTS, f"{REQUESTS} requests were not counted")
        metrics = get(port, "/metrics") or ""
        workers = {labels for name, labels, _ in _FIGURE.findall(metrics) if name == "uwsgi_worker_requests_total"}
        if len(workers) != WORKERS:
            raise FailedError(f"{len(workers)} workers instead of {WORKERS}")
        _wait(history.is_file, "no history was written")


def _uwsgi(port: int) -> list[str]:
    options = ["--plugin", "python3", "--master", "--processes", str(WORKERS), "--wsgi-file", "/srv/app.py"]
    where = [
        "--http-socket",
        f"127.0.0.1:{port}",
        "--stats",
        "/run/uwsgi/shop.stats",
        "--chmod-socket=660",
        "--die-on-term",
    ]
    return [*_as("www-data"), "/usr/bin/uwsgi-core", *options, *where]


def _as(user: str) -> list[str]:
    """The words before a command that run it as `user`, in the group that may use the stats socket."""
    return ["setpriv", f"--reuid={user}", "--regid=www-data", "--clear-groups", "--no-new-privs"]


def _counted(port: int) -> float:
    return total(get(port, "/metrics") or "", "uwsgi_worker_requests_total")


@contextlib.contextmanager
def _running(bare: Machine, words: list[str]) -> Iterator[None]:
    """Runs a command during the block. If the block fails, adds the end of the command's output to the message."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(bare.command(words), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        try:
            yield
        except FailedError as error:
            said.seek(0)
            raise FailedError(f"{error}\n{' '.join(words)}:\n{said.read()[-2000:]}") from error
        finally:
            process.terminate()
            try:
                process.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(ready: Callable[[], object], otherwise: str) -> None:
    end = time.monotonic() + READY_SECONDS
    while not ready():
        if time.monotonic() > end:
            raise FailedError(f"after {READY_SECONDS:g} s: {otherwise}")
        time.sleep(0.2)
