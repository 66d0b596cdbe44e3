"""Links lead somewhere, and every claim about safety to a test."""

import re
import urllib.parse

import pytest

from tests.support.markdown import anchors, inline_code, links, list_documents, name_of
from tools.environments import ROOT

DOCUMENTS = list_documents()
FOLDERS = ("alerts", "app", "dashboards", "deploy", "docs", "exporter", "tests", "tools")
ENDINGS = {".py", ".js", ".yaml", ".yml", ".service", ".tmpl"}
SOURCES = [
    ROOT / "Makefile",
    ROOT / "CHANGELOG.md",
    *(ROOT / "alerts" / "runbooks").glob("*.md"),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS and path.is_file()),
]

_PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*-]+")
_DOCUMENT = re.compile(r"\b(?:docs|alerts|dashboards|deploy)/[\w./-]*\.md\b")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_relative_links_lead_somewhere(path):
    """To a file or a folder, and where the link names an anchor, to a heading of that document."""
    for target, _, anchor in [urllib.parse.unquote(link).partition("#") for link in links(path.read_text())]:
        file = (path.parent / target).resolve() if target else path
        if not re.match(r"[a-z]+:", target):
            assert file.exists(), target
            assert not anchor or anchor in anchors(file.read_text()), f"{target}#{anchor}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_rows_are_in_a_table(path):
    """An empty line ends a table: rows after it are shown as they are written."""
    assert not re.findall(r"(?m)^\|.*\|\n\n+(?=\|.*\|\n(?!\|[-| :]+\|$))", path.read_text())


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_paths_in_code_exist(path):
    named = [code for code in inline_code(path.read_text()) if _PATH.fullmatch(code)]
    assert [code for code in named if not list(ROOT.glob(code.rstrip("/")))] == []


def test_documents_are_where_they_are_looked_for():
    named = {(name, name_of(path)) for path in SOURCES for name in _DOCUMENT.findall(path.read_text())}
    assert named
    assert sorted((name, where) for name, where in named if not (ROOT / name).is_file()) == []
    linked = set(links((ROOT / "README.md").read_text()))
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= linked


def test_what_the_test_reads():
    """Anchors are those that GitHub makes. Links, pictures and HTML are links, but not in code."""
    text = "# A `b`, c\n\n```sh\n# no heading\n```\n## [Link](x.md): d-e_f\n## Twice\n## Twice\n"
    assert anchors(text) == {"a-b-c", "link-d-e_f", "twice", "twice-1"}
    text = '[a](b.md#c) ![d](e.png "f") [![g](h.png)](i.md) `[j](k.md)`\n```\n[l](m.md)\n```\n<a href="n.md">\n'
    assert links(text) == ["b.md#c", "e.png", "h.png", "i.md", "n.md"]


def test_every_claim_names_a_test():
    """Each row of the tables of attackers has a test, or leads to the chapter that names them."""
    text = (ROOT / "SECURITY.md").read_text()
    assert len(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)) > 30
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| can try")]
    assert len(rows) > 15
    for row in rows:
        assert "`tests/" in row or "docs/security.md#tls-and-login" in row, row
