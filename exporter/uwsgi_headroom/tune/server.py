"""Starts a server on loopback, waits until it is ready for a load, and reads how much CPU and memory it uses."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
from msgspec import Struct

from uwsgi_headroom import stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import HeadroomError, ReadError
from uwsgi_headroom.source import Unix, read_document
from uwsgi_headroom.tune.guard import children, die_with_parent, kill_descendants
from uwsgi_headroom.tune.load import FAILED, ask

START_SECONDS, FAILING_SECONDS, STOP_SECONDS = 60.0, 3.0, 5.0  # until it is ready, of first errors, until it has ended
STATS = "{directory}/stats"
_POLL_SECONDS, _TAIL_LINES = 0.05, 15


class RunError(HeadroomError):
    """A server cannot be measured: why, as a sentence. The details are the end of its log."""


class Server(Struct, frozen=True):
    name: str
    process: subprocess.Popen[bytes]
    address: tuple[str, int]
    directory: Path
    has_stats: bool

    def refuse_if_ended(self) -> None:
        """Raises RunError if the server has ended."""
        if (status := self.process.poll()) is not None:
            raise self._fail(f"ended ({f'status {status}' if status >= 0 else signal.Signals(-status).name})")

    def read_cpu(self) -> float:
        """The CPU seconds of its processes, and of those of them that have ended."""
        return sum(self._ask(lambda process: sum(process.cpu_times()[:4])))

    def read_memory(self) -> float:
        """The bytes of its processes together: a page that n of them share counts as a part of n (PSS). 0: unknown."""
        return sum(self._ask(lambda process: process.memory_full_info().pss))

    def _ask(self, question: Callable[[psutil.Process], float]) -> Iterator[float]:
        with contextlib.suppress(psutil.Error):
            master = psutil.Process(self.process.pid)
            for process in [master, *master.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    yield question(process)

    def wait_until_ready(self, path: str) -> None:
        """Return when all workers of a uWSGI accept requests, so that no other program has its port, and the server
        answers a request of `path`. Raises RunError."""
        end = time.monotonic() + START_SECONDS
        while self.has_stats and not self._accepts():
            self._wait(end, "has workers that do not accept requests")
        first = time.monotonic()
        while isinstance(answer := asyncio.run(ask(self.address, path, patience=5.0)), str) or answer >= FAILED:
            if answer not in ("refused", "timeout") and time.monotonic() > first + FAILING_SECONDS:
                how = "closes the connection" if isinstance(answer, str) else f"answers with status {answer}"
                raise self._fail(f"{how} at a request of {path}")
            self._wait(end, f"does not answer a request of {path}")
        self.refuse_if_ended()

    def _wait(self, end: float, what: str) -> None:
        self.refuse_if_ended()
        if time.monotonic() > end:
            raise self._fail(f"{what} after {START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)

    def _fail(self, what: str) -> RunError:
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        tail = [f"  | {line}" for line in dict.fromkeys(lines[-10 * _TAIL_LINES :])]  # a repeated one hides its cause
        return RunError(f"{self.name} {what}. The log of the server ends with:", tail[-_TAIL_LINES:])

    def _accepts(self) -> bool:
        with contextlib.suppress(ReadError):
            address = Unix(str(self.directory / "stats"))
            snapshot = stats.decode(asyncio.run(read_document(address, timeout=2.0, size_cap=SIZE_CAP)).body)
            workers = snapshot.workers if isinstance(snapshot, stats.Snapshot) else ()
            return bool(workers) and all(worker.accepting for worker in workers)
        return False


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a server during the block, with its log in `directory`; then end it and all that it started. In the command,
    `{port}` is the port of 127.0.0.1 on which it listens, and `STATS` its stats socket, if any. Raises RunError."""
    port, others = free_port(), children()
    words = [word.replace("{port}", str(port)).replace("{directory}", str(directory)) for word in command]
    try:
        with open(directory / "log", "wb") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches this process only, which ends the server in order
                preexec_fn=die_with_parent,  # noqa: PLW1509  there is one thread
            )
    except OSError as error:
        raise RunError(f"{words[0]} cannot be started: {error.strerror}.") from None
    try:
        yield Server(name, process, ("127.0.0.1", port), directory, any(STATS in word for word in command))
    finally:
        process.send_signal(signal.SIGINT)  # SIGTERM reloads some uWSGIs
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        kill_descendants(others)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago, if possible one that the kernel gives to no client."""
    ports = range(10_240, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    for wanted in (*random.sample(ports, min(100, len(ports))), 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", wanted))
            return int(probe.getsockname()[1])
    raise RunError("All TCP ports of 127.0.0.1 are taken.")
