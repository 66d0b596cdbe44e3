"""Every case of the alerts for promtool: those written as YAML in `alerts/tests`, and those made by Python here."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.alerts.cases import balance, capacity, forecast
from tests.alerts.cases.case import Case
from tests.support.promtool import ROOT, RULES

WRITTEN = sorted((ROOT / "alerts" / "tests").glob("*.test.yaml"))
"""The files of cases that are written by hand, one for each subject."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a PyYAML built without libyaml has the slow one alone
_MADE = ((balance, "1m"), (capacity, "1m"), (forecast, "2h"))
"""Modules of cases, and the time between two evaluations of the rules in them."""


@functools.cache
def documents() -> Mapping[str, Mapping[str, Any]]:
    """What `promtool test rules` reads, by name: a document per written file, and per alert of the cases made here."""
    written = {path.name.partition(".")[0]: _absolute(yaml.load(path.read_text(), _LOADER)) for path in WRITTEN}
    made = {
        alert: _document(cases, module.RULES, evaluation)
        for module, evaluation in _MADE
        for alert, cases in _by_alert(module.CASES).items()
    }
    return {**written, **made}


def write(name: str, directory: Path) -> Path:
    """Write one document into `directory` (as JSON, which is YAML too, and quicker to read)."""
    path = directory / f"{name}.test.yaml"
    path.write_text(json.dumps(documents()[name]))
    return path


def _by_alert(cases: Sequence[Case]) -> dict[str, list[Case]]:
    alerts: dict[str, list[Case]] = {}
    for case in cases:
        alerts.setdefault(case.alert, []).append(case)
    return alerts


def _document(cases: Sequence[Case], rules: Sequence[str], evaluation: str) -> dict[str, Any]:
    return {
        "rule_files": [str(RULES / name) for name in rules],
        "evaluation_interval": evaluation,
        "tests": [case.document() for case in cases],
    }


def _absolute(document: dict[str, Any]) -> dict[str, Any]:
    """The document with rule files that are found from any directory."""
    return {**document, "rule_files": [str(RULES / Path(name).name) for name in document["rule_files"]]}
