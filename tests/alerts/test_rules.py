"""The rules pass their promtool cases, and every alert follows the policy: silent cases first, actionable texts."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from alerts import files
from alerts.rule import Alert, document
from alerts.thresholds import Thresholds, changed
from tests.alerts.cases.files import documents, write
from tests.support import promtool

RULES = sorted(promtool.RULES.glob("*.yaml"))
TESTS = list(documents())
ALERTS = [
    rule
    for groups in files.FILES.values()
    for group in groups(Thresholds())
    for rule in group.rules
    if isinstance(rule, Alert)
]
KINDS = ("silent", "boundary", "fires", "counter reset", "missing server", "duplicate series")
PAGES = 9
"""Nobody reads more pages than these: a server down, a saturated worker, no free thread, a full queue, a severe wait,
stuck threads, lost requests, workers in a respawn loop, and no application."""

ASKED_FOR = {"UwsgiErrorBudgetBurning", "UwsgiServersMissing"}
"""Pages that only those get who configured them: their objective, or the number of servers that they expect, says when
they want to be woken."""

OF_EXPORTERS = {"UwsgiExporterDown", "UwsgiServersMissing", "UwsgiHostFull"}
"""Alerts that are about no single server."""

LEAST_HOLD = 60.0
"""Seconds: two scrapes, half a minute apart. One scrape is not enough for a page or a ticket."""


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a document, with their names, series and expectations."""
    tests: list[dict[str, Any]] = documents()[name]["tests"]
    return tests


def named(alert: Alert) -> str:
    return f"{alert.alert}-{alert.severity}"


@pytest.mark.parametrize("name", TESTS)
def test_promtool(name: str, tmp_path: Path) -> None:
    """promtool accepts every case of the document."""
    assert promtool.complaints("test", "rules", *write(name, tmp_path)) == ""


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_prometheus_accepts_the_file(path: Path) -> None:
    """Expressions, templates and names are valid, and no rule occurs twice."""
    assert promtool.complaints("check", "rules", "--lint-fatal", path) == ""


@pytest.mark.parametrize("alert", ALERTS, ids=named)
def test_an_alert_has_its_cases(alert: Alert) -> None:
    """An alert has at least one case of each of the six kinds; silence matters as much as firing."""
    names = [case["name"].split(": ", 2) for document in TESTS for case in cases(document)]
    missing = [kind for kind in KINDS if not any(name[:2] == [alert.alert, kind] for name in names)]
    assert not missing, f"add cases to tests/alerts/cases, named '{alert.alert}: {missing[0]}: what it shows'"


@pytest.mark.parametrize("name", TESTS)
def test_a_case_is_of_something(name: str) -> None:
    """The name of a case has the alert, the kind of case, and what it shows."""
    alerts = [rule.alert for rule in ALERTS]
    for case in cases(name):
        alert, kind, shows, *_ = *case["name"].split(": ", 2), "", ""
        right = (alert in alerts and kind in KINDS and shows) or not alert.startswith("Uwsgi")
        assert right, f"{case['name']!r}: name it '<alert>: <{'|'.join(KINDS)}>: what it shows'"


@pytest.mark.parametrize("name", TESTS)
def test_a_case_expects_something(name: str) -> None:
    """A case has expectations; promtool would accept one without any."""
    for case in cases(name):
        assert case.get("alert_rule_test") or case.get("promql_expr_test"), f"{case['name']}: say what is expected"


@pytest.mark.parametrize("alert", ALERTS, ids=named)
def test_the_text_of_a_firing_alert_is_tested(alert: Alert) -> None:
    """A case checks every label and annotation, as a person reads them."""
    tested = [
        fired
        for document in TESTS
        for case in cases(document)
        if case["name"].startswith(f"{alert.alert}: fires: ")
        for asked in case.get("alert_rule_test", [])
        if asked["alertname"] == alert.alert
        for fired in asked["exp_alerts"]
        if fired["exp_labels"]["severity"] == alert.severity
    ]
    assert tested, f"add an alert_rule_test with exp_labels and exp_annotations to a case '{alert.alert}: fires: ...'"
    for fired in tested:
        texts = " ".join(fired["exp_annotations"].values())
        lines = fired["exp_annotations"]["description"].splitlines()
        assert [line[:3] for line in lines[:-1]] in ([f"{place}. " for place in range(1, last)] for last in (4, 5))
        assert not re.search(r"\dd \d+h|\dm \d+s|unknown worker", texts)
        assert "unknown" not in texts, "give the case the series that its text needs"
        assert not re.search(r"\{\{|%!|<no value>|<nil>|NaN|<error", fired["exp_annotations"]["summary"])


def test_alerts_have_names_of_their_own() -> None:
    """Two alerts of one name are a ticket and a page about the same problem, distinguished by severity."""
    names = [alert.alert for alert in ALERTS]
    assert all(name.startswith("Uwsgi") for name in names)
    for name in set(names):
        severities = [alert.severity for alert in ALERTS if alert.alert == name]
        assert len(severities) == 1 or severities == ["warning", "critical"], name


def test_pages_are_few() -> None:
    """A page wakes somebody up; everything else waits until morning."""
    assert {alert.severity for alert in ALERTS} <= {"critical", "warning", "info"}
    every = [alert.alert for alert in ALERTS if alert.severity == "critical"]
    assert len(set(every)) == len(every)
    assert set(every) >= ASKED_FOR
    pages = [page for page in every if page not in ASKED_FOR]
    assert len(pages) <= PAGES, f"make one of them a ticket (warning): {', '.join(pages)}"


@pytest.mark.parametrize("alert", ALERTS, ids=named)
def test_an_alert_says_all_that_is_needed(alert: Alert) -> None:
    """The summary says in one sentence what is wrong and where; the description has three acts, each a sentence, and
    then the figures. No text has leftovers of Python's formatting, a duration of four units, or a PID."""
    annotations = alert.document(Thresholds())["annotations"]
    for name, text in annotations.items():
        assert text.strip(), f"write the {name}"
        assert not re.search(r"\{[\w.]+\}", text), f"{name}: an f is missing before a string, or braces too many"
        assert text.count("{{") == text.count("}}"), f"{name}: a template is not closed"
        assert "humanizeDuration" not in text, f"{name}: use DURATION"
        assert not re.search(r"labels\.pid|uwsgi_\w*pid", text), f"{name}: a PID is old when the alert is read"
    summary = annotations["summary"]
    assert "{{ $labels.instance }}" in summary, "name the instance in the summary"
    assert "{{ $labels.server }}" in summary or alert.alert in OF_EXPORTERS, "name the server in the summary"
    assert summary.endswith("."), "end the summary's sentence"
    assert "\n" not in summary, "keep the summary to one line"
    for line in (*alert.acts, alert.evidence):
        assert "\n" not in line, "keep each act to one line"
        assert re.search(r"[.?}]$", line), f"end the sentence: {line}"


@pytest.mark.parametrize("alert", ALERTS, ids=named)
def test_the_title_of_a_page_is_not_that_of_a_ticket(alert: Alert) -> None:
    """Who reads a title knows whether to get up."""
    others = [other.summary for other in ALERTS if other is not alert]
    assert alert.summary not in others


@pytest.mark.parametrize("alert", ALERTS, ids=named)
def test_links_lead_somewhere(alert: Alert) -> None:
    """There is no link to a Grafana without an address, nor to the exporter that is down, nor to the machine of the
    person who reads the alert. A copy of the runbooks is there for all."""
    links = alert.document(Thresholds())["annotations"].keys() - {"summary", "description"}
    assert links == ({"runbook_url"} if alert.alert != "UwsgiExporterDown" else set())
    own = Thresholds(grafana="https://grafana.example.org", runbooks="https://books.example.org")
    annotations = alert.document(own)["annotations"]
    assert annotations["runbook_url"] == f"https://books.example.org/{alert.alert}.md"
    assert annotations["dashboard_url"].startswith("https://grafana.example.org/d/uwsgi-headroom-")


@pytest.mark.parametrize("alert", ALERTS, ids=named)
def test_an_alert_waits_for_more_than_one_scrape(alert: Alert) -> None:
    """A single odd scrape raises no alert."""
    hold = dataclasses.replace(Thresholds(), window=alert.hold).window_seconds
    assert hold >= LEAST_HOLD, f"hold {alert.alert} for {LEAST_HOLD:g} s at least, not for {alert.hold or 'nothing'}"


@pytest.mark.parametrize("threshold", dataclasses.fields(Thresholds), ids=lambda field: field.name)
def test_a_threshold_turns_something(threshold: dataclasses.Field[Any]) -> None:
    """Another value changes the rules, and the threshold says why one would want that."""
    value = getattr(Thresholds(), threshold.name)
    other = f"7{value}" if isinstance(value, str) else 2 * value + 1
    turned = changed(Thresholds(), [f"{threshold.name}={other}"])
    written, shipped = ([document(groups(of), of) for groups in files.FILES.values()] for of in (turned, Thresholds()))
    assert written != shipped, f"no rule uses {threshold.name}: remove it"
    assert re.fullmatch(r".{20,}\.", threshold.metadata["why"]), f"say why one would change {threshold.name}"
