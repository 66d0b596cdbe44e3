"""The guides name files, tests, constants and messages that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.event_tables import CAUSE_TEXTS, CAUSES, KIND_TEXTS
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.journal.events import KINDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "exporter" / "uwsgi_headroom"
GUIDES = [
    ROOT / "CONTRIBUTING.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "design",
            "events",
            "glossary",
            "how-to-add",
            "safety",
            "security",
            "stability",
            "troubleshooting",
            "upgrading",
        )
    ),
]
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"

FOLDERS = {folder.name for place in (ROOT, PACKAGE) for folder in place.iterdir() if folder.is_dir()}
LEAST_WORDS = 4
"""Shorter quotations are words of other programs, names and options."""

_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
_PLACEHOLDER = re.compile(r"NAME|SUBJECT|\*")

guides = pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)


def prose(guide: Path) -> str:
    """The text of a page without its blocks of code."""
    return _FENCE.sub("", guide.read_text())


def find_path(name: str) -> Path | None:
    """Where a path is that a page names: below the root, or below the package (`P/`, or without it)."""
    return next((path for path in (ROOT / name, PACKAGE / name.removeprefix("P/")) if path.exists()), None)


def named_paths(text: str) -> Iterator[str]:
    """Paths of the repository in a text, without those that stand for several."""
    for code in _CODE.findall(text):
        name = code.partition("::")[0]
        first, slash, _ = name.removeprefix("P/").partition("/")
        is_path = name.endswith(".py") or (slash and first in FOLDERS)
        if is_path and re.fullmatch(r"[\w./-]+", name) and not _PLACEHOLDER.search(name):
            yield name


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as they are made on most sites."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@guides
def test_links_lead_somewhere(guide: Path) -> None:
    """To a file that there is, and to a heading in it."""
    for link in _LINK.findall(prose(guide)):
        if not link.startswith("http"):
            file, _, anchor = link.partition("#")
            target = (guide.parent / file).resolve() if file else guide
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@guides
def test_files_exist(guide: Path) -> None:
    """Those of the repository that a page names."""
    missing = [name for name in named_paths(prose(guide)) if not find_path(name)]
    assert not missing


@guides
def test_tests_exist(guide: Path) -> None:
    """A test that proves something is there by that name."""
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", prose(guide)):
        assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"


@guides
def test_constants_exist(guide: Path) -> None:
    """A constant stands in the file that a page says."""
    for name, file in re.findall(r"`([A-Z_]{4,})`[ \n](?:in|of)[ \n]`([\w./-]+\.py)`", prose(guide)):
        path = find_path(file)
        assert path, file
        assert re.search(rf"^{name}\b", path.read_text(), re.MULTILINE), f"{name} in {file}"


def test_something_is_read() -> None:
    """The pages name what is looked for."""
    text = "\n".join(map(prose, GUIDES))
    assert len(set(named_paths(text))) > 100
    assert len(set(quoted_messages())) > 60


@cache
def written_texts() -> str:
    """Every text in the code of the exporter and of its page, with `…` for each value in it."""
    texts = [text for path in sorted(PACKAGE.rglob("*.py")) for text in _texts(ast.parse(path.read_text()))]
    scripts = [path.read_text() for path in sorted((PACKAGE / "web" / "static").glob("*.js"))]
    return "\n".join([*texts, *(re.sub(r"\$\{[^{}]*\}", "…", script) for script in scripts)])


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def quoted_messages() -> Iterator[str]:
    """What docs/troubleshooting.md quotes in the columns "it says" and "you see"."""
    column = None
    for line in TROUBLESHOOTING.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            column = None
        elif column is None:
            column = next((place for place, cell in enumerate(cells) if cell in ("it says", "you see")), 0)
        else:
            yield from (code for code in _CODE.findall(cells[column]) if len(re.findall(r"\w+", code)) >= LEAST_WORDS)


@pytest.mark.parametrize("message", sorted(set(quoted_messages())))
def test_messages_are_those_of_the_program(message: str) -> None:
    """Each part of a quotation, between the dots, stands in a text of the code."""
    for part in message.split("…"):
        assert part.strip() in written_texts(), part


def test_every_reason_is_explained() -> None:
    """Why a server cannot be read: each value of the label has a row, and no other."""
    rows = re.findall(r"^\| `(\w+)` \| `", TROUBLESHOOTING.read_text(), re.MULTILINE)
    assert set(rows) == set(REASONS)


def test_every_event_is_explained() -> None:
    """docs/events.md has every kind and every cause."""
    assert KIND_TEXTS.keys() == set(KINDS)
    assert CAUSE_TEXTS.keys() == set(CAUSES)
