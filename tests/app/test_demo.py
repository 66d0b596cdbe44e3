"""`make demo` shows figures until it is told to stop, or killed, then leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import flask
import psutil
import pytest

from app import demo, guard
from app.loopback import get
from app.scenes import SCENES
from tests.support import real_uwsgi
from tests.support.monitoring import Alertmanager, Prometheus
from tools import progress
from tools.environments import ROOT, SetupError

# The set-up of environments is tested apart; here it is skipped, and the exporter has a stand-in. `installs` is what
# stands in for pip, where there is any.
DRIVER = """\
import sys
from pathlib import Path
from tools import commands, environments; from app import demo
uwsgi, exporter, installs, *arguments = sys.argv[1:]
def project(extras):
    if installs:
        commands.run_command(["sh", "-c", installs])
    return environments.Environment(Path(exporter))
environments.project = project
environments.Environment.program = lambda self, name: self.path
environments.uwsgi_for_demo = lambda: Path(uwsgi)
sys.exit(demo.main(arguments[arguments.index("app.demo") + 1 :]))
"""

PIP = "echo > $TMPDIR/unpacked; echo > $TMPDIR/../beside; trap '' TERM; sleep 60 & sleep 60"
"""Leaves files, and has a child; neither heeds SIGTERM."""


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
    assert f"(process {os.getpid()}) listens on it" in ended.stderr
    assert "make demo PORT=9300" in ended.stderr


def test_impossible_port_is_refused():
    with pytest.raises(SetupError, match="port 123456 "):
        demo.refuse_taken(123456)


@pytest.mark.integration
@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_demo_runs_until_a_signal_and_leaves_nothing(signals):
    """It says the addresses and shows figures; after Ctrl-C, impatient or not, no process or file is left."""
    port = real_uwsgi.free_port()
    with _demo(port) as demo_:
        demo_.wait_for_figures()
        assert len(_processes_with(demo_.temporary)) >= 11  # the demo, its guard, 5 programs, 4 workers
        for each in signals:
            demo_.process.send_signal(each)
        assert demo_.process.wait(20) == 0
        said = demo_.said()
        assert f"http://127.0.0.1:{port}/metrics" in said
        assert "shares 75%/25%; 3.0 of 32 threads busy; headroom 2.5x" in said
        assert re.search(r"Prometheus +http://127\.0\.0\.1:\d+/", said)
        assert re.search(r"Alertmanager http://127\.0\.0\.1:\d+/api/v2/alerts", said)
        assert re.search(r"\n  stopping everything *\.* +\d+\.\d s\nstopped\n$", said)
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
def test_demo_shows_the_alerts_of_its_exporter(monkeypatch):
    """Every address that it prints answers, within 80 columns. They are those of a Prometheus that scrapes it, with
    every shipped rule in order, and of an Alertmanager that this Prometheus knows. Another demo is told of this one.
    """
    port = real_uwsgi.free_port()
    with _demo(port) as demo_:
        demo_.wait_for_figures()
        lines = [line for line in demo_.said().splitlines() if "http://" in line]
        assert len(lines) >= 6
        assert max(map(len, lines)) <= 80
        addresses = [address for line in lines for address in re.findall(r"http://127\.0\.0\.1:(\d+)(/\S*)", line)]
        for address, path in addresses:  # on a busy machine Prometheus may still be starting
            real_uwsgi.wait_until(lambda: get(int(address), path) is not None, what=f"{address}{path} to answer")  # noqa: B023
        ports = dict(re.findall(r"(Prometheus|Alertmanager) +http://127\.0\.0\.1:(\d+)/", demo_.said()))
        prometheus = Prometheus(int(ports["Prometheus"]))
        prometheus.wait_for('uwsgi_threads_available{job="uwsgi", server="demo"}')
        assert prometheus.unwell() == {}
        assert Alertmanager(int(ports["Alertmanager"])).alerts("UwsgiDown") == []
        monkeypatch.setattr(demo, "LEAVE", 0.0)
        with pytest.raises(SetupError, match=rf"another demo \(process {demo_.process.pid}\) listens on it"):
            demo.refuse_taken(port)


@pytest.mark.integration
def test_demo_goes_on_without_what_it_cannot_have(tmp_path):
    """It says at once why an Alertmanager does not start, and what to install for a Prometheus that is not there."""
    broken = tmp_path / "alertmanager"
    broken.write_text("#!/bin/sh\necho no template in /usr; exit 3\n")
    broken.chmod(0o755)
    with _demo(real_uwsgi.free_port(), path=str(tmp_path)) as demo_:
        demo_.wait_for_figures()
        said = demo_.said()
        lost = "  Going on without alertmanager, which ended (status 3). Its log ends with:\n  | no template in /usr\n"
        assert f"not done\n{lost}\n  live page" in said
        assert "  Going on without prometheus: this machine lacks prometheus, " in said
        assert "  | On Debian and Ubuntu: apt-get install --no-install-recommends prometheus\n" in said
        assert "Prometheus  " not in said
        assert "Alertmanager http" not in said


@pytest.mark.integration
def test_demo_ends_when_one_of_its_programs_does():
    """A uWSGI that cannot start is reported with the end of its log, and nothing is left."""
    with _demo(real_uwsgi.free_port(), uwsgi=Path("/bin/false")) as demo_:
        assert demo_.process.wait(20) == 1
        assert "make demo: uwsgi ended (status 1)" in demo_.said()
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
def test_demo_outlives_what_it_can_do_without():
    """Prometheus, Alertmanager and a worker of uWSGI are killed: it says so, where it matters, and goes on."""
    with _demo(real_uwsgi.free_port()) as demo_:
        demo_.wait_for_figures()
        (worker, *_) = demo_.find("uwsgi").children()
        for victim in (demo_.find("prometheus"), demo_.find("alertmanager"), worker):
            victim.kill()
        for name in ("prometheus", "alertmanager"):
            lost = f"Going on without {name}, which ended (SIGKILL)"
            real_uwsgi.wait_until(lambda lost=lost: lost in demo_.said(), what=f"the end of {name} to be said")
        assert demo_.process.poll() is None
        demo_.process.send_signal(signal.SIGINT)
        assert demo_.process.wait(20) == 0
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("uwsgi", "make demo: uwsgi ended (SIGKILL)"),
        ("load", "make demo: load ended (SIGKILL)"),
        ("exporter", "make demo: uwsgi-headroom ended (SIGKILL)"),
        ("guard", "make demo: its guard has ended"),
    ],
)
def test_demo_ends_with_what_it_needs(name, said):
    """One of its processes is killed: it says which, ends the others, and the status says that it failed."""
    with _demo(real_uwsgi.free_port(), path="/nonexistent") as demo_:
        demo_.wait_for_figures()
        demo_.find(name).kill()
        assert demo_.process.wait(20) == 1
        assert said in demo_.said()
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
@pytest.mark.parametrize("victim", ["demo", "make", "group"])
def test_killed_demo_leaves_nothing(victim):
    """Nor does it with its process group, nor a demo whose `make` was killed; and the next demo can start at once."""
    port = real_uwsgi.free_port()
    with _demo(port, make=True) as demo_:
        demo_.wait_for_figures()
        demo_.kill(victim)
        if victim != "make":  # with that the demo still ends in order
            demo.refuse_taken(port)
        demo_.expect_nothing_left(within=10)


@pytest.mark.parametrize("victim", ["demo", "make", "group", "guard", "pip"])
def test_demo_killed_during_the_installation_leaves_nothing(victim):
    """Neither pip's processes nor its temporary files, which it cannot remove itself. Without its guard it goes on to
    the end of the installation.
    """
    with _demo(
        real_uwsgi.free_port(), make=True, installs=PIP.replace("60", "0.5") if victim == "guard" else PIP
    ) as demo_:
        demo_.wait_for_installation()
        demo_.kill(victim)
        demo_.process.wait(20)
        demo_.expect_nothing_left(within=5)
        assert demo_.process.returncode != 0


def test_interrupt_during_the_installation_leaves_nothing():
    """Ctrl-C reaches `make` and the demo."""
    with _demo(real_uwsgi.free_port(), make=True, installs=PIP) as demo_:
        demo_.wait_for_installation()
        os.killpg(demo_.process.pid, signal.SIGINT)
        demo_.process.wait(20)
        demo_.expect_nothing_left(within=5)
        assert "stopped\n" in demo_.said()


def test_demo_whose_reader_has_gone_ends():
    """As in `make demo | head`: without a traceback, and nothing is left."""
    with _demo(real_uwsgi.free_port(), path="/nonexistent", reader=["head", "-1"]) as demo_:
        assert demo_.process.wait(20) == 1
        assert demo_.said().count("\n") == 1
        demo_.expect_nothing_left(within=0)


@pytest.mark.parametrize(
    "scene",
    [
        scene.name if scene.name in ("emperor", "neighbours") else pytest.param(scene.name, marks=pytest.mark.slow)
        for scene in SCENES
        if not scene.needs
    ],
)
@pytest.mark.integration
def test_killed_demo_of_any_scene_leaves_nothing(scene):
    """It says what will be seen; vassals and neighbours end with it, too."""
    with _demo(real_uwsgi.free_port(), scene=scene, path=os.defpath) as demo_:
        demo_.wait_for_figures()
        assert f"  Scene {scene}: " in demo_.said()
        demo_.kill("demo")
        demo_.expect_nothing_left(within=30)


def test_unknown_scene_is_refused_before_anything_is_set_up():
    """The message lists the scenes, and `list` lists them as well."""
    command = [sys.executable, "-m", "app.demo", "--scene"]
    refused = subprocess.run([*command, "hott"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("make demo: there is no scene 'hott': did you mean hot?\n")
    listed = subprocess.run([*command, "list"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert listed.stdout.strip() in refused.stderr


def test_silence_is_short():
    """Between two lines of figures as between two dots pass less than three seconds."""
    assert demo.EVERY + demo.ANSWER < 3
    assert max(progress.SECOND, progress.DOT) < 3


@dataclass(frozen=True)
class Demo:
    """A demo that runs, or the `make` that runs it; what it writes to, and its only directory for temporary files."""

    process: subprocess.Popen[bytes]
    output: Path
    temporary: Path

    def said(self) -> str:
        return self.output.read_text()

    def wait_for_figures(self) -> None:
        real_uwsgi.wait_until(lambda: "3.0 of 32 threads busy" in self.said(), 90, "the first figures")

    def wait_for_installation(self) -> None:
        real_uwsgi.wait_until(lambda: list(self.temporary.glob("*/beside")), what="the installation")

    def expect_nothing_left(self, within: float) -> None:
        """Fails if one of its processes or files is there after so many seconds."""
        real_uwsgi.wait_until(
            lambda: not _processes_with(self.temporary) and not list(self.temporary.iterdir()),
            within,
            f"{_processes_with(self.temporary)} and {list(self.temporary.iterdir())} to go",
        )

    def find(self, name: str) -> psutil.Process:
        """The process of this demo that has such a word in its command."""
        word = {
            "demo": "app.demo",
            "pip": "$TMPDIR/unpacked",
            "guard": "guard.py",
            "uwsgi": "uwsgi.ini",
            "load": "app.load",
            "exporter": "stand_in.py",
            "prometheus": "prometheus.yml",
            "alertmanager": "alertmanager.yml",
        }[name]
        processes = [psutil.Process(pid) for pid in _processes_with(self.temporary)]
        matching = [process for process in processes if any(word in part for part in process.cmdline()[1:])]
        # The master of uWSGI, and the demo itself under its make, come before what they have started.
        return min(matching, key=lambda process: process.create_time())

    def kill(self, victim: str) -> None:
        """End `make`, its whole process group, or a process by SIGKILL."""
        if victim == "group":
            os.killpg(self.process.pid, signal.SIGKILL)
        elif victim == "make":
            self.process.kill()
        else:
            self.find(victim).kill()


@contextlib.contextmanager
def _demo(
    port: int,
    *,
    uwsgi: Path | None = None,
    scene: str | None = None,
    make: bool = False,
    installs: str = "",
    path: str | None = None,
    reader: list[str] | None = None,
) -> Iterator[Demo]:
    """Run a demo until the block ends. make: as its child, by the Makefile. path: where programs are looked for."""
    with tempfile.TemporaryDirectory() as name:
        temporary, output, exporter, python = (Path(name) / each for each in ("t", "output", "exporter", "python"))
        temporary.mkdir()
        (Path(name) / "driver.py").write_text(DRIVER)
        _script(exporter, sys.executable, Path(__file__).with_name("stand_in.py"))
        _script(
            python, sys.executable, Path(name) / "driver.py", uwsgi or real_uwsgi.uwsgi_binary(), exporter, installs
        )
        direct = [python, "-m", "app.demo", "--port", str(port), *(["--scene", scene] if scene else [])]
        command = [shutil.which("make"), "demo", f"PYTHON={python}", f"PORT={port}"] if make else direct
        with output.open("wb") as writing:
            reading = subprocess.Popen(reader, stdin=subprocess.PIPE, stdout=writing) if reader else None
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={
                    **os.environ,
                    "TMPDIR": str(temporary),
                    "PYTHONPATH": f"{ROOT}:{Path(flask.__file__).parent.parent}",
                    "PATH": os.environ["PATH"] if path is None else path,
                },
                stdout=reading.stdin if reading else writing,
                stderr=writing,
                start_new_session=True,
            )
            if reading:
                reading.stdin.close()
        try:
            yield Demo(process, output, temporary)
        finally:
            process.terminate()
            process.wait(20)
            if reading:
                reading.wait(20)


def _script(path: Path, *words: object) -> None:
    """Write a program that runs this command with further arguments."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(str(word) for word in words)} "$@"\n')
    path.chmod(0o755)


def _processes_with(temporary: Path) -> list[int]:
    """The demo and the processes it has started: they all have its TMPDIR, or one in it."""
    return guard.carriers(temporary)
