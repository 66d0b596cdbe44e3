"""The exporter as its users run it: a process, its flags, its log, its HTTP, and what the kernel counts of it."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from tests.support.real_uwsgi import accepts, free_port, wait_until
from tools.environments import ROOT

COMMAND = (sys.executable, "-m", "uwsgi_headroom")
STOPPABLE_COMMAND = (sys.executable, "-m", "tests.support.stoppable_exporter")
"""The exporter, extended so that signals stop or kill it in the middle of a read."""


class Exporter(Struct, frozen=True):
    """A running exporter that serves on a port of 127.0.0.1. `log` is the file of its output and standard error."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str = "/metrics", timeout: float = 30, accept: str = "*/*") -> tuple[int, str]:
        """Makes a request; returns status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Accept": accept})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def metrics(self, timeout: float = 30, accept: str = "*/*") -> str:
        """The text of one scrape."""
        status, body = self.get(timeout=timeout, accept=accept)
        assert status == 200, body
        return body

    def scrape(self, timeout: float = 30) -> dict[str, float]:
        """Scrapes; returns the value of every series, by its text."""
        # Not splitlines(): a name may contain characters that Unicode, but not the format, treats as line ends.
        lines = self.metrics(timeout).removesuffix("\n").split("\n")
        pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _, value in pairs}

    def value(self, name: str) -> float:
        """The value of a metric's only sample, ignoring labels."""
        (value,) = [value for series, value in self.scrape().items() if series.partition("{")[0] == name]
        return value

    def lines(self, *words: str) -> list[str]:
        """Lines of the log that contain all these words."""
        return [line for line in self.log.read_text().splitlines() if all(word in line for word in words)]

    def stop(self) -> None:
        """Sends SIGSTOP, and waits until the exporter has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(self.is_stopped, what="the exporter to stop")

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def stop_in_next_read(self) -> None:
        """Returns when the exporter is stopped with a connection that it has not read from. Only
        `stoppable_exporter`."""
        os.kill(self.pid, signal.SIGRTMIN)
        wait_until(self.is_stopped, what="the exporter to stop in a read")

    def die_in_next_read(self) -> None:
        """Returns when the exporter was killed with a connection that it has not read from. Only
        `stoppable_exporter`."""
        os.kill(self.pid, signal.SIGUSR2)
        assert self.process.wait(60) == -signal.SIGKILL

    def kill(self) -> None:
        """Sends SIGKILL, which also ends a stopped process."""
        self.process.kill()
        self.process.wait(60)


@contextlib.contextmanager
def exporter(
    *arguments: str, port: int = 0, command: Sequence[str] = COMMAND, stderr: int | None = None
) -> Iterator[Exporter]:
    """Runs the exporter with these arguments until the block ends. port: 0 for any; stderr: a descriptor to use instead
    of the log.
    """
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="exporter-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *arguments, "--web.listen-address", f"127.0.0.1:{port}"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if stderr is None else stderr,
                env=clean_environment(),
                start_new_session=True,
            )
        running = Exporter(process, port, log)
        try:
            wait_until(lambda: process.poll() is not None or accepts(("127.0.0.1", port)), what="the exporter")
            assert process.poll() is None, f"the exporter ended with {process.returncode}: {log.read_text()}"
            yield running
        finally:
            running.kill()


@contextlib.contextmanager
def configured_exporter(
    servers: Sequence[Mapping[str, object]], *arguments: str, **settings: object
) -> Iterator[Exporter]:
    """Runs an exporter of these servers, given with the keys of the configuration file, until the block ends. settings:
    the other keys of that file."""
    with tempfile.TemporaryDirectory(prefix="configured-") as folder:
        path = Path(folder) / "config.yml"
        path.write_text(json.dumps({"servers": list(servers), **settings}))  # JSON is YAML
        with exporter("--config", str(path), *arguments) as running:
            yield running


@contextlib.contextmanager
def stoppable_exporter(*stats: str, stderr: int | None = None) -> Iterator[Exporter]:
    """Runs an exporter of these stats servers that can be stopped and killed in a read. The block begins when the
    exporter has read all of them.
    """
    arguments = [part for address in stats for part in ("--stats", address)]
    with exporter(*arguments, command=STOPPABLE_COMMAND, stderr=stderr) as running:
        running.metrics()
        yield running


def run(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs the exporter's command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=timeout, check=False, env=clean_environment()
    )


def clean_environment() -> dict[str, str]:
    """The environment, without settings of the user who runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("UWSGI_HEADROOM_")}


def peak_resident_bytes(pid: int) -> int:
    """The high-water mark of a process's resident memory in bytes (proc_pid_status(5))."""
    return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0])


def run_queue_seconds(pid: int) -> float:
    """Seconds since its start for which a process's main thread was ready to run while others had the CPUs (the
    kernel's sched-stats.rst); 0 if the kernel does not count them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
