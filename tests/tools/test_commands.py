"""A command that fails says why, and one that is interrupted leaves nothing running."""

from __future__ import annotations

import signal

import pytest

from tests.support import real_uwsgi
from tools import commands


def test_success_is_silent(capfd):
    commands.run_command(["sh", "-c", "echo chatter; echo more >&2"])
    assert capfd.readouterr() == ("", "")


def test_failure_shows_the_end_of_what_was_said():
    with pytest.raises(commands.CommandError) as failure:
        commands.run_command(["sh", "-c", "seq 100; echo no such thing >&2; exit 3"])
    assert failure.value.last_line == "no such thing"
    lines = str(failure.value).splitlines()
    assert lines[0].startswith("this command failed: sh -c")
    assert len(lines) == 1 + commands.TAIL


def test_interrupt_ends_what_the_command_started(tmp_path, monkeypatch):
    """Ctrl-C during an installation ends the compilers that pip has started, too, and removes their files."""
    pid, temporary = tmp_path / "pid", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))

    def interrupt(*_: object) -> None:
        if pid.exists() and pid.read_text():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            commands.run_command(["sh", "-c", f"echo > $TMPDIR/left; sleep 60 & echo $! > {pid}; wait"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    real_uwsgi.wait_until(lambda: not _runs(int(pid.read_text())), 30, "the grandchild to end")
    assert list(temporary.iterdir()) == []


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as text:
            return text.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
