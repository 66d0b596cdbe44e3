"""`make demo` shows figures until it is told to stop, then leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from app import demo
from app.environments import ROOT, SetupError
from tests import real
from tests.monitoring import Alertmanager, Prometheus

# The set-up of environments is tested apart; here it is skipped, and the exporter has a stand-in.
DRIVER = """\
import sys
from pathlib import Path
from app import demo, environments
uwsgi, exporter, port = sys.argv[1:]
environments.project = lambda extras: environments.Environment(Path(exporter))
environments.Environment.program = lambda self, name: self.path
environments.uwsgi_for_demo = lambda: Path(uwsgi)
sys.exit(demo.main(["--port", port]))
"""


def test_taken_port_ends_the_demo_before_anything_is_set_up():
    """The message names the port and how to choose another one; the status is not 0."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-m", "app.demo", "--port", str(port)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert f"port {port} on 127.0.0.1 cannot be used" in ended.stderr
    assert "make demo PORT=9300" in ended.stderr


def test_impossible_port_is_refused():
    with pytest.raises(SetupError, match="port 123456 "):
        demo.refuse_taken(123456)


@pytest.mark.integration
@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_demo_runs_until_a_signal_and_leaves_nothing(signals):
    """It says the addresses and shows figures; after Ctrl-C, impatient or not, no process or file is left."""
    port = real.free_port()
    with _demo(port) as (process, output, temporary):
        real.wait_until(lambda: "concurrency 3.0 of 32" in output.read_text(), what="the first figures")
        assert len(_processes_with(temporary)) >= 10  # uWSGI, 4 workers, load, exporter, Prometheus, Alertmanager, demo
        for each in signals:
            process.send_signal(each)
        assert process.wait(20) == 0
        said = output.read_text()
        assert f"http://127.0.0.1:{port}/metrics" in said
        assert "shares 75%/25%; concurrency 3.0 of 32 threads" in said
        assert re.search(r"Prometheus +http://127\.0\.0\.1:\d+/", said)
        assert re.search(r"Alertmanager http://127\.0\.0\.1:\d+/api/v2/alerts", said)
        assert said.endswith("\nstopped\n")
        assert _processes_with(temporary) == []
        assert list(temporary.iterdir()) == []


@pytest.mark.integration
def test_demo_shows_the_alerts_of_its_exporter():
    """The addresses that it prints are those of a Prometheus that scrapes it, with every shipped rule in order, and of
    an Alertmanager that this Prometheus knows.
    """
    with _demo(real.free_port()) as (_, output, _):
        real.wait_until(lambda: "Ctrl-C ends everything" in output.read_text(), what="the addresses")
        ports = dict(re.findall(r"(Prometheus|Alertmanager) +http://127\.0\.0\.1:(\d+)/", output.read_text()))
        prometheus = Prometheus(int(ports["Prometheus"]))
        prometheus.wait_for('uwsgi_threads_available{job="uwsgi", server="demo"}')
        assert prometheus.unwell() == {}
        assert Alertmanager(int(ports["Alertmanager"])).alerts("UwsgiDown") == []


@pytest.mark.integration
def test_demo_goes_on_without_prometheus(monkeypatch):
    """Where it is neither there nor to be had, one line says what to install."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with _demo(real.free_port()) as (_, output, _):
        real.wait_until(lambda: "concurrency 3.0 of 32" in output.read_text(), what="the first figures")
        told = "not here     alertmanager and prometheus (apt-get install --no-install-recommends "
        assert told + "prometheus-alertmanager prometheus)" in output.read_text()
        assert "Prometheus  " not in output.read_text()


@pytest.mark.integration
def test_demo_ends_when_one_of_its_programs_does():
    """A uWSGI that cannot start is reported with the end of its log, and nothing is left."""
    with _demo(real.free_port(), uwsgi=Path("/bin/false")) as (process, output, temporary):
        assert process.wait(20) == 1
        assert "make demo: uwsgi ended (status 1)" in output.read_text()
        assert _processes_with(temporary) == []
        assert list(temporary.iterdir()) == []


@contextlib.contextmanager
def _demo(port: int, uwsgi: Path | None = None) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """A demo that runs: its process, the file it writes to, and its only directory for temporary files."""
    with tempfile.TemporaryDirectory() as name:
        temporary, output, exporter = (Path(name) / each for each in ("t", "output", "exporter"))
        temporary.mkdir()
        exporter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("stand_in.py")}" "$@"\n')
        exporter.chmod(0o755)
        with output.open("wb") as writing:
            process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, uwsgi or real.uwsgi_binary(), exporter, str(port)],
                cwd=ROOT,
                env={
                    **os.environ,
                    "TMPDIR": str(temporary),
                    "PYTHONPATH": str(Path(flask.__file__).parent.parent),
                },
                stdout=writing,
                stderr=writing,
            )
        try:
            yield process, output, temporary
        finally:
            process.terminate()
            process.wait(20)


def _processes_with(temporary: Path) -> list[int]:
    """The demo and the processes it has started: they all have its TMPDIR."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={temporary}".encode() in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return found
