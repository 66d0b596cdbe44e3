"""Programs start in order, are watched, and end in reverse."""

from __future__ import annotations

import pytest

from app import programs
from app.programs import Program, ProgramError, running
from tests import real


def shell(name, script, ready=lambda: True):
    return Program(name=name, sentence=f"starting {name}", command=["sh", "-c", script], ready=ready)


def lasting(name, diary):
    """A program that writes its start and its end into the diary; it is ready when its start is written."""
    script = f"trap 'echo {name} ends >> {diary}; exit' TERM; echo {name} starts >> {diary}; sleep 60 & wait"
    return shell(name, script, ready=lambda: diary.exists() and f"{name} starts" in diary.read_text())


def test_each_starts_when_the_one_before_is_ready(tmp_path):
    diary = tmp_path / "diary"
    with running([lasting("a", diary), lasting("b", diary)], tmp_path, tmp_path) as check:
        check()
        assert diary.read_text().splitlines() == ["a starts", "b starts"]
    assert sorted(diary.read_text().splitlines()[2:]) == ["a ends", "b ends"]


def test_one_that_ends_is_reported_with_its_last_words(tmp_path):
    """The others would show half a picture, so the check raises."""
    programs_ = [lasting("a", tmp_path / "diary"), shell("b", "echo the disk is full; sleep 0.1; exit 7")]
    ended = ""
    with running(programs_, tmp_path, tmp_path) as check:

        def has_ended() -> bool:
            nonlocal ended
            try:
                check()
            except ProgramError as error:
                ended = str(error)
            return bool(ended)

        real.wait_until(has_ended, what="the end to be noticed")
    assert ended == "b ended (status 7). Its last words:\n  | the disk is full"
    assert "a ends" in (tmp_path / "diary").read_text()


def test_one_that_ends_before_it_is_ready_ends_all(tmp_path):
    diary = tmp_path / "diary"
    failing = shell("b", "kill -9 $$", ready=lambda: False)
    with (
        pytest.raises(ProgramError, match=r"^b ended \(SIGKILL\), silently$"),
        running([lasting("a", diary), failing], tmp_path, tmp_path),
    ):
        pass
    assert diary.read_text().splitlines() == ["a starts", "a ends"]


def test_one_that_never_becomes_ready_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "START_SECONDS", 0.2)
    stuck = shell("a", "echo waiting for a lock; exec sleep 60", ready=lambda: False)
    with (
        pytest.raises(ProgramError, match=r"a is not ready after 0\.2 s.*\n.*waiting for a lock"),
        running([stuck], tmp_path, tmp_path),
    ):
        pass


def test_one_that_ignores_the_end_is_ended_for_certain(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "STOP_SECONDS", 0.2)
    marker = tmp_path / "marker"
    script = f"trap '' TERM; echo > {marker}; while :; do sleep 60; done"
    with running([shell("a", script, ready=marker.exists)], tmp_path, tmp_path):
        pass  # the block ends within moments, or this test takes a minute
