"""The real exporter as a process of its own, for tests and benchmarks of what it does to a uWSGI.

Run as a program, `python3 -m tests.support.stoppable_exporter ARGUMENTS`, it is the exporter with an addition: after
SIGUSR1 it stops itself (SIGSTOP) in the middle of its next read, and after SIGUSR2 it kills itself there (SIGKILL):
connected, and nothing received yet, which is where a master is held.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import real_uwsgi


@dataclass(frozen=True)
class StoppableExporter:
    """A running exporter. `port` on loopback is where it serves."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str = "/metrics", timeout: float = 10) -> str:
        """What it answers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as answer:
            text: str = answer.read().decode()
            return text

    def value(self, name: str) -> float:
        """The one sample of a metric, labels left aside."""
        (line,) = [line for line in self.get().splitlines() if line.partition("{")[0].partition(" ")[0] == name]
        return float(line.rpartition(" ")[2])

    def stop(self) -> None:
        """SIGSTOP, and wait until it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        real_uwsgi.wait_until(self.is_stopped, what="the exporter to stop")

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def stop_in_next_read(self) -> None:
        """Return when it stands still with a connection that it has read nothing of."""
        os.kill(self.pid, signal.SIGUSR1)
        real_uwsgi.wait_until(self.is_stopped, what="the exporter to stop in a read")

    def die_in_next_read(self) -> None:
        """Return when it was killed with a connection that it has read nothing of."""
        os.kill(self.pid, signal.SIGUSR2)
        assert self.process.wait(20) == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL, which ends a stopped process too."""
        self.process.kill()
        self.process.wait(20)


@contextlib.contextmanager
def stoppable_exporter(*stats: str, stderr: int = subprocess.DEVNULL) -> Iterator[StoppableExporter]:
    """Run the exporter over these stats servers until the block ends, which begins when it has read them all."""
    port = real_uwsgi.free_port()
    command = [sys.executable, "-m", "tests.support.stoppable_exporter", "--web.listen-address", f"127.0.0.1:{port}"]
    command += [part for address in stats for part in ("--stats", address)]
    process = subprocess.Popen(
        command,
        cwd=real_uwsgi.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        start_new_session=True,
    )
    running = StoppableExporter(process, port)
    try:
        real_uwsgi.wait_until(
            lambda: process.poll() is not None or real_uwsgi.accepts(("127.0.0.1", port)), what="the exporter"
        )
        assert process.poll() is None, f"the exporter ended with {process.returncode}"
        running.get()
        yield running
    finally:
        running.kill()


def _main() -> int:
    # Imported here: tests that only start the exporter need none of it.
    from uwsgi_headroom import cli  # noqa: PLC0415
    from uwsgi_headroom.source import tcp, unix  # noqa: PLC0415

    armed: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: armed.append(signal.SIGSTOP))
    signal.signal(signal.SIGUSR2, lambda *_: armed.append(signal.SIGKILL))
    receive = unix.receive

    async def stand_still(sock: socket.socket, size_cap: int) -> bytes:
        if armed:
            os.kill(os.getpid(), armed.pop())
        return await receive(sock, size_cap)

    unix.receive = tcp.receive = stand_still
    return cli.main()


if __name__ == "__main__":
    sys.exit(_main())
