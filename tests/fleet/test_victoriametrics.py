"""The shipped rules and dashboards on a real VictoriaMetrics, with a pair of scrapers and vmalert."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.fleet import capture, plan, run

NEEDED = ("prometheus", "promtool", "victoria-metrics", "vmalert")
CAPTURED = Path(__file__).parent / "captured"
RULES = Path(__file__).resolve().parents[2] / "alerts" / "rules"
SHORT = 0.08
"""Relative error of a rate over the first two minutes: loads run up to 4 s ahead of the clock or behind it."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(any(not shutil.which(name) for name in NEEDED), reason=f"needs {', '.join(NEEDED)} on PATH"),
]


def test_rules_and_dashboards(tmp_path: Path) -> None:
    """Recorded values are those of the plan, and every query of every dashboard has an answer."""
    texts = tuple((CAPTURED / f"{name}.metrics").read_text() for name in ("8x8_a_minute_before", "8x8"))
    capture.write(tmp_path / "captured", texts)  # type: ignore[arg-type]
    rules = sorted(file for file in RULES.glob("*.yaml") if not file.name.startswith("compat-"))
    result = run.run(
        run.Settings(
            directory=tmp_path / "run",
            captured=tmp_path / "captured",
            fleet=plan.Fleet(4),
            interval=5,
            minutes=2,
            kinds=["victoriametrics"],
            replicas=("a", "b"),
            rules=rules,
            relabel=[],
        )
    )
    found = result["answers"]["victoriametrics"]
    values = {name: answer for name, answer in found.items() if ":" in name}
    assert values
    for name, answer in values.items():
        assert answer["found"] == answer["wanted"], name
        assert answer["largest"] < SHORT, name
    panels = result["panels"]["victoriametrics"]
    assert panels
    assert {where: panel["status"] for where, panel in panels.items() if panel["status"] != 200} == {}
