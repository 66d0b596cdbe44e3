"""Every alert and finding that needs a runbook has one, and the runbook's commands are valid."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.support.monitoring import find
from tools.environments import ROOT
from tools.tables import ALERTS, RUNBOOK_OF_ALERT
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings.kind import RUNBOOKS
from uwsgi_headroom.web.runbook_markdown import split_runbook
from uwsgi_headroom.web.runbook_values import PLACEHOLDER, used_placeholders

FOLDER = ROOT / "alerts" / "runbooks"
BOOKS = sorted(FOLDER.glob("*.md"))
NAMES = sorted(set(re.findall(r"- alert: (\w+)", ALERTS.read_text())))
SECTIONS = ["What it means", "Verify", "Afterwards"]
MOST_LINES, MOST_WORDS = 900, 250
SAY_IT_ALL = {
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
    "few_slow_requests",
}
"""Findings that need no runbook."""


def blocks(text: str, language: str) -> list[str]:
    return [dedent(block) for block in re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)]


@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_has_a_runbook(alert: str) -> None:
    """Its link leads to something: to a runbook, or to that of its finding's code."""
    assert (FOLDER / f"{RUNBOOK_OF_ALERT.get(alert, alert)}.md").is_file() or not RUNBOOK_OF_ALERT[alert]


def test_runbooks_are_short() -> None:
    """All can be read in an hour."""
    assert sum(len(book.read_text().splitlines()) for book in BOOKS) <= MOST_LINES


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_runbook_has_its_parts(book: Path) -> None:
    """A runbook has the problem and its effect on users in a line; what it means, what to verify, and what to do
    afterwards. `check` and the alert say how to fix it."""
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
def test_placeholders_can_be_filled_in(book: Path) -> None:
    """None is inside shell quotes, where its value would not be quoted, nor elsewhere in a query than as a label."""
    body = split_runbook(book.read_text()).body
    for command in blocks(body, "sh"):
        assert not re.search(rf"""["'][^"'\n]*(?:{PLACEHOLDER.pattern})[^"'\n]*["']""", command)
    for query in blocks(body, "promql"):
        assert used_placeholders(query.replace('server="SERVER"', "")) == set()


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_queries_parse(book: Path, tmp_path: Path) -> None:
    """Prometheus understands each line of a PromQL block."""
    queries = [line for block in blocks(book.read_text(), "promql") for line in block.splitlines()]
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
    """Every runbook that it links exists, and every alert that it names."""
    text = book.read_text()
    assert set(re.findall(r"\bUwsgi[A-Z]\w+", text)) - {book.stem} <= {*NAMES, *(runbook.stem for runbook in BOOKS)}
    linked = re.findall(r"\[(Uwsgi\w+)\]\((Uwsgi\w+)\.md\)", text)
    assert all(name == target and (FOLDER / f"{name}.md").is_file() for name, target in linked)


def test_findings_lead_to_runbooks() -> None:
    """Each finding has an existing runbook, or is listed as needing none."""
    sources = Path(findings.__file__).parent.glob("*.py")
    codes = {code for file in sources for code in re.findall(r'code="(\w+)"', file.read_text())}
    assert codes == RUNBOOKS.keys() | SAY_IT_ALL
    assert set(RUNBOOKS.values()) <= {book.stem for book in BOOKS}
