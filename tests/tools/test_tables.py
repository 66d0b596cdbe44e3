"""Rows and imports, for docs/findings.md and docs/design.md."""

from __future__ import annotations

from pathlib import Path

from tools.findings_page import lines, list_rows, show
from tools.tables import read_imports
from uwsgi_headroom.analysis.findings import RUNBOOKS


def test_a_page_has_every_row() -> None:
    """Each code that has a runbook is among them; values are dots, optional parts in brackets; of the parts
    for a severity, only those of this one are shown."""
    assert {row.code for row in list_rows()} >= RUNBOOKS.keys()
    page = "\n".join(lines())
    assert all(f"### {row.code}\n" in page for row in list_rows())
    template = "{n:Worker} {n:is|are} [info? slow][critical? down][why? , because of {why}]."
    assert show(template, "critical") == "Workers … are down[, because of …]."


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
