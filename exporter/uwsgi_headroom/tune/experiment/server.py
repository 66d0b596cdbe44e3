"""Starts the server of a setup on loopback and waits until it is ready for a load.

It must listen on 127.0.0.1 only, and be the only one on its port: no load reaches a server that this module has not
started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uwsgi_headroom import stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.source import Unix, read_document
from uwsgi_headroom.tune.processes.guarded import Guarded, RunError, guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A server to measure."""

    name: str
    """Unique among the setups of one experiment, such as `4x8`."""
    command: tuple[str, ...]
    """Its words. `{port}` is replaced by a free port of 127.0.0.1 that it has to listen on, `{directory}` by a private
    directory of the run."""
    is_uwsgi: bool = True
    """Whether it is a uWSGI with a stats server on the UNIX socket `{directory}/stats`: only then figures are
    sampled."""
    cwd: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it gets beside those of this process."""
    withheld: tuple[str, ...] = ()
    """Names of variables of this process that it does not get."""


START_SECONDS = 60.0
"""How long a server may take until it is ready: an application may import for long on a busy machine."""

CLOSED = 0
"""In place of a status: the server closed the connection without a response."""

_FAILING_SECONDS = 3.0  # how long the first answers may be errors
_POLL_SECONDS = 0.02
_LONGEST_PATH = 107  # of a UNIX socket, in bytes
_LOWEST_PORT, _PORT_TRIES = 10_240, 100
_LISTENS = b"0A"  # the state TCP_LISTEN in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Server:
    guarded: Guarded
    port: int
    stats: Path | None
    """The socket of its stats server, None if it has none."""

    def wait_until_ready(self, path: str) -> None:
        """Return when the server answers a request of `path`, and all workers of a uWSGI accept requests.

        Raises `RunError` if that takes too long, if the server ends, or if another program listens on its port.
        """
        end = time.monotonic() + START_SECONDS
        self._wait(self._listens, end, "does not listen on its port")
        first_at = time.monotonic()
        status = None
        while status is None or (_is_failure(status) and time.monotonic() < first_at + _FAILING_SECONDS):
            self._check(end, f"does not answer a request of {path}")
            status = ask(self.port, path, min(5.0, end - time.monotonic()))
            time.sleep(_POLL_SECONDS)
        if _is_failure(status):
            self.guarded.refuse_if_ended()
            answer = f"answers {path} with status {status}" if status else f"closes the connection of {path} unanswered"
            raise RunError(f"{self.guarded.name} {answer}{self.guarded.last_words()}")
        self._wait(self._accepts, end, "has workers that do not accept requests")

    def _wait(self, condition: Callable[[], bool], end: float, what: str) -> None:
        while not condition():
            self._check(end, what)
            time.sleep(_POLL_SECONDS)

    def _check(self, end: float, what: str) -> None:
        self.guarded.refuse_if_ended()
        if time.monotonic() > end:
            raise RunError(f"{self.guarded.name} {what} after {START_SECONDS:g} s{self.guarded.last_words()}")

    def _listens(self) -> bool:
        """Whether this server, and no other program, listens on the port, and on loopback only."""
        listeners = find_listeners(self.port)
        own = sockets_of(self.guarded.pids())
        if others := listeners.keys() - own:
            time.sleep(_POLL_SECONDS)  # it may have closed the socket, or passed it on, while this process looked
            if others & find_listeners(self.port).keys() - sockets_of(self.guarded.pids()):
                raise RunError(f"Another program listens on port {self.port}, which was free a moment ago.")
        if not all(listeners.values()):
            raise RunError(f"{self.guarded.name} does not listen on 127.0.0.1 only: it is not loaded.")
        return bool(listeners)

    def _accepts(self) -> bool:
        if self.stats is None:
            return True
        try:
            answer = asyncio.run(read_document(Unix(str(self.stats)), timeout=2.0, size_cap=SIZE_CAP))
            snapshot = stats.decode(answer.body)
        except ReadError:
            return False
        return isinstance(snapshot, stats.Snapshot) and all(
            worker.accepting or worker.in_reserve for worker in snapshot.workers
        )


@contextlib.contextmanager
def running(setup: Setup, directory: Path, temporary: Path | None = None) -> Iterator[Server]:
    """Run the server of a setup during the block, with its log in `directory`. Raises `RunError`, OSError.

    temporary: as for `guarded`.
    """
    stats_path = directory / "stats"
    if len(os.fsencode(stats_path)) > _LONGEST_PATH:
        raise RunError(f"The directory {directory} has too long a name for a UNIX socket, whose path holds 107 bytes.")
    port = free_port()
    words = [word.replace("{port}", str(port)).replace("{directory}", str(directory)) for word in setup.command]
    with guarded(
        f"The server {setup.name}",
        words,
        log=directory / "log",
        temporary=temporary,
        cwd=setup.cwd,
        environment=make_environment(setup),
        # SIGTERM reloads uWSGI, unless it has the option die-on-term.
        stop=signal.SIGINT if setup.is_uwsgi else signal.SIGTERM,
    ) as process:
        yield Server(process, port, stats_path if setup.is_uwsgi else None)


def make_environment(setup: Setup) -> dict[str, str]:
    """Return the environment of a server: that of this process with what the setup changes."""
    kept = {name: value for name, value in os.environ.items() if name not in setup.withheld}
    return {**kept, **setup.environment}


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that was free a moment ago, if possible one that the kernel gives to no client."""
    ports = range(0)
    with contextlib.suppress(OSError, ValueError, IndexError):
        ports = range(_LOWEST_PORT, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    for wanted in (*random.sample(ports, min(_PORT_TRIES, len(ports))), 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", wanted))
            port: int = probe.getsockname()[1]
            return port
    raise RunError("All TCP ports of 127.0.0.1 are taken.")


def _is_failure(status: int) -> bool:
    return status == CLOSED or status >= 500


def ask(port: int, path: str, timeout: float) -> int | None:
    """Return the status of a GET request to 127.0.0.1; 0 if the server closes the connection without a response, as
    uWSGI does if the application raises; None if there is no answer at all. timeout: of each step, in seconds."""
    with contextlib.suppress(OSError, ValueError), socket.create_connection(("127.0.0.1", port), timeout) as client:
        client.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        line = b""
        while b"\n" not in line and len(line) < 4096 and (received := client.recv(4096)):
            line += received
        if not line:
            return CLOSED
        name, status, *_ = line.split(None, 2)
        return int(status) if name.startswith(b"HTTP/") else None
    return None


def find_listeners(port: int) -> dict[str, bool]:
    """Return the sockets that listen on a TCP port: whether each is bound to 127.0.0.1, by inode."""
    found = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", "rb") as file:
            for line in file:
                fields = line.split()
                address, _, number = fields[1].rpartition(b":")
                if fields[3] == _LISTENS and int(number, 16) == port:
                    found[fields[9].decode()] = address == b"%08X" % int.from_bytes(b"\x7f\0\0\1", "little")
    return found


def sockets_of(pids: list[int]) -> set[str]:
    """Return the inodes of the sockets that processes have open, as far as this user may see them."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if target.startswith("socket:["):
                        found.add(target[8:-1])
    return found
