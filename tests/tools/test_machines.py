"""The containers of a bare machine and of one that runs systemd."""

import signal
import subprocess
from pathlib import Path

import pytest

from tools import bare_machine, debian_root, systemd_machine
from tools.bare_machine import complaints, packages, requests
from tools.debian_root import FailedError, UnavailableError
from tools.systemd_machine import Booted

README = (Path(__file__).parents[2] / "README.md").read_text()

OUTPUT = """
  live page    http://127.0.0.1:40000/
  Prometheus   http://127.0.0.1:9090/alerts: the rules
  Alertmanager http://127.0.0.1:9093/api/v2/alerts: what has reached it
"""
RUNNING = ["/home/visitor/.venv/bin/prometheus", "/home/visitor/.venv/bin/prometheus-alertmanager", "/usr/bin/python3"]


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    """Restores signal handlers, which main() replaces in the process of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_packages_are_those_of_the_readme():
    """Options of apt-get are none, and the line may break anywhere before the command."""
    names = packages(README)
    assert {"git", "make", "python3"} <= set(names)
    assert not any(name.startswith("-") for name in names)
    text = "On a fresh Debian or Ubuntu,\nas root: `apt-get install --no-install-recommends git libc6-dev`\n"
    assert packages(text) == ["git", "libc6-dev"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "On a new Debian: `apt-get install git`",
        "On a fresh Debian or Ubuntu: `make` and nothing else",
        "On a fresh Debian or Ubuntu: `apt-get install git`. On a fresh Debian or Ubuntu: `apt-get install make`.",
        "On a fresh Debian or Ubuntu: `apt-get install git && make demo`",
    ],
)
def test_a_readme_without_the_line_is_a_failure(text):
    """The check fails if the README lacks the line, repeats it or puts another command into it."""
    with pytest.raises(FailedError, match=r"README\.md"):
        packages(text)


def test_requests_are_summed_over_workers():
    text = (
        "# TYPE uwsgi_worker_requests_total counter\n"
        'uwsgi_worker_requests_total{server="demo",worker_id="1"} 12\n'
        'uwsgi_worker_requests_total{server="demo",worker_id="2"} 9\n'
        'uwsgi_worker_requests_total_created{server="demo",worker_id="2"} 1e9\n'
    )
    assert requests(text) == 21
    assert requests("") == 0


def test_failures_of_a_machine_have_the_output(monkeypatch):
    """A metric is one series; a whole demo is not complained of."""
    assert complaints(OUTPUT, RUNNING, 2.9, 1) == []
    assert complaints(OUTPUT, ["/usr/bin/prometheus", "/usr/local/bin/alertmanager"], 0, 100) == []
    assert HERE.output("echo well") == "well\n"
    with pytest.raises(FailedError, match=r"ended with 3: echo badly; exit 3\nbadly"):
        HERE.output("echo badly; exit 3")
    monkeypatch.setattr(Booted, "output", lambda _self, _script: "the log")
    HERE.wait(lambda: True, 0, "at once")
    with pytest.raises(FailedError, match="not within 0 s: never\nthe log"):
        HERE.wait(lambda: False, 0, "never")
    text = 'uwsgi_up{server="shop"} 1.0\nuwsgi_up{server="api"} 0.0\nuwsgi_total 7\n'
    monkeypatch.setattr(Booted, "output", lambda _self, _script: text)
    assert HERE.metric(r'uwsgi_up\{server="api"\}') == 0
    assert HERE.metric("uwsgi_total") == 7
    for pattern, count in (("uwsgi_up", 2), ("uwsgi_tot", 0)):
        with pytest.raises(FailedError, match=f"{count} series match"):
            HERE.metric(pattern)


@pytest.mark.parametrize(
    ("output", "running", "silence", "later", "complaint"),
    [
        (OUTPUT, RUNNING, 0, 0, "no request was counted"),
        (OUTPUT, RUNNING, 3.4, 1, "nothing was printed for 3.4 s"),
        (OUTPUT + "\n  Going on without prometheus: no", RUNNING, 0, 1, "'Going on without prometheus: no'"),
        (OUTPUT.replace("Alertmanager", "Other"), RUNNING, 0, 1, "does not print the address of Alertmanager"),
        (OUTPUT, RUNNING[1:], 0, 1, "Prometheus does not run"),
        (OUTPUT, RUNNING[:1], 0, 1, "Alertmanager does not run"),
    ],
)
def test_each_part_that_is_wrong_is_named(output, running, silence, later, complaint):
    (only,) = complaints(output, running, silence, later)
    assert complaint in only


def test_where_it_cannot_run_a_line_says_why(monkeypatch, capsys):
    monkeypatch.setattr(debian_root.os, "geteuid", lambda: 1000)
    assert bare_machine.main([]) == 75
    assert capsys.readouterr().err == (
        "bare-machine: cannot run here: making a Debian root and mounting in it needs root\n"
    )
    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(systemd_machine.shutil, "which", lambda _: None)
    assert systemd_machine.main(["trixie"]) == 75
    assert "no podman, runc: apt-get install podman runc netavark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnavailableError("no archive"), 75), (FailedError("the demo ended"), 1), (KeyboardInterrupt(), 130)],
)
def test_its_ends(monkeypatch, capsys, error, status):
    def check(suite):
        assert suite == "trixie"
        raise error

    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(bare_machine, "_check", check)
    assert bare_machine.main(["trixie"]) == status
    assert (str(error) or "stopped") in capsys.readouterr().err


HERE = Booted(["env"])
"""Runs commands on this machine."""


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnavailableError("no archive"), 75), (FailedError("no reload"), 1), (KeyboardInterrupt(), 130)],
)
def test_the_ends_of_a_systemd_machine(monkeypatch, capsys, error, status):
    def check(suite):
        assert suite == "trixie"
        raise error

    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(systemd_machine, "_check", check)
    assert systemd_machine.main(["trixie"]) == status
    assert (str(error) or "stopped") in capsys.readouterr().err


def test_a_process_with_a_path_in_its_command_line(tmp_path):
    """A directory is in use as long as a process names it."""
    assert not systemd_machine.is_named(tmp_path)
    command = ["sh", "-c", "echo up; read line", f"--root={tmp_path}/storage"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"up\n"
        assert systemd_machine.is_named(tmp_path)
        running.stdin.close()
    assert not systemd_machine.is_named(tmp_path)
