"""`python3 -m dashboards` writes and checks files, with the thresholds of the rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.dashboards.dashboard_queries import panels

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="grafana-foundation-sdk needs Python 3.11")


def run(*arguments: str) -> int:
    """Runs `python3 -m dashboards`; returns its status."""
    from dashboards.__main__ import main  # noqa: PLC0415  (cannot be imported by Python 3.10)

    return main(list(arguments))


def test_drift_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` says which file differs."""
    assert run("--out", str(tmp_path)) == 0
    assert run("--check", "--out", str(tmp_path)) == 0
    (tmp_path / "fleet.json").write_text("{}")
    assert run("--check", "--out", str(tmp_path)) == 1
    assert capsys.readouterr().err == f"{tmp_path}/fleet.json differs from the output of `python3 -m dashboards`\n"


@pytest.mark.parametrize(
    ("assignment", "file", "title", "steps"),
    [
        ("uneven_ratio=1.7", "server.json", "Hot worker: hot ratio", [None, 1.7]),
        ("interpreter_full=0.8", "server.json", "Interpreter load by worker", [None, 0.8]),
        ("headroom_low=1.6", "fleet.json", "Least headroom", [None, 1.1111, 1.6]),
        ("near_capacity=0.8", "server.json", "Threads busy", [None, 0.8, 0.8]),
        ("burn_page_1h=10", "server.json", "Burn rate of the error budget", [None, 1, 6, 10]),
        ("cpu_full=0.7", "affinity.json", "CPU used", [None, 0.7]),
    ],
)
def test_thresholds_are_those_of_the_rules(
    assignment: str, file: str, title: str, steps: list[float | None], tmp_path: Path
) -> None:
    """A threshold that changes an alert also changes the colours."""
    assert run("--out", str(tmp_path), "--set", assignment) == 0
    (panel,) = [panel for panel in panels(json.loads((tmp_path / file).read_text())) if panel["title"] == title]
    assert [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]] == steps


def test_another_window_is_in_the_recorded_names(tmp_path: Path) -> None:
    """The capacity review queries the series that the rules record for this window."""
    assert run("--out", str(tmp_path), "--set", "window=10m") == 0
    text = (tmp_path / "capacity.json").read_text()
    assert "server:uwsgi_utilization:ratio_rate10m" in text
    assert "ratio_rate5m" not in text
