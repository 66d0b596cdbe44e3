"""Runs promtool's tests of rules from Python: given series, an expression must have no value."""

import functools
import json
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.monitoring import find
from tools.environments import ROOT

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


def list_rules(files: Iterable[Path]) -> list[dict[str, Any]]:
    return [rule for path in files for group in _groups(path) for rule in group["rules"]]


def rules_read(rules: Iterable[Path], expressions: Iterable[str], alerts: Collection[str] = ()) -> frozenset[str]:
    """The names of the rules that matter to these expressions: of the alerts, these and those of which an expression
    asks; of the recording rules, those that an alert among them or an expression reads. An expression that asks for
    `ALERTS` without a name asks for all. Promtool evaluates what it is given, and has nothing else to do.
    """
    every = list_rules(rules)
    recorded = {rule["record"] for rule in every if "record" in rule}
    unread = list(expressions)
    asked = [name for text in unread for name in _ALERTS.findall(text)]
    named = {rule["alert"] for rule in every if "alert" in rule} if "" in asked else {*alerts, *asked}
    unread += [json.dumps(rule) for rule in every if rule.get("alert") in named]
    read: set[str] = set()
    while unread:
        found = recorded & set(_NAME.findall(unread.pop())) - read
        read |= found
        unread += [rule["expr"] for rule in every if rule.get("record") in found]
    return frozenset(named | read)


def write_rules(
    directory: Path, rules: Iterable[Path], names: Collection[str], described: Collection[str] = ()
) -> list[Path]:
    """Copies rule files into `directory`, each with its rules of these names only, and returns the copies. described:
    the alerts that keep their annotations."""
    written = []
    for path in rules:
        groups = [{**group, "rules": _copied(group["rules"], names, described)} for group in _groups(path)]
        written.append(directory / path.name)
        written[-1].write_text(json.dumps({"groups": [group for group in groups if group["rules"]]}))
    return written


def _copied(
    rules: Iterable[Mapping[str, Any]], names: Collection[str], described: Collection[str]
) -> list[dict[str, Any]]:
    kept = [rule for rule in rules if (rule.get("alert") or rule["record"]) in names]
    return [
        {key: of for key, of in rule.items() if key != "annotations" or rule["alert"] in described} for rule in kept
    ]


_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_ALERTS = re.compile(r'\bALERTS(?:\{alertname="(\w+)"|\b)')
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a PyYAML built without libyaml has only the slow loader


@functools.cache
def _groups(path: Path) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.load(path.read_text(), _LOADER)["groups"]
    return groups


def evaluate(
    directory: Path,
    series: Mapping[str, str],
    interval: str,
    asked: Iterable[Mapping[str, object]],
    rules: Iterable[Path] = (),
    evaluation: str = "",
) -> str:
    """Returns promtool's output unless the queries on these series have the expected samples; empty if they have.

    series: values in promtool's notation, one per interval; evaluation: of the rules, by default once per interval.
    """
    written = [{"series": name, "values": values} for name, values in series.items()]
    document = {
        "rule_files": [str(path) for path in rules],
        "evaluation_interval": evaluation or interval,
        "tests": [{"interval": interval, "input_series": written, "promql_expr_test": list(asked)}],
    }
    path = directory / "asked.test.yaml"
    path.write_text(json.dumps(document))  # valid YAML, written in a tenth of the time
    return complaints("test", "rules", path)


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
    written = {
        name: " ".join("_" if value is None else repr(float(value)) for value in values)
        for name, values in series.items()
    }
    queries = [{"expr": expression, "eval_time": at, "exp_samples": []} for expression in expressions]
    return evaluate(directory, written, interval, queries, [RULES / name for name in rules], evaluation=at)
