"""`make demo` shows figures until it is told to stop, then leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
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

METRICS = """\
# HELP uwsgi_worker_request_share The worker's part.
uwsgi_worker_request_share{server="demo",window="5m",worker_id="1"} 0.75
uwsgi_worker_request_share{window="5m",worker_id="2",server="demo"} 0.25
uwsgi_worker_request_share{server="another",window="5m",worker_id="1"} 1.0
uwsgi_concurrency{method="littles_law",server="demo",window="1m"} 9.0
uwsgi_concurrency{method="observed",server="demo",window="1m"} 3.04
uwsgi_concurrency{method="observed",server="demo",window="5m"} 8.0
uwsgi_headroom_ratio{limit="threads",server="demo",window="1m"} 10.5
uwsgi_headroom_ratio{limit="hottest_interpreter",server="demo",window="1m"} 2.5
uwsgi_threads_available{server="demo"} 32.0
"""

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


def test_figures_are_those_of_the_demo():
    """Shares, concurrency and the least headroom, of this server and no other."""
    line = "shares 75%/25%; concurrency 3.0 of 32 threads; headroom 2.5x, then hottest interpreter"
    assert demo.figures(METRICS) == line


@pytest.mark.parametrize("metrics", ["", "up 1\n", METRICS.replace("uwsgi_concurrency{", "x{")])
def test_no_figures_are_no_line(metrics):
    """What is not there yet is not shown as 0."""
    assert demo.figures(metrics) is None


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
        assert len(_processes_with(temporary)) >= 8  # uWSGI, 4 workers, the load, the exporter, the demo
        for each in signals:
            process.send_signal(each)
        assert process.wait(20) == 0
        said = output.read_text()
        assert f"http://127.0.0.1:{port}/metrics" in said
        assert "shares 75%/25%; concurrency 3.0 of 32 threads" in said
        assert said.endswith("\nstopped\n")
        assert _processes_with(temporary) == []
        assert list(temporary.iterdir()) == []


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
