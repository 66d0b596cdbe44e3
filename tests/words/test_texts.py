"""A text that is written in several pieces is whole: none of them stands alone, as a statement without effect."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.environments import ROOT


def find_lone_texts(source: str) -> list[int]:
    """The lines of strings that are statements. Docstrings are no such texts: they have three quotes."""
    lines = source.splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant | ast.JoinedStr)
        and not lines[node.lineno - 1].lstrip().startswith(('"""', 'r"""'))
        and ast.unparse(node) != "..."
    ]


@pytest.mark.parametrize("folder", ["app", "dashboards", "exporter", "tests", "tools"])
def test_no_text_stands_alone(folder: str) -> None:
    """Ruff does not report it: the end of the text is lost without a message."""
    files = [path for path in Path(ROOT, folder).rglob("*.py") if ".venv" not in path.parts]
    assert files
    assert [f"{path}:{line}" for path in files for line in find_lone_texts(path.read_text())] == []


def test_a_lone_text_is_found() -> None:
    """Its first piece is the value, and the second one is lost."""
    assert find_lone_texts('def write():\n    """Docs."""\n    return "one, "\n    "two"\n') == [4]
