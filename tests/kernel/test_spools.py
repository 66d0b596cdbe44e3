"""Tasks in the directories of spoolers are counted by their names and times, seldom, and never read."""

import os
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.simulated_server import Server
from uwsgi_headroom.kernel import spools
from uwsgi_headroom.kernel.aside import Direct, NotYetError, PausedError
from uwsgi_headroom.kernel.spools import Spools
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.raw import Spooler

T = TypeVar("T")


def with_spoolers(*directories: str) -> Snapshot:
    snapshot = Server().read(0.0).snapshot
    return snapshot.__class__(
        **{name: getattr(snapshot, name) for name in snapshot.__struct_fields__ if name != "spoolers"},
        spoolers=tuple(Spooler(directory=directory, tasks=1) for directory in directories),
    )


def add_tasks(folder: Path, number: int, first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for place in range(first, first + number):
        (folder / f"uwsgi_spoolfile_on_host_1_{place}").touch()


def count(*directories: str) -> list[int | None]:
    found = Spools().read(os.getpid(), with_spoolers(*directories), 0.0)
    return [found.get(directory) for directory in directories]


def test_tasks_are_counted(tmp_path, monkeypatch):
    """With those of priorities, without other files and tasks for later. Names are below the master's directory."""
    monkeypatch.chdir(tmp_path.parent)
    add_tasks(tmp_path, 3)
    add_tasks(tmp_path / "10", 2)
    add_tasks(tmp_path / "other", 5)
    (tmp_path / "notes").touch()
    later = tmp_path / "uwsgi_spoolfile_on_host_later"
    later.touch()
    os.utime(later, (time.time() + 3600, time.time() + 3600))
    assert count(str(tmp_path), tmp_path.name) == [5, 5]


@pytest.mark.parametrize("name", ["", "/no/such", "/etc/passwd", "/a\0b", "../" * 2000, "/proc/1/root\n"])
def test_of_a_name_that_cannot_be_listed_nothing_is_known(name):
    assert count(name) == [None]


def test_it_is_asked_seldom(tmp_path):
    add_tasks(tmp_path, 1)
    asked, snapshot = Spools(), with_spoolers(str(tmp_path))
    first = asked.read(os.getpid(), snapshot, 0.0)
    add_tasks(tmp_path, 1, first=1)
    assert asked.read(os.getpid(), snapshot, 9.9) is first
    assert asked.read(os.getpid(), snapshot, 10.0) == {str(tmp_path): 2}
    assert asked.read(os.getpid(), with_spoolers("/no/such"), 10.1) == {}


class Late(Direct):
    """Answers the first questions late, then never."""

    def __init__(self, *errors: OSError) -> None:
        self.errors = list(errors)

    def ask(self, question: Callable[..., T], *arguments: Hashable) -> T:
        if self.errors:
            raise self.errors.pop(0)
        return question(*arguments)


def test_a_directory_that_does_not_answer_is_not_asked_again_at_once(tmp_path):
    (tmp_path / "uwsgi_spoolfile_on_a").touch()
    snapshot = with_spoolers(str(tmp_path))
    late = Spools(Late(NotYetError(), NotYetError()))
    assert [late.read(os.getpid(), snapshot, now) for now in (0.0, 0.2, 0.4)] == [{}, {}, {str(tmp_path): 1}]
    never = Spools(Late(PausedError("hung")))
    assert [never.read(os.getpid(), snapshot, now) for now in (0.0, 9.9, 10.0)] == [{}, {}, {str(tmp_path): 1}]


def test_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "MOST", 10)
    asked: list[str] = []
    monkeypatch.setattr(
        spools, "_count", lambda pid, name, real=spools._count: (asked.append(name), real(pid, name))[1]
    )
    add_tasks(tmp_path, 20)
    many = [str(tmp_path), *(str(tmp_path / str(number)) for number in range(100))]
    assert Spools().read(os.getpid(), with_spoolers(*many), 0.0) == {str(tmp_path): 10}
    assert len(asked) == spools.MOST_DIRECTORIES
