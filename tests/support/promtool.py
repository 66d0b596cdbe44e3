"""Runs promtool's tests of rules from Python: given series, an expression must have no value."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


def rules_read(directory: Path, rules: Iterable[Path], expressions: Iterable[str]) -> list[Path]:
    """Copies rule files into `directory` and returns the copies, without the recording rules that neither an alert nor
    one of these expressions reads: half of the rules, whose evaluation would take half of promtool's time.
    """
    files = {path.name: _groups(path) for path in rules}
    every = [rule for groups in files.values() for group in groups for rule in group["rules"]]
    recorded = {rule["record"] for rule in every if "record" in rule}
    read: set[str] = set()
    unread = [*expressions, *(json.dumps(rule) for rule in every if "alert" in rule)]
    while unread:
        found = recorded & set(_NAME.findall(unread.pop())) - read
        read |= found
        unread += [rule["expr"] for rule in every if rule.get("record") in found]
    for name, groups in files.items():
        kept = [
            {**group, "rules": [rule for rule in group["rules"] if "alert" in rule or rule["record"] in read]}
            for group in groups
        ]
        (directory / name).write_text(json.dumps({"groups": [group for group in kept if group["rules"]]}))
    return [directory / name for name in files]


_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a PyYAML built without libyaml has only the slow loader


@functools.cache
def _groups(path: Path) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.load(path.read_text(), _LOADER)["groups"]
    return groups


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
