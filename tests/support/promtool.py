"""Runs promtool's tests of rules from Python: given series, an expression must have no value."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tools.environments import ROOT
from tools.support.monitoring import find

RULES = ROOT / "alerts" / "rules"


def program() -> str:
    """The path of promtool, or of another version set in `PROMTOOL`. Raises RuntimeError if there is none."""
    return os.environ.get("PROMTOOL") or str(find("promtool"))


def complaints(*arguments: str | Path) -> str:
    """Runs promtool and returns its output if it fails, else an empty string.

    Several run in parallel, so each gets one CPU, and collects garbage less often than Go's default.
    """
    environment = {**os.environ, "GOMAXPROCS": "1", "GOGC": "400"}
    ran = subprocess.run([program(), *arguments], capture_output=True, text=True, check=False, env=environment)
    return ran.stdout + ran.stderr if ran.returncode else ""


def nothing(
    directory: Path,
    rules: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    interval: str,
    at: str,
    expressions: Sequence[str],
) -> str:
    """Returns promtool's output if one of these expressions has a value at this time; empty if none has.

    series: values from time 0 on, one per interval; None for no value.
    """
    written = [
        {"series": name, "values": " ".join("_" if value is None else repr(float(value)) for value in values)}
        for name, values in series.items()
    ]
    queries = [{"expr": expression, "eval_time": at, "exp_samples": []} for expression in expressions]
    document = {
        "rule_files": [str(RULES / name) for name in rules],
        "evaluation_interval": at,
        "tests": [{"interval": interval, "input_series": written, "promql_expr_test": queries}],
    }
    path = directory / "asked.test.yaml"
    path.write_text(yaml.safe_dump(document, width=1_000_000))
    return complaints("test", "rules", path)
