"""The rules pass their promtool cases, and every alert follows the policy: a case that fires and one that is silent,
a text that a person can act on, and no query in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import promtool
from tools.environments import ROOT

TESTS = ROOT / "alerts" / "tests"
RULES = sorted(promtool.RULES.glob("*.yaml"))
GROUPS: list[dict[str, Any]] = yaml.safe_load((promtool.RULES / "alerts.yaml").read_text())["groups"]
ALERTS: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
NAMES = sorted({alert["alert"] for alert in ALERTS})
MOST_ALERTS, MOST_BYTES = 14, {"alerts.yaml": 12_000, "recording.yaml": 25_000}


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the file and each case in it, as a file of its own."""
    for path in sorted(TESTS.glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        for case in document["tests"]:
            yield path.name, {**document, "tests": [case]}


CASES = list(cases())


@pytest.mark.parametrize(
    ("file", "document"), CASES, ids=[f"{file} {of['tests'][0]['name'][:60]}" for file, of in CASES]
)
def test_promtool(file: str, document: dict[str, Any], tmp_path: Path) -> None:
    """promtool accepts the case. It gets only the rules that matter to it: it evaluates all that it gets."""
    (case,) = document["tests"]
    files = [TESTS / path for path in document["rule_files"]]
    alerts = [asked["alertname"] for asked in case.get("alert_rule_test", ())]
    expressions = [asked["expr"] for asked in case.get("promql_expr_test", ())]
    rules = promtool.write_rules(tmp_path, files, promtool.rules_read(files, expressions, alerts), alerts)
    groups = [group["name"] for path in rules for group in json.loads(path.read_text())["groups"]]
    order = [name for name in document.get("group_eval_order", ()) if name in groups]
    path = tmp_path / file
    path.write_text(json.dumps({**document, "rule_files": [str(path) for path in rules], "group_eval_order": order}))
    assert alerts or expressions
    assert promtool.complaints("test", "rules", path) == ""


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_prometheus_accepts_the_file(path: Path) -> None:
    """Expressions, templates and names are valid, no rule occurs twice, and the file can be read in one sitting."""
    assert promtool.complaints("check", "rules", "--lint-fatal", path) == ""
    assert path.stat().st_size <= MOST_BYTES.get(path.name, 2000)


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_has_its_cases(name: str) -> None:
    """An alert has a case in which it fires, with its whole text, and one in which it does not."""
    of = [case for _, document in CASES for case in document["tests"] if case["name"].startswith(f"{name}: ")]
    assert {case["name"].split(": ")[1] for case in of} == {"fires", "silent"}
    asked = [asked for case in of for asked in case.get("alert_rule_test", ()) if asked["alertname"] == name]
    assert any(fired["exp_annotations"] for each in asked for fired in each["exp_alerts"])


def test_alerts_are_few() -> None:
    assert len(ALERTS) <= MOST_ALERTS
    severities = {alert["labels"]["severity"] for alert in ALERTS if alert["alert"] != "UwsgiServersMissing"}
    assert severities == {"critical", "warning", "info"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_is_needed(alert: dict[str, Any]) -> None:
    """The summary says what is wrong and where, in one line; the description begins with the act, and has two lines at
    most. No text asks Prometheus, names a PID, or changes which alert it is."""
    annotations = alert["annotations"]
    for name, text in annotations.items():
        assert text.count("{{") == text.count("}}"), name
        assert not re.search(r"\bquery\b|labels\.pid|uwsgi_\w*pid|humanizeDuration", text), name
    summary, description = annotations["summary"], annotations["description"]
    assert "{{ $labels.instance }}" in summary
    assert "\n" not in summary
    assert len(description.splitlines()) <= 2
    if "topk" in alert["expr"]:
        texts = {"title", "act", "evidence", "worker_id"}
        assert {name for name, value in alert["labels"].items() if value == ""} == texts
        assert alert["expr"].startswith(f"topk without ({', '.join(['title', 'act', 'evidence', 'worker_id'])}) (1, ")
    if alert["alert"] != "UwsgiExporterDown":
        assert annotations["runbook_url"].startswith("http://{{ $labels.instance }}/runbooks/")


def test_the_runbooks_can_be_elsewhere() -> None:
    """The line at the top of the file changes the address of every runbook."""
    text = (promtool.RULES / "alerts.yaml").read_text()
    found = re.search(r"sed -i 's#(.*?)#(.*?)#'", text)
    assert found, "no such line"
    changed = yaml.safe_load(text.replace(found[1], found[2]))["groups"]
    links = [rule["annotations"].get("runbook_url") for group in changed for rule in group["rules"]]
    assert [link for link in links if link and not link.startswith("https://example.org/runbooks/")] == []
