"""Runs real uWSGI servers for tests, on loopback and UNIX sockets, and ends each by its pid."""

import contextlib
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
from msgspec import Struct
from msgspec.structs import force_setattr

from app import loopback
from tools.environments import ROOT

APP = Path(__file__).with_name("real_uwsgi_app.py")


def uwsgi_binary() -> str:
    """The path of the uWSGI under test: `UWSGI` if set, the one that `make test` builds from source, or that on
    PATH."""
    candidates = [
        os.environ.get("UWSGI"),
        str(ROOT / ".venv-uwsgi" / "bin" / "uwsgi"),
        str(Path(sys.executable).parent / "uwsgi"),
        shutil.which("uwsgi"),
    ]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise RuntimeError("no uwsgi to test against: run `make test`, or set UWSGI to its path")


_given: set[int] = set()


def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago, a different one each time and for each worker of pytest."""
    worker, workers = (
        int(os.environ.get("PYTEST_XDIST_" + name, default).removeprefix("gw"))
        for name, default in (("WORKER", "gw0"), ("WORKER_COUNT", "1"))
    )
    candidates = loopback.server_ports() or range(10_240, 65_536)
    ports = [port for port in candidates if port % workers == worker and port not in _given]
    for port in random.sample(ports, len(ports)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise RuntimeError("no TCP port is free for a server on this machine")


def wait_until(
    condition: Callable[[], object], seconds: float = 60.0, what: str = "condition", pause: float = 0.02
) -> None:
    """Polls `condition` until it is true; fails after `seconds`. The pause between two polls grows to a tenth of a
    second, because a poll may cost another process milliseconds of CPU."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
        pause = max(pause, min(1.1 * pause, 0.1))


def accepts(address: str | tuple[str, int]) -> bool:
    """Whether something listens at a UNIX path or a (host, port)."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except OSError:
            return False
        return True


def wrapped(directory: Path, binary: str, command: str) -> str:
    """A program that runs `binary` through `command`, for the argument `binary` of the functions below."""
    script = directory / "wrapped"
    script.write_text(f'#!/bin/sh\nexec {command} {binary} "$@"\n')
    script.chmod(0o755)
    return str(script)


def peer_pid(path: str) -> int:
    """The PID of the process that called listen(2) on a UNIX socket, in this process's PID namespace."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return int(struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


class Uwsgi(Struct, frozen=True):
    """A running uWSGI master. `stats` and `socket` are paths of UNIX sockets, `http` a loopback port."""

    process: subprocess.Popen[bytes]
    directory: Path
    stats: str
    socket: str
    http: int
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def document(self) -> bytes:
        """Reads the current stats document to its end."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(60)
            client.connect(self.stats)
            return b"".join(iter(lambda: client.recv(1 << 18), b""))


def sized(processes: int, threads: int) -> list[str]:
    """The options for so many workers with so many threads each."""
    return ["--processes", str(processes), *(["--threads", str(threads)] if threads > 1 else [])]


@contextlib.contextmanager
def uwsgi(*options: str, app: Path = APP, stats: bool = True, binary: str | None = None) -> Iterator[Uwsgi]:
    """Runs uWSGI with `options` (as on its command line) until the block ends.

    It serves `app` (a WSGI file) on a UNIX socket and over HTTP on loopback (`http-socket`, straight to the
    workers), with its stats on a UNIX socket unless `stats` is false. When the block begins, it has a worker: it serves
    stats from then on, and listens before.
    """
    directory = Path(tempfile.mkdtemp(prefix="headroom-"))  # short: a UNIX path holds 107 bytes
    server = _unstarted(directory)
    command = [binary or uwsgi_binary(), "--master", "--need-app", "--die-on-term", "--enable-threads"]
    command += ["--wsgi-file", str(app), "--socket", server.socket, "--http-socket", f"127.0.0.1:{server.http}"]
    command += ["--stats", server.stats] if stats else []
    ready = server.stats if stats else ("127.0.0.1", server.http)
    with _started(server, [*command, *options], ready):
        if not stats:
            wait_until(psutil.Process(server.pid).children, what="a worker")
        yield server


@contextlib.contextmanager
def accepting(*options: str, binary: str | None = None) -> Iterator[Uwsgi]:
    """Runs uWSGI and waits until all its workers accept requests."""
    with uwsgi(*options, binary=binary) as server:
        wait_for_workers(server)
        yield server


def wait_for_workers(server: Uwsgi) -> None:
    """Waits until all workers accept requests.

    A worker that is signalled earlier misses the signal, and the master waits for the worker in vain: a reload then
    hangs, and the server must be killed at the end.
    """
    wait_until(lambda: b'"accepting":0' not in server.document(), what="the workers to accept")


@contextlib.contextmanager
def bare(
    *options: str,
    files: Mapping[str, str] | None = None,
    binary: str | None = None,
    ready: tuple[str, int] | None = None,
    die_on_term: bool = True,
) -> Iterator[Uwsgi]:
    """Runs uWSGI with `options` and nothing else until the block ends: an emperor, a router.

    It runs in a directory that holds `files` (name to text) and must serve statistics on the socket `stats`
    there, or listen at `ready`. `{directory}` in an option is that directory.
    """
    directory = Path(tempfile.mkdtemp(prefix="headroom-"))
    for name, text in (files or {}).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    server = _unstarted(directory)
    command = [
        binary or uwsgi_binary(),
        *(["--die-on-term"] if die_on_term else []),
        *(option.replace("{directory}", str(directory)) for option in options),
    ]
    with _started(server, command, ready or server.stats):
        yield server


def _unstarted(directory: Path) -> Uwsgi:
    return Uwsgi(
        process=None,  # type: ignore[arg-type]  # set by _started, frozen otherwise
        directory=directory,
        stats=str(directory / "stats"),
        socket=str(directory / "app"),
        http=free_port(),
        log=directory / "log",
    )


@contextlib.contextmanager
def _started(uwsgi: Uwsgi, command: list[str], ready: str | tuple[str, int]) -> Iterator[None]:
    """Runs `command` until the block ends. The block begins when something listens at `ready`."""
    try:
        with running(command, lambda: accepts(ready), "uWSGI", cwd=uwsgi.directory, log=uwsgi.log) as process:
            force_setattr(uwsgi, "process", process)
            try:
                yield
            finally:
                _end_uwsgi(process)
    finally:
        shutil.rmtree(uwsgi.directory, ignore_errors=True)


def _end_uwsgi(process: subprocess.Popen[bytes]) -> None:
    """Ends uWSGI and its workers: with SIGINT until the master has ended, after three seconds with SIGKILL. The master
    notices the end of its workers once a second, or when a signal wakes it; a worker that has only just started may
    miss every SIGINT."""
    end = time.monotonic() + 3
    while process.poll() is None and time.monotonic() < end + 5:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT if time.monotonic() < end else signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)


@contextlib.contextmanager
def running(
    command: Sequence[str],
    ready: Callable[[], object],
    what: str,
    *,
    cwd: Path = ROOT,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program until the block ends. The block begins when `ready` is true, in 20 s at most; a program that ends
    before is an AssertionError with the end of its log. log: of its output; without it, that of this process."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log else None
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    try:
        wait_until(lambda: process.poll() is not None or ready(), 20.0, f"{what} to start")
        if process.poll() is not None:
            raise AssertionError(f"{what} ended with {process.returncode}:\n{log.read_text()[-2000:] if log else ''}")
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process group that this module has started: with SIGINT, then with SIGKILL."""
    for sign, seconds in ((signal.SIGINT, 5), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # workers that outlived their master
