"""Trials of a root of Debian, and of machines that are booted in an emulator."""

import contextlib
import signal
import subprocess
from unittest.mock import Mock

import pytest

from tools import debian_root
from tools.debian_root import FailedError, UnavailableError
from tools.machine import __main__ as booted


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    """Restores signal handlers, which main() replaces in the process of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_where_it_cannot_run_a_line_says_why(monkeypatch, tmp_path, capsys):
    """Without root, an emulator, or a root of Debian that need not be made first."""

    def fails(*words):
        assert booted.main(list(words)) == 75
        return capsys.readouterr().err

    monkeypatch.setattr(debian_root, "unavailable", lambda _: "making a Debian root and mounting in it needs root")
    assert fails("demo") == "machine: cannot run here: making a Debian root and mounting in it needs root\n"
    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "no root of trixie was made here yet: make machine TRIAL=demo" in fails("demo", "--cached")
    monkeypatch.setattr(booted.shutil, "which", lambda _: None)
    assert "no qemu-system-x86_64, qemu-img, mkfs.ext4: apt-get install" in fails("cgroup")


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnavailableError("no archive"), 75), (FailedError("the demo ended"), 1), (KeyboardInterrupt(), 130)],
)
def test_its_ends(monkeypatch, capsys, error, status):
    def check(given):
        assert given.suite == "bookworm"
        raise error

    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(booted, "check", check)
    assert booted.main(["demo", "--suite", "bookworm"]) == status
    assert (str(error) or "stopped") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (["noise", "ok - one", "ok - two", "# the trial has ended"], contextlib.nullcontext()),
        (["ok - one", "not ok - two", "# the trial has ended"], pytest.raises(FailedError, match="not ok - two")),
        (["not ok - one", UnavailableError("no time is left")], pytest.raises(FailedError, match="not ok - one")),
        (["ok - one"], pytest.raises(FailedError, match="did not end")),
        (["# the trial has ended"], pytest.raises(FailedError, match="did not end")),
    ],
)
def test_a_trial_is_judged_by_what_its_machine_prints(capsys, lines, outcome):
    """A machine that stops before its trial has ended has failed, and so has a trial without an expectation. An
    expectation that failed counts also if the time is over later."""
    with outcome:
        assert booted.judge(iter(Mock(side_effect=lines), None)) == 2
    assert lines[0] in capsys.readouterr().out


def test_trials_are_shell_scripts_with_expectations():
    trials = [path for path in booted.TRIALS.glob("*.sh") if path.stem != "common"]
    assert len(trials) >= 4
    for path in (*trials, booted.TRIALS / "common.sh"):
        subprocess.run(["bash", "-n", path], check=True)


def test_a_trial_that_takes_too_long_is_not_judged(monkeypatch, capsys):
    """Making its root is a part of it. The status is that of "not run"."""
    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(booted, "enter", lambda *_: iter([signal.pause()]))
    assert booted.main(["demo", "--minutes", "0.001"]) == 75
    assert capsys.readouterr().err == "machine: cannot run here: the trial did not end within 0.001 minutes\n"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
