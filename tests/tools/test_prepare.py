"""Each target prepares only what it needs, and names what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import debian, environments, prepare
from tools.environments import Environment, SetupError


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of everything that was prepared, on a machine without a browser."""
    made: list[str] = []

    def project(extras: str) -> Environment:
        made.append(extras)
        return Environment(tmp_path)

    monkeypatch.setattr(environments, "project", project)
    monkeypatch.setattr(environments, "uwsgi_for_tests", lambda: made.append("uwsgi"))
    monkeypatch.setattr(debian, "ensure_programs", lambda _directory: made.append("prometheus"))
    monkeypatch.setattr(prepare, "NAMES", ("no-such-browser",))
    return made


def test_lint_needs_the_project_alone(prepared: list[str]) -> None:
    """`lint` needs neither uWSGI nor Prometheus nor a browser."""
    assert prepare.main(["lint"]) is None
    assert prepared == [prepare.EXTRAS]


def test_tests_need_a_browser(prepared: list[str]) -> None:
    """All tests include those of the page, so a missing browser is reported before anything runs."""
    assert "this machine lacks Chromium" in str(prepare.main(["test"]))
    assert "prometheus" not in prepared


def test_chosen_tests_need_no_browser(prepared: list[str]) -> None:
    """Tests that somebody chooses may have nothing to do with the page."""
    assert prepare.main(["chosen-tests"]) is None
    assert prepared == [prepare.EXTRAS, "uwsgi", "prometheus"]


def test_simulated_days_need_no_uwsgi(prepared: list[str]) -> None:
    """They are judged by promtool, which comes with Prometheus."""
    assert prepare.main(["bench-days"]) is None
    assert prepared == [prepare.EXTRAS, "prometheus"]


def test_the_lab_needs_its_servers(prepared: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`lab` needs uWSGI and the servers that it is compared with, and no browser."""
    monkeypatch.setattr(prepare, "prepare_lab", lambda: prepared.append("servers"))
    assert prepare.main(["lab"]) is None
    assert prepared == [prepare.EXTRAS, "uwsgi", "servers"]


def _program(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ["chromium", "google-chrome"])
def test_it_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Debian's name and Google's are known."""
    path = _program(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert prepare.find_browser() == str(path)


def test_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; nothing is skipped."""
    _program(tmp_path, "firefox")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="apt-get install --no-install-recommends chromium"):
        prepare.find_browser()
