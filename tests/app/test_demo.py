"""`make demo` shows figures until it is stopped or killed, then leaves nothing behind."""

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
from pathlib import Path

import flask
import psutil
import pytest
from msgspec import Struct

from app import demo
from app.loopback import get
from app.scenes import SCENES
from tests.support import real_uwsgi
from tests.support.monitoring import Alertmanager, Prometheus
from tools import commands
from tools.environments import ROOT, SetupError
from uwsgi_headroom.kernel.procfs import read_begin

# The setup of environments has its own tests; here it is skipped, and a stand-in replaces the exporter. `installs` is a
# command that replaces pip, or empty.
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
"""Leaves files, and starts a child; both processes ignore SIGTERM."""


def test_taken_port_ends_the_demo_before_anything_is_set_up():
    """The message names the port and says how to choose another one; the status is not 0."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-m", "app.demo", "--port", str(port)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert f"port {port} on 127.0.0.1 cannot be used" in ended.stderr
    assert f"(process {os.getpid()}) listens on it" in ended.stderr
    assert "make demo PORT=9300" in ended.stderr


def test_what_is_impossible_is_refused_before_anything_is_set_up():
    with pytest.raises(SetupError, match="port 123456 "):
        demo.refuse_taken(123456)
    assert demo.EVERY + demo.ANSWER < 3
    assert commands.DOT < 3
    command = [sys.executable, "-m", "app.demo", "--scene"]
    refused = subprocess.run([*command, "hott"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("make demo: there is no scene 'hott': did you mean hot?\n")
    listed = subprocess.run([*command, "list"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert listed.stdout.strip() in refused.stderr


@pytest.mark.integration
@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_demo_runs_until_a_signal_and_leaves_nothing(signals):
    """The demo prints the addresses and figures; after one Ctrl-C or several, no process or file is left."""
    port = real_uwsgi.free_port()
    with _demo(port) as demo_:
        demo_.wait_for_figures()
        assert len(_processes_with(demo_.temporary)) >= 12  # the demo, guard and runner, 5 programs, 4 workers
        for number in signals:
            demo_.process.send_signal(number)
        assert demo_.process.wait(60) == 0
        said = demo_.said()
        assert f"http://127.0.0.1:{port}/metrics" in said
        assert "shares 75%/25%; 3.0 of 32 threads busy; headroom 2.5x" in said
        assert re.search(r"Prometheus +http://127\.0\.0\.1:\d+/", said)
        assert re.search(r"Alertmanager http://127\.0\.0\.1:\d+/api/v2/alerts", said)
        assert re.search(r"\n  stopping everything *\.* +\d+\.\d s\nstopped\n$", said)
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
def test_demo_shows_the_alerts_of_its_exporter(monkeypatch):
    """Every printed address answers, and its line fits 80 columns."""
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
        with pytest.raises(SetupError, match=rf"another demo \(process {demo_.find('runner').pid}\) listens on it"):
            demo.refuse_taken(port)


@pytest.mark.integration
def test_demo_goes_on_without_what_it_cannot_have(tmp_path):
    """The demo says at once why Alertmanager does not start, and what to install without Prometheus."""
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
        assert demo_.process.wait(60) == 1
        assert "make demo: uwsgi ended (status 1)" in demo_.said()
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
def test_demo_outlives_what_it_can_do_without():
    """If Prometheus, Alertmanager or a uWSGI worker is killed, the demo continues, and reports the first two."""
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
        assert demo_.process.wait(60) == 0
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("uwsgi", "make demo: uwsgi ended (SIGKILL)"),
        ("load", "make demo: load ended (SIGKILL)"),
        ("exporter", "make demo: uwsgi-headroom ended (SIGKILL)"),
    ],
)
def test_demo_ends_with_what_it_needs(name, said):
    """If a required process is killed, the demo names it, ends the others, and exits with a failure status."""
    with _demo(real_uwsgi.free_port(), path="/nonexistent") as demo_:
        demo_.wait_for_figures()
        demo_.find(name).kill()
        assert demo_.process.wait(60) == 1
        assert said in demo_.said()
        demo_.expect_nothing_left(within=0)


@pytest.mark.integration
@pytest.mark.parametrize("victim", ["demo", "make", "group", "guard", "runner"])
def test_killed_demo_leaves_nothing(victim):
    """Nothing is left if the demo, its process group or its `make` is killed, and the next demo can start at once."""
    port = real_uwsgi.free_port()
    with _demo(port, make=True) as demo_:
        demo_.wait_for_figures()
        demo_.kill(victim)
        if victim != "make":  # in that case the demo still ends in order
            demo.refuse_taken(port)
        demo_.expect_nothing_left(within=10)


@pytest.mark.parametrize("victim", ["demo", "make", "group", "guard", "pip"])
def test_demo_killed_during_the_installation_leaves_nothing(victim):
    """Neither pip's processes nor its temporary files are left."""
    with _demo(real_uwsgi.free_port(), make=True, installs=PIP) as demo_:
        demo_.wait_for_installation()
        demo_.kill(victim)
        demo_.process.wait(60)
        demo_.expect_nothing_left(within=5)
        assert demo_.process.returncode != 0


def test_interrupt_during_the_installation_leaves_nothing():
    """Ctrl-C reaches `make` and the demo."""
    with _demo(real_uwsgi.free_port(), make=True, installs=PIP) as demo_:
        demo_.wait_for_installation()
        os.killpg(demo_.process.pid, signal.SIGINT)
        demo_.process.wait(60)
        demo_.expect_nothing_left(within=5)
        assert "stopped\n" in demo_.said()


def test_demo_whose_reader_has_gone_ends():
    """The demo ends as in `make demo | head`, without a traceback, and leaves nothing."""
    with _demo(real_uwsgi.free_port(), path="/nonexistent", reader=["head", "-1"]) as demo_:
        assert demo_.process.wait(60) == 1
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
    """The demo describes the scene; vassals and neighbours end with it, too."""
    with _demo(real_uwsgi.free_port(), scene=scene, path=os.defpath) as demo_:
        demo_.wait_for_figures()
        assert f"  Scene {scene}: " in demo_.said()
        demo_.kill("demo")
        demo_.expect_nothing_left(within=30)


class Demo(Struct, frozen=True):
    """A running demo, or the `make` that runs it, with its output and its only temporary directory."""

    process: subprocess.Popen[bytes]
    output: Path
    temporary: Path

    def said(self):
        return self.output.read_text()

    def wait_for_figures(self):
        real_uwsgi.wait_until(lambda: "3.0 of 32 threads busy" in self.said(), 90, "the first figures")

    def wait_for_installation(self):
        real_uwsgi.wait_until(lambda: list(self.temporary.glob("*/beside")), what="the installation")

    def expect_nothing_left(self, within):
        """Fails if one of its processes or files remains after `within` seconds."""
        real_uwsgi.wait_until(
            lambda: not _processes_with(self.temporary) and not list(self.temporary.iterdir()),
            within,
            f"{_processes_with(self.temporary)} and {list(self.temporary.iterdir())} to go",
        )

    def find(self, name):
        word = {
            "demo": "app.demo",
            "pip": "$TMPDIR/unpacked",
            "guard": "app.demo",
            "runner": "app.demo",
            "uwsgi": "uwsgi.ini",
            "load": "app.load",
            "exporter": "stand_in.py",
            "prometheus": "prometheus.yml",
            "alertmanager": "alertmanager.yml",
        }[name]
        matching = []
        for pid in _processes_with(self.temporary):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since it was listed
                process = psutil.Process(pid)
                if any(word in part for part in process.cmdline()[1:]):
                    matching.append(process)
        # uWSGI's master is older than its workers, and the demo than its guard, which is older than the runner.
        matching.sort(key=lambda process: process.create_time())
        return matching[("demo", "guard", "runner").index(name)] if word == "app.demo" else matching[0]

    def kill(self, victim):
        if victim == "group":
            os.killpg(self.process.pid, signal.SIGKILL)
        elif victim == "make":
            self.process.kill()
        else:
            self.find(victim).kill()


@contextlib.contextmanager
def _demo(port, *, uwsgi=None, scene=None, make=False, installs="", path=None, reader=None):
    """Runs a demo until the block ends. make: run it with `make`; path: the PATH for its programs."""
    with tempfile.TemporaryDirectory() as name:
        temporary, output, exporter, python = (Path(name) / part for part in ("t", "output", "exporter", "python"))
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
            process.wait(60)
            if reading:
                reading.wait(20)


def _script(path, *words):
    path.write_text(f'#!/bin/sh\nexec {shlex.join(str(word) for word in words)} "$@"\n')
    path.chmod(0o755)


def _processes_with(temporary):
    """The pids of the demo and the processes that it has started: their TMPDIR is that of the demo or lies in it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            # Not all of it: beside this test, one runs whose process claims an environment of 2 GB.
            variables = read_begin(1 << 16, entry).decode(errors="replace").split("\0")
            if any(f"{variable}/".startswith(f"TMPDIR={temporary}/") for variable in variables):
                found.append(int(entry.parent.name))
    return found


def test_it_begins_where_nothing_is_installed():
    """The demo makes its environments itself, so its modules load in a Python without any package."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import app.demo; print(app.demo.__file__)"
    # -I: no PYTHONPATH; -S: no packages of this environment.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, Path(done.stdout.strip()).name) == ("", "demo.py")
