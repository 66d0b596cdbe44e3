"""Every alert, and every finding that names one, has a runbook, and the runbook's commands are valid."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.support.monitoring import find
from tools.environments import ROOT
from tools.tables import shipped_alerts
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings.finding import RUNBOOKS
from uwsgi_headroom.web.runbook_markdown import split_runbook
from uwsgi_headroom.web.runbook_values import PLACEHOLDER, used_placeholders

FOLDER = ROOT / "alerts" / "runbooks"
BOOKS = sorted(FOLDER.glob("*.md"))
ALERTS = sorted({alert.alert for alert in shipped_alerts()})
SECTIONS = ["Verify", "Fix", "Background"]
SAY_IT_ALL = {
    "too_few_requests",
    "no_process_facts",
    "no_threads",
    "large_document",
    "thunder_lock",
    "memory_headroom_low",
    "workers_respawned",
    "workers_stopped",
    "accept_blocked",
    "cache_full",
    "connections_tracked",
    "threads_growing",
    "spooler_behind",
    "reloaded",
    "reload_waits",
    "workers_ending",
    "start_hangs",
    "role_takes_memory",
    "log_failure",
    "log_setting",
    "settings_hurt",
    "server_errors",
    "became_slower",
    "few_slow_requests",
}
"""Findings that need no runbook."""


def blocks(text: str, language: str) -> list[str]:
    return [dedent(block) for block in re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)]


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_runbook(alert: str) -> None:
    """Its link leads to something."""
    assert (FOLDER / f"{alert}.md").is_file(), f"write alerts/runbooks/{alert}.md"


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_runbook_has_its_parts(book: Path) -> None:
    """A runbook has the alert's name, a line with the problem and its effect on users, the meaning of its placeholders,
    and non-empty sections: what to verify, what to do, and why."""
    title, summary, needs, *_ = book.read_text().split("\n\n")
    assert title == f"# {book.stem}"
    assert re.fullmatch(r"(?:[A-Z]|uWSGI )[^\n]*[^.\n]\.", summary), "one line"
    assert len(summary) <= 120
    assert needs.startswith("In commands, `")
    headings = re.findall(r"^## (.*)$", book.read_text(), re.MULTILINE)
    assert headings == SECTIONS
    assert all(part.strip() for part in re.split(r"^## .*$", book.read_text(), flags=re.MULTILINE))
    verify, fix, _ = re.split(r"^## .*$", book.read_text(), flags=re.MULTILINE)[1:]
    assert re.findall(r"^([0-9]+)\. ", verify, re.MULTILINE)[:2] == ["1", "2"]
    assert "The problem is fixed when " in fix


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_placeholders_are_explained(book: Path) -> None:
    """A runbook explains the placeholders that it uses, and no others; none is inside shell quotes, where its value
    would not be quoted."""
    runbook = split_runbook(book.read_text())
    assert used_placeholders(runbook.needs) == used_placeholders(runbook.body)
    for command in blocks(runbook.body, "sh"):
        assert not re.search(rf"""["'][^"'\n]*(?:{PLACEHOLDER.pattern})[^"'\n]*["']""", command)
    for query in blocks(runbook.body, "promql"):
        assert used_placeholders(query.replace('server="SERVER"', "")) == set()


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_queries_parse(book: Path, tmp_path: Path) -> None:
    """Every PromQL block is one expression that Prometheus understands."""
    queries = blocks(book.read_text(), "promql")
    assert queries
    rules = tmp_path / "rules.yaml"
    recorded = [{"record": f"query:{place}", "expr": query} for place, query in enumerate(queries)]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    checked = subprocess.run([find("promtool"), "check", "rules", rules], capture_output=True, text=True, check=False)
    assert "FAILED" not in checked.stdout + checked.stderr, checked.stdout + checked.stderr
    assert f"{len(queries)} rules found" in checked.stdout


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_commands_are_shell(book: Path) -> None:
    """A shell can parse every command."""
    for command in blocks(book.read_text(), "sh"):
        checked = subprocess.run(["sh", "-n"], input=command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, f"{command}: {checked.stderr}"


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_what_a_runbook_refers_to_is_there(book: Path) -> None:
    """Every other runbook that a runbook names exists and is linked, so that it opens on the page and in a
    repository."""
    text = book.read_text()
    named = set(re.findall(r"\bUwsgi[A-Z]\w+", text)) - {book.stem}
    assert named <= {runbook.stem for runbook in BOOKS}
    linked = re.findall(r"\[(Uwsgi\w+)\]\((Uwsgi\w+)\.md\)", text)
    assert {name for name, _ in linked} == named
    assert all(name == target for name, target in linked)


def test_findings_lead_to_runbooks() -> None:
    """Each finding has an existing runbook, or is listed as needing none."""
    sources = Path(findings.__file__).parent.glob("*.py")
    codes = {code for file in sources for code in re.findall(r'code="(\w+)"', file.read_text())}
    assert codes == RUNBOOKS.keys() | SAY_IT_ALL
    assert set(RUNBOOKS.values()) <= {book.stem for book in BOOKS}
