"""Prometheus accepts every configuration that docs/fleet.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import promtool

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "fleet.md"
CONFIGURATIONS = re.findall(r"```yaml\n(# (\S+\.yml)\n.*?)```", GUIDE.read_text(), re.DOTALL)


def test_there_are_examples() -> None:
    """Otherwise the next test says nothing."""
    assert {name for _, name in CONFIGURATIONS} >= {"prometheus.yml", "agent.yml", "central.yml", "shard.yml"}


@pytest.mark.parametrize(("text", "name"), CONFIGURATIONS, ids=[name for _, name in CONFIGURATIONS])
def test_promtool_accepts(text: str, name: str, tmp_path: Path) -> None:
    """Without rule files and token files, which are not here."""
    path = tmp_path / name
    path.write_text(text)
    arguments = ["--agent"] if name == "agent.yml" else []
    assert promtool.complaints("check", "config", "--syntax-only", *arguments, path) == ""


def test_a_mistake_is_refused(tmp_path: Path) -> None:
    """So that an accepted file means something."""
    path = tmp_path / "wrong.yml"
    path.write_text("scrape_configs:\n  - job_nam: uwsgi\n")
    assert "job_nam" in promtool.complaints("check", "config", "--syntax-only", path)
