"""Each target prepares only what it needs, and names what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import chromium, debian, environments, lab_environment, prepare
from tools.environments import Environment


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
    monkeypatch.setattr(chromium, "NAMES", ("no-such-browser",))
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
    monkeypatch.setattr(lab_environment, "prepare", lambda: prepared.append("servers"))
    assert prepare.main(["lab"]) is None
    assert prepared == [prepare.EXTRAS, "uwsgi", "servers"]
