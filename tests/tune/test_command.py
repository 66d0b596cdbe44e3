"""The command `tune`: what it asks, writes and says, with simulated runs; and with a real uWSGI."""

import argparse
import dataclasses
import io
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.real_uwsgi import uwsgi_binary, wait_until
from tests.tune.test_search import Application
from tests.tune.test_server import MARK, marked
from tools.environments import ROOT
from uwsgi_headroom import cli
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.tune import command, search
from uwsgi_headroom.tune.command import Runs
from uwsgi_headroom.tune.guard import guard_this_process
from uwsgi_headroom.tune.ini import Ini
from uwsgi_headroom.tune.load import Load
from uwsgi_headroom.tune.search import Run
from uwsgi_headroom.tune.server import RunError

INI = """\
[uwsgi]
module = shop.wsgi
env = PASSWORD=hunter2
processes = 2
threads = 1
cron = -1 -1 -1 -1 -1 /usr/bin/clean
http-socket = :8000
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with an ini file and a uWSGI that is never started. Nothing is guarded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.ini").write_text(INI)
    (tmp_path / "uwsgi").write_text("#!/bin/false\n")
    (tmp_path / "uwsgi").chmod(0o755)
    (tmp_path / "private").mkdir()
    monkeypatch.setattr(command, "guard_this_process", lambda _prefix: tmp_path / "private")
    monkeypatch.setattr(command, "interrupt_on_signals", lambda: None)
    return tmp_path


@pytest.fixture
def server(monkeypatch):
    """In place of a real one: its requests wait, and the present setting has too few threads."""
    application = Application(cpu=0.0005, waiting=0.05)
    monkeypatch.setattr(Runs, "measure", lambda _, setting: application.measure(setting))
    monkeypatch.setattr(Runs, "ask_alone", lambda _, setting: application.alone(setting))

    def make_task(ini: Ini, memory: float | None, load: Load) -> search.Task:
        limits = {"cpus": 2.0, "memory": memory or 1e12, "fewest": ini.cheaper + 1}
        return search.Task(present=ini.present, clients=load.clients, **limits)

    monkeypatch.setattr(command, "make_task", make_task)
    return application


def request(**options: object) -> argparse.Namespace:
    parsed = make_command_line().parse(["tune", "--ini", "shop.ini", "--uwsgi", "./uwsgi", "--yes"])
    vars(parsed).update(options)
    return parsed


def test_a_recommendation(place, server, capsys):
    """It is printed as a diff with its evidence, and written; the given file stays as it is."""
    assert command.run(request()) == 0
    said = capsys.readouterr()
    assert "Use 2x8 instead of 2x1: 8 times as many requests/s" in said.out
    assert "\n-threads = 1\n+threads = 8\n" in said.out
    assert re.search(r"^\* 2x8 +3 +31\d", "\n".join(line.strip() for line in said.out.splitlines()), re.MULTILINE)
    assert "The application uses its own databases" in said.err
    assert "Left out of the ini file and the environment: cron, http-socket." in " ".join(said.err.split())
    assert (place / "shop.ini").read_text() == INI
    assert stat.S_IMODE((place / "shop.ini.diff").stat().st_mode) == 0o600  # the lines around may hold a password
    assert "patch shop.ini shop.ini.diff; then reload uWSGI" in said.out
    command.run(request(output="a shop's"))
    assert """patch shop.ini 'a shop'"'"'s'; then reload uWSGI""" in capsys.readouterr().out
    program = ["patch", "shop.ini"] if shutil.which("patch") else ["git", "apply"]
    subprocess.run([*program, "shop.ini.diff"], check=True, capture_output=True)
    assert (place / "shop.ini").read_text() == INI.replace("threads = 1", "threads = 8")


def test_nothing_to_change(place, server, capsys):
    (place / "shop.ini").write_text(INI.replace("threads = 1", "threads = 8"))
    assert command.run(request()) == 0
    assert "Keep 2x8: of 6 settings, none is better beyond the noise." in capsys.readouterr().out
    assert not (place / "shop.ini.diff").exists()


def test_several_threads_need_an_application_that_is_safe(place, server, capsys):
    """This is said if the present setting has one thread, and only then."""
    warning = "2x8 needs an application and libraries that are thread-safe."
    command.run(request())
    assert warning in " ".join(capsys.readouterr().out.split())
    (place / "shop.ini").write_text(INI.replace("threads = 1", "threads = 2"))
    command.run(request(output="again.diff"))
    assert warning not in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("status", "is_said"), [({}, False), ({404: 0.05}, False), ({404: 0.5, 302: 0.25}, True)])
def test_redirects_and_errors_are_no_pages(place, server, status, is_said, capsys):
    """Many of them are worth a sentence: they are answered faster."""
    measure = server.measure

    def redirect(setting: Setting) -> Run:
        run = measure(setting)
        counts = {number: round(share * run.tally.answered) for number, share in status.items()}
        return replace(run, tally=dataclasses.replace(run.tally, unsuccessful=Counter(counts)))

    server.measure = redirect
    command.run(request())
    assert ("Many answers were redirects or errors (status 404: " in capsys.readouterr().out) == is_said


@pytest.mark.parametrize(("clients", "others"), [(0.95, 0.5), (0.2, 0.1)])
def test_what_else_takes_cpu(place, server, clients, others, capsys):
    """Clients that may be the limit, and other programs, are worth a sentence."""
    measure = server.measure
    server.measure = lambda setting: replace(measure(setting), clients_cpu=clients, other_cpu=others)
    command.run(request())
    said = " ".join(capsys.readouterr().out.split())
    assert f"They took {clients:.2f} CPUs of this machine" in said
    assert ("they may be the limit" in said) == (clients > 0.9)
    assert ("Other programs used 0.5 CPUs meanwhile. Run tune again" in said) == (others > 0.3)


def test_after_an_interrupt_there_is_no_recommendation_and_no_file(place, server, monkeypatch, capsys):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runs, "measure", interrupt)
    assert command.run(request()) == 1
    assert "Interrupted: there is no recommendation." in capsys.readouterr().err
    assert not (place / "shop.ini.diff").exists()


def test_a_disk_that_cannot_be_written(place, server, monkeypatch, capsys):
    monkeypatch.setattr(command, "guard_this_process", guard_this_process)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(place / "none")])
    assert cli.main(["tune", "--ini", "shop.ini", "--uwsgi", "./uwsgi", "--yes"]) == 1
    assert "\nuwsgi-headroom: No usable temporary directory found in" in capsys.readouterr().err


def test_a_diff_that_cannot_be_written(place, server):
    with pytest.raises(HeadroomError, match=r"no/a\.diff cannot be written: No such file or directory") as caught:
        command.run(request(output="no/a.diff"))
    assert "+threads = 8" in caught.value.details


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ini": "none.ini"}, "none.ini cannot be read"),
        ({"uwsgi": "./none"}, "--uwsgi: ./none is not a program"),
        ({"url": ["http://host/"]}, "--url: expected a path such as /items, not http://host/"),
        ({"url": ["/"], "access_log": "a.log"}, "give --url or --access-log, not both"),
        ({"output": "shop.ini"}, "--output: shop.ini exists already"),
        ({"yes": False}, "give --yes to start without a question"),
    ],
)
def test_nothing_is_run_with_options_that_cannot_be(place, server, options, message, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(ConfigError, match=re.escape(message)):
        command.run(request(**options))
    assert not server.ran


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("\n", 1), ("", 1)])
def test_only_yes_to_the_question_on_a_terminal_starts(place, server, answer, status, monkeypatch):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    assert command.run(request(yes=False)) == status
    assert bool(server.ran) == (status == 0)


def test_no_uwsgi(place, server, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    (place / "uwsgi").unlink()
    with pytest.raises(ConfigError, match="no uwsgi was found: give --uwsgi FILE"):
        command.run(request(uwsgi=None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clients", "0"], "expected a whole number from 1 to 2,000, not 0"),
        (["--max-memory", "much"], "expected a size, such as 800M or 1.5G, not much"),
        (["--max-p99", "1s"], "unknown option --max-p99"),
    ],
)
def test_wrong_flags(arguments, message, capsys):
    assert cli.main(["tune", "--ini", "a.ini", *arguments]) == 2
    assert message in capsys.readouterr().err


APPLICATION = """\
import time
def application(environ, start):
    sum(range(200_000))  # the kernel counts CPU time in steps of 10 ms
    time.sleep(0.02)
    start("200 OK", [])
    return [b"ok"]
"""
BEYOND = """\
[uwsgi]
wsgi-file = {place}/app.py
processes = 2
cron = -1 -1 -1 -1 -1 touch {place}/cron
attach-daemon = touch {place}/daemon
mule = {place}/mule.py
spooler = {place}/spool
hook-asap = write:{place}/hook started
exec-asap = touch {place}/exec
logto = {place}/log
pidfile = {place}/pid
socket = {place}/socket
stats = {place}/stats
"""


@pytest.fixture
def real(tmp_path_factory, monkeypatch):
    """A directory with an application, whose ini file would leave a trace of each kind, and a short TMPDIR."""
    place = tmp_path_factory.mktemp("r")
    (place / "app.py").write_text(APPLICATION)
    (place / "mule.py").write_text(f"open('{place}/mule', 'w').close()\n")
    (place / "spool").mkdir()
    (place / "t").mkdir()
    (place / "shop.ini").write_text(BEYOND.replace("{place}", str(place)))
    monkeypatch.chdir(place)
    monkeypatch.setenv("UWSGI_CRON", "-1 -1 -1 -1 -1 touch cron2")
    yield place
    left = {path.name for path in place.iterdir()}
    assert left <= {"app.py", "mule.py", "spool", "t", "shop.ini", "private", "__pycache__"}
    assert not list((place / "spool").iterdir())


@pytest.mark.integration
def test_a_real_run(real):
    """The copied file starts nothing beside the server, and a setting that does not run is out."""
    (real / "private").mkdir()
    ini = command.read_ini("shop.ini")
    load = Load(clients=3, warm_up=0.1, seconds=0.5)
    runs = Runs(ini, Path(uwsgi_binary()), load, real / "private", ["UWSGI_CRON"])
    run, alone = runs.measure(Setting(2, 1)), runs.ask_alone(Setting(2, 1))
    assert 0 < run.tally.throughput <= 1.1 * 2 / 0.02
    assert run.tally.errors == {}
    assert alone.mean >= 0.02
    assert 0 < run.server_cpu < os.cpu_count()
    assert run.memory > 5_000_000
    (real / "app.py").write_text("import nothing_there\n")
    assert runs.measure(Setting(4, 1)).tally.errors == {"it did not run": 1}
    with pytest.raises(RunError, match=r"2x1 ended \(status 22\)"):
        runs.measure(Setting(2, 1))


ON_A_BUSY_MACHINE = """\
import sys; from uwsgi_headroom import cli; from uwsgi_headroom.tune import search
search.BUSY = 99.0
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "One client alone"),
        (signal.SIGTERM, "Run 1 of"),
        (signal.SIGTERM, "Run 2 of"),
        (signal.SIGKILL, "One client alone"),
        (signal.SIGKILL, "Run 2 of"),
        (signal.SIGINT, "Run 1 of"),
        (signal.SIGHUP, "Run 1 of"),
    ],
)
def test_an_end_at_any_moment_leaves_nothing(real, number, moment):
    """Neither a process nor a file: Ctrl-C, a service manager, a closed terminal, and SIGKILL."""
    environment = {**os.environ, MARK: f"{real}", "TMPDIR": f"{real}/t", "PYTHONPATH": f"{ROOT / 'exporter'}"}
    words = ["tune", "--ini", "shop.ini", "--uwsgi", uwsgi_binary(), "--yes", "--seconds", "1", "--clients", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_BUSY_MACHINE, *words], env=environment, stderr=subprocess.PIPE, text=True
    )
    while moment not in process.stderr.readline():
        assert process.poll() is None
    wait_until(lambda: len(marked(str(real))) >= 3, what="the guard and the runner")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 1)
    wait_until(lambda: not marked(str(real)) and not list((real / "t").iterdir()), what="everything to go")
