"""Findings and imports are read from the source as it is, for docs/troubleshooting.md and docs/design.md."""

from __future__ import annotations

from pathlib import Path

from tools.tables import read_findings, read_imports
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


def test_imports_are_read_by_folder(tmp_path: Path) -> None:
    """Of every module, those within functions and for types alone too; neither itself nor other packages."""
    package = tmp_path / "uwsgi_headroom"
    for name, text in {
        "__init__.py": "",
        "__main__.py": "from uwsgi_headroom import low",
        "low.py": "import json",
        "wide/__init__.py": "",
        "wide/one.py": "from uwsgi_headroom import low, __version__\nfrom uwsgi_headroom.wide import two",
        "wide/two.py": "def late():\n    import uwsgi_headroom.high.deep\n",
        "high/__init__.py": "",
        "high/deep.py": "if TYPE_CHECKING:\n    from uwsgi_headroom.wide.one import thing",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    assert read_imports(package) == {
        "low": set(),
        "wide": {"low", "high"},
        "high": {"wide"},
    }


def test_no_two_folders_import_each_other() -> None:
    """Of two folders or modules, one can be read without the other."""
    imports = read_imports()
    assert "config" in imports["arguments"]
    assert [(part, other) for part in imports for other in imports[part] if part in imports[other]] == []
