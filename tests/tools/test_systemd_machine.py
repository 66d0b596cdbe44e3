"""The check of the units in a booted container: its exit status, and what it reads of the exporter."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tools import debian_root, systemd_machine
from tools.debian_root import FailedError, UnavailableError
from tools.systemd_machine import Booted

HERE = Booted(["env"])
"""Runs commands on this machine."""


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    """Restores signal handlers, which main() replaces in the process of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_without_podman_it_does_not_run(monkeypatch, capsys):
    """A machine without podman cannot run the check, and the reason names the packages."""
    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(systemd_machine.shutil, "which", lambda _: None)
    assert systemd_machine.main(["trixie"]) == 75
    assert "no podman, runc: apt-get install podman runc netavark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnavailableError("no archive"), 75), (FailedError("no reload"), 1), (KeyboardInterrupt(), 130)],
)
def test_its_ends(monkeypatch, capsys, error, status):
    """Each error has its own exit status, and is printed on standard error."""

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


def test_a_command_that_fails_shows_its_output():
    """The error has the status, the script and what it printed."""
    assert HERE.output("echo well") == "well\n"
    with pytest.raises(FailedError, match=r"ended with 3: echo badly; exit 3\nbadly"):
        HERE.output("echo badly; exit 3")


def test_a_metric_is_one_series(monkeypatch):
    """A value is that of the only series that matches, with or without labels; none and several are failures."""
    text = 'uwsgi_up{server="shop"} 1.0\nuwsgi_up{server="api"} 0.0\nuwsgi_total 7\n'
    monkeypatch.setattr(Booted, "output", lambda _self, _script: text)
    assert HERE.metric(r'uwsgi_up\{server="api"\}') == 0
    assert HERE.metric("uwsgi_total") == 7
    for pattern, count in (("uwsgi_up", 2), ("uwsgi_tot", 0)):
        with pytest.raises(FailedError, match=f"{count} series match"):
            HERE.metric(pattern)


def test_waiting_ends_with_the_log(monkeypatch):
    """What does not happen in time is a failure with the unit's log."""
    monkeypatch.setattr(Booted, "output", lambda _self, _script: "the log")
    HERE.wait(lambda: True, 0, "at once")
    with pytest.raises(FailedError, match="not within 0 s: never\nthe log"):
        HERE.wait(lambda: False, 0, "never")
