"""The guides name modules, tests, constants and messages that there are."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tools.tables import CAUSES, read_texts
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.history.events import KINDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "exporter" / "uwsgi_headroom"
GUIDES = [
    *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "README", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
]
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"

FOLDERS = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir()}
SOURCES = ("exporter", "alerts", "dashboards", "app", "tools", "tests")
LEAST_WORDS = 4
"""Shorter quotations are words of other programs, names and options."""

_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")

guides = pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)


def prose(guide):
    """The text of a page without its blocks of code."""
    return _FENCE.sub("", guide.read_text())


def named_modules(text):
    """Modules and folders of the package in a text: behind `P/`, or named from the package on."""
    for code in _CODE.findall(text):
        name = code.partition("::")[0]
        first, slash, _ = name.removeprefix("P/").partition("/")
        is_ours = name.startswith("P/") or (slash and first in FOLDERS) or (name.endswith(".py") and not slash)
        if is_ours and re.fullmatch(r"[\w./-]+", name):
            yield name.removeprefix("P/")


@guides
def test_what_a_page_names_exists(guide):
    """Modules, also without the folder that all of them are in; tests; constants, in the file that the page says."""
    missing = [name for name in named_modules(prose(guide)) if not (PACKAGE / name).exists()]
    assert not missing
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", prose(guide)):
        assert re.search(rf"^ *(?:async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"
    for name, file in re.findall(r"`([A-Z_]{4,})`[ \n](?:in|of)[ \n]`([\w./-]+\.py)`", prose(guide)):
        path = next(path for path in (ROOT / file, PACKAGE / file.removeprefix("P/")) if path.exists())
        assert re.search(rf"^{name}\b", path.read_text(), re.MULTILINE), f"{name} in {file}"


def test_modules_in_code_exist():
    """Those that a docstring, a comment or a message names by folder and file."""
    folders = "|".join(sorted(FOLDERS))
    path = re.compile(rf"(?<![\w./-])(?:exporter/uwsgi_headroom/)?((?:{folders})/[\w/]+\.(?:py|js|css))\b")
    sources = [file for folder in SOURCES for file in (ROOT / folder).rglob("*.py")]
    named = {(name, str(file.relative_to(ROOT))) for file in sources for name in path.findall(file.read_text())}
    places = (PACKAGE, ROOT, ROOT / "tests")
    assert [pair for pair in sorted(named) if not any((place / pair[0]).exists() for place in places)] == []


def test_something_is_read():
    text = "\n".join(map(prose, GUIDES))
    assert len(set(named_modules(text))) > 50
    assert len(set(quoted_messages())) > 40


@cache
def written_texts():
    """Every text in the code of the exporter and of its page, with `…` for each value in it."""
    texts = [text for path in sorted(PACKAGE.rglob("*.py")) for text in _texts(ast.parse(path.read_text()))]
    scripts = [path.read_text() for path in sorted((PACKAGE / "web" / "static").glob("*.js"))]
    return "\n".join([*texts, *(re.sub(r"\$\{[^{}]*\}", "…", script) for script in scripts)])


def _texts(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def quoted_messages():
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
def test_messages_are_those_of_the_program(message):
    """Each part of a quotation, between the dots, stands in a text of the code."""
    for part in message.split("…"):
        assert part.strip() in written_texts(), part


def test_every_reason_event_and_folder_is_explained():
    rows = re.findall(r"^\| `(\w+)` \| `", TROUBLESHOOTING.read_text(), re.MULTILINE)
    assert set(rows) == set(REASONS)
    assert read_texts("kinds").keys() == set(KINDS)
    assert read_texts("causes").keys() == set(CAUSES)
    drawing = (ROOT / "docs" / "design.md").read_text().partition("## Architecture")[2].split("```")[1]
    shown = set(re.findall(r"  ?(?<=\s)(\w+)/(?=\s)", drawing))
    assert shown == {name for name in FOLDERS if (PACKAGE / name / "__init__.py").exists()}
