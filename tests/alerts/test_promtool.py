"""promtool's own tests of the rules, beside which they stand: alerts/tests/*.test.yaml."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.alerts.promtool import ROOT, program

FILES = sorted((ROOT / "alerts" / "tests").glob("*.test.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda it: it.name.removesuffix(".test.yaml"))
def test_rules(path: Path) -> None:
    """Every case of the file; promtool names those that fail."""
    ran = subprocess.run([program(), "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
