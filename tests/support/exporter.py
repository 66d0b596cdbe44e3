"""The exporter as its users run it: a process, its flags, its log, its HTTP."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.real_uwsgi import accepts, free_port, wait_until

COMMAND = (sys.executable, "-m", "uwsgi_headroom")


@dataclass(frozen=True)
class Exporter:
    """A running exporter. `log` is the file of its standard error."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def get(self, path: str = "/metrics") -> tuple[int, str]:
        """One request: its status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def scrape(self) -> dict[str, float]:
        """Every series of one scrape, as it stands in the text, with its value."""
        status, body = self.get()
        assert status == 200
        pairs = [line.rpartition(" ") for line in body.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in pairs}

    def lines(self, *words: str) -> list[str]:
        """Lines of the log that hold all these words."""
        return [line for line in self.log.read_text().splitlines() if all(word in line for word in words)]


@contextlib.contextmanager
def exporter(*arguments: str, port: int = 0) -> Iterator[Exporter]:
    """Run the exporter with these arguments until the block ends, on a port or any."""
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="exporter-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [*COMMAND, *arguments, "--web.listen-address", f"127.0.0.1:{port}"],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env=clean_environment(),
            )
        try:
            wait_until(lambda: process.poll() is not None or accepts(("127.0.0.1", port)), what="the exporter")
            assert process.poll() is None, log.read_text()
            yield Exporter(process, port, log)
        finally:
            process.kill()
            process.wait(10)


def run(*arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    """Run the exporter's command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=timeout, check=False, env=clean_environment()
    )


def clean_environment() -> dict[str, str]:
    """The environment without settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("UWSGI_HEADROOM_")}
