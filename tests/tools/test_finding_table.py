"""The table of findings in docs/troubleshooting.md has the texts that are in the code."""

from __future__ import annotations

from pathlib import Path

from tools.finding_table import read_findings
from uwsgi_headroom.analysis.findings.finding import RUNBOOKS, SEVERITIES

MODULE = """
def find(figures):
    word = "many" if figures else "few"
    title, evidence = f"Requests wait {figures:.1f} s.", "Much."
    yield Finding(code="waits", severity="critical" if figures else "warning", title=title, evidence=evidence)
    yield Finding(code="waits", severity=_severity(figures), title=f"{word} wait.", evidence="")
    yield Finding(code="is_short", severity="info", title=_title(figures), evidence="")

def _severity(figures):
    return "info"

def _title(figures):
    if figures:
        return f"There is {figures}."
    return "There is none."
"""


def test_texts_are_found_wherever_they_stand(tmp_path: Path) -> None:
    """In conditions, variables and functions of the module; values are dots."""
    (tmp_path / "queue.py").write_text(MODULE)
    findings = read_findings(tmp_path)
    assert findings["waits"].titles == ["Requests wait … s.", "many wait.", "few wait."]
    assert findings["waits"].severities == {"critical", "warning", "info"}
    assert findings["is_short"].titles == ["There is ….", "There is none."]


def test_every_finding_has_its_texts() -> None:
    """Each says something, with a severity that there is; and each that has a runbook is among them."""
    findings = read_findings()
    assert RUNBOOKS.keys() <= findings.keys()
    for code, texts in findings.items():
        assert all(title.strip("… .") for title in texts.titles), code
        assert texts.titles, code
        assert texts.severities, code
        assert texts.severities <= set(SEVERITIES), code
