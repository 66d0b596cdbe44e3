"""Starts the load and the exporter as separate processes, and ends them with the block."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.support.real_uwsgi import accepts, running
from tools.bench.accuracy.generator import Load, Record
from tools.bench.accuracy.truth import Truth
from tools.environments import ROOT

SERVER = "bench"
"""The name of the server in the exporter's labels."""


class Generator:
    """A running load."""

    def __init__(self, process: subprocess.Popen[str], file: Path) -> None:
        self._process = process
        self._file = file

    def go(self) -> None:
        self._say("go")

    def long(self, seconds: float) -> None:
        """Makes one more request, of that length, beside those of the clients."""
        self._say(f"long {seconds}")

    def stop(self) -> Truth:
        """Waits for the requests in flight; returns the records."""
        self._say("stop")
        self._process.wait(timeout=120)
        document = json.loads(self._file.read_text())
        return Truth(tuple(Record(*values) for values in document["records"]), tuple(document["failures"]))

    def _say(self, order: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def generator(load: Load, address: str | tuple[str, int]) -> Iterator[Generator]:
    """Yields a load on an address; the load begins with `go`."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as directory:
        file = Path(directory, "records")
        order = json.dumps({"address": address, "load": asdict(load), "file": str(file)})
        command = [sys.executable, "-m", "tools.bench.accuracy.generator", order]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True)
        try:
            yield Generator(process, file)
        finally:
            process.kill()
            process.wait()
            assert process.stdin
            process.stdin.close()


@contextlib.contextmanager
def exporter(stats: str, port: int, *options: str) -> Iterator[int]:
    """Runs the exporter of a stats socket on a loopback port; yields its PID once it listens."""
    command = [sys.executable, "-m", "uwsgi_headroom", "--stats", f"{SERVER}={stats}"]
    command += ["--web.listen-address", f"127.0.0.1:{port}", "--log.level", "warning", *options]
    with running(command, lambda: accepts(("127.0.0.1", port)), "the exporter") as process:
        yield process.pid
