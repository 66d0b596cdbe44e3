"""Tests that a step prints its name, shows activity, and then prints how long it took."""

from __future__ import annotations

import io
import re
import time

import pytest

from tests.support import real_uwsgi
from tools import commands


class Terminal(io.StringIO):
    """Stands in for a terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Makes updates follow each other quickly."""
    monkeypatch.setattr(commands, "SECOND", 0.01)
    monkeypatch.setattr(commands, "DOT", 0.01)
    monkeypatch.setenv("COLUMNS", "80")


def test_step_in_a_pipe_grows_by_dots(monkeypatch):
    """In a pipe, a step prints dots and then its time."""
    monkeypatch.setattr("sys.stdout", pipe := io.StringIO())
    with commands.show_step("building"):
        real_uwsgi.wait_until(lambda: ".." in pipe.getvalue(), what="two dots")
    assert re.fullmatch(r"  building\.{2,} *\d+\.\d s\n", pipe.getvalue())
    assert "\r" not in pipe.getvalue()


def test_step_on_a_terminal_counts_seconds_in_place(monkeypatch):
    """Each update overwrites the one before, in lines of the same length that do not wrap."""
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    began = time.monotonic()
    with commands.show_step("building"):
        entered = time.monotonic()
        real_uwsgi.wait_until(lambda: terminal.getvalue().count("   s") >= 2, what="two times")
        inside = time.monotonic() - entered
    whole = time.monotonic() - began
    assert terminal.getvalue().count("\n") == 1
    _, *lines = terminal.getvalue().rstrip("\n").split("\r")
    assert {len(line) for line in lines} == {len("  ") + commands.WIDTH + len("     1.0 s")}
    assert lines[-1].startswith("  building  ")
    assert lines[-1].endswith(" s")
    assert inside - 0.06 <= float(lines[-1].split()[-2]) <= whole + 0.06  # it is rounded to a tenth


def test_narrow_terminal_cuts_the_sentence(monkeypatch):
    """On a narrow terminal the text is cut, so that the line does not wrap."""
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    with commands.show_step("building something with a long name"):
        pass
    assert max(len(line) for line in terminal.getvalue().split("\r")) <= 30


def test_failed_step_is_not_done(monkeypatch):
    monkeypatch.setattr("sys.stdout", pipe := io.StringIO())
    with pytest.raises(KeyError), commands.show_step("building"):
        raise KeyError
    assert pipe.getvalue().endswith("not done\n")


def test_work_is_done_although_nobody_reads(monkeypatch):
    """A closed terminal does not prevent the work in a step."""

    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    done = []
    with commands.show_step("ending"):
        commands.note("a note")
        done.append("ended")
    assert done == ["ended"]
