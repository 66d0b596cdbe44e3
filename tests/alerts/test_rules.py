"""Rules and runbooks: valid, tested, few and short."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.support import promtool
from tests.support.monitoring import find
from tools.environments import ROOT
from tools.tables import RUNBOOK_OF_ALERT
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import RUNBOOKS
from uwsgi_headroom.web.runbook_pages import PLACEHOLDER, split_runbook, used_placeholders

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
def test_promtool(file, document, tmp_path):
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
def test_prometheus_accepts_the_file(path):
    """Expressions, templates and names are valid, no rule occurs twice, and the file can be read in one sitting."""
    assert promtool.complaints("check", "rules", "--lint-fatal", path) == ""
    assert path.stat().st_size <= MOST_BYTES.get(path.name, 2000)


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_has_its_cases(name):
    """An alert has a case in which it fires, with its whole text, and one in which it does not."""
    of = [case for _, document in CASES for case in document["tests"] if case["name"].startswith(f"{name}: ")]
    assert {case["name"].split(": ")[1] for case in of} == {"fires", "silent"}
    asked = [asked for case in of for asked in case.get("alert_rule_test", ()) if asked["alertname"] == name]
    assert any(fired["exp_annotations"] for each in asked for fired in each["exp_alerts"])


def test_alerts_and_runbooks_are_few_and_short():
    assert len(ALERTS) <= MOST_ALERTS
    severities = {alert["labels"]["severity"] for alert in ALERTS}
    assert {each for each in severities if "{{" not in each} == {"critical", "warning", "info"}
    assert sum(len(book.read_text().splitlines()) for book in BOOKS) <= MOST_LINES


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_is_needed(alert):
    """The summary says what is wrong and where, in one line."""
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


def test_the_runbooks_can_be_elsewhere():
    """The line at the top of the file changes the address of every runbook."""
    text = (promtool.RULES / "alerts.yaml").read_text()
    found = re.search(r"sed -i 's#(.*?)#(.*?)#'", text)
    assert found, "no such line"
    changed = yaml.safe_load(text.replace(found[1], found[2]))["groups"]
    links = [rule["annotations"].get("runbook_url") for group in changed for rule in group["rules"]]
    assert [link for link in links if link and not link.startswith("https://example.org/runbooks/")] == []


FOLDER = ROOT / "alerts" / "runbooks"
BOOKS = sorted(FOLDER.glob("*.md"))
SECTIONS = ["What it means", "Verify", "Afterwards"]
MOST_LINES, MOST_WORDS = 900, 250
SAY_IT_ALL = {
    "large_document",
    "memory_headroom_low",
    "memory_stalls",
    "workers_respawned",
    "workers_stopped",
    "master_silent",
    "unfinished_requests",
    "works_after_response",
    "router_stopped",
    "router_full",
    "connections_without_request",
    "accept_blocked",
    "cache_full",
    "connections_tracked",
    "threads_growing",
    "spooler_behind",
    "spooler_dies",
    "metrics_files",
    "threads_stand_still",
    "disk_full",
    "reloaded",
    "reload_waits",
    "workers_ending",
    "start_hangs",
    "role_takes_memory",
    "log_failure",
    "log_setting",
    "settings_hurt",
    "server_errors",
    "few_slow_requests",
    "protocol_mismatch",
    "socket_gone",
    "socket_refuses",
    "socket_replaced",
    "web_server_fails",
    "client_errors",
    "redirects",
    "requests_stopped",
    "router_dead_end",
    "routing_ends_requests",
    "connections_inherited",
    "fork_serves",
    "socket_shared",
    "vassal_refused",
}
"""Findings that need no runbook."""


def blocks(text: str, language: str) -> list[str]:
    return [dedent(block) for block in re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)]


@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_has_a_runbook(alert):
    """Its link leads to something: to a runbook, or to that of its finding's code."""
    assert (FOLDER / f"{RUNBOOK_OF_ALERT.get(alert, alert)}.md").is_file() or not RUNBOOK_OF_ALERT[alert]


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_runbook_has_its_parts(book):
    """A runbook has the problem and its effect on users in a line."""
    text = book.read_text()
    title, summary, *_ = text.split("\n\n")
    assert title == f"# {book.stem}"
    assert re.fullmatch(r"(?:[A-Z]|uWSGI )[^\n]*[^.\n]\.", summary), "one line"
    assert len(summary) <= 120
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    means, verify, afterwards = re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]
    assert means.strip()
    assert re.findall(r"^([0-9]+)\. ", verify, re.MULTILINE)[:1] == ["1"]
    assert "The problem is fixed when " in afterwards
    assert len(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split()) <= MOST_WORDS


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_placeholders_can_be_filled_in(book):
    """None is inside shell quotes, where its value would not be quoted, nor in a query except as a label."""
    body = split_runbook(book.read_text()).body
    for command in blocks(body, "sh"):
        assert not re.search(rf"""["'][^"'\n]*(?:{PLACEHOLDER.pattern})[^"'\n]*["']""", command)
    for query in blocks(body, "promql"):
        assert used_placeholders(query.replace('server="SERVER"', "")) == set()


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_queries_parse(book, tmp_path):
    queries = [line for block in blocks(book.read_text(), "promql") for line in block.splitlines()]
    rules = tmp_path / "rules.yaml"
    recorded = [{"record": f"query:{place}", "expr": query} for place, query in enumerate(queries)]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    checked = subprocess.run([find("promtool"), "check", "rules", rules], capture_output=True, text=True, check=False)
    assert "FAILED" not in checked.stdout + checked.stderr, checked.stdout + checked.stderr
    assert f"{len(queries)} rules found" in checked.stdout


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_commands_are_shell(book):
    for command in blocks(book.read_text(), "sh"):
        checked = subprocess.run(["sh", "-n"], input=command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, f"{command}: {checked.stderr}"


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_what_a_runbook_refers_to_is_there(book):
    text = book.read_text()
    assert set(re.findall(r"\bUwsgi[A-Z]\w+", text)) - {book.stem} <= {*NAMES, *(runbook.stem for runbook in BOOKS)}
    linked = re.findall(r"\[(Uwsgi\w+)\]\((Uwsgi\w+)\.md\)", text)
    assert all(name == target and (FOLDER / f"{name}.md").is_file() for name, target in linked)


def test_findings_lead_to_runbooks():
    """Each finding has an existing runbook, or is listed as needing none."""
    sources = Path(findings.__file__).parent.glob("*.py")
    codes = {code for file in sources for code in re.findall(r'code="(\w+)"', file.read_text())}
    assert codes == RUNBOOKS.keys() | SAY_IT_ALL
    assert set(RUNBOOKS.values()) <= {book.stem for book in BOOKS}
