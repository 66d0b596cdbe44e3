"""The container of a bare machine, and machines that are booted in an emulator."""

import signal
import subprocess
from pathlib import Path

import pytest

from tools import bare_machine, debian_root
from tools.bare_machine import complaints, packages, requests
from tools.debian_root import FailedError, UnavailableError
from tools.machine import __main__ as booted

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


def test_a_whole_demo_is_not_complained_of():
    assert complaints(OUTPUT, RUNNING, 2.9, 1) == []
    assert complaints(OUTPUT, ["/usr/bin/prometheus", "/usr/local/bin/alertmanager"], 0, 100) == []


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
    monkeypatch.setattr(booted.shutil, "which", lambda _: None)
    assert booted.main(["cgroup"]) == 75
    assert "no qemu-system-x86_64, qemu-img, mkfs.ext4: apt-get install" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        (["noise", "ok - one", "ok - two", "# the trial has ended"], 2),
        (["ok - one", "not ok - two: false", "# the trial has ended"], "not ok - two: false"),
        (["ok - one"], "did not end"),
        (["# the trial has ended"], "did not end"),
    ],
)
def test_a_trial_is_judged_by_what_its_machine_prints(capsys, lines, held):
    """A machine that stops before its trial has ended has failed, and so has a trial without an expectation."""
    if isinstance(held, int):
        assert booted.judge(iter(lines)) == held
    else:
        with pytest.raises(FailedError, match=held):
            booted.judge(iter(lines))
    assert lines[0] in capsys.readouterr().out


def test_trials_are_shell_scripts_with_expectations():
    trials = [path for path in booted.TRIALS.glob("*.sh") if path.stem != "common"]
    assert len(trials) >= 4
    for path in (*trials, booted.TRIALS / "common.sh"):
        subprocess.run(["bash", "-n", path], check=True)
