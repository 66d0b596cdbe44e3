"""Texts and formats of every face."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.environments import ROOT
from uwsgi_headroom.words.formats import byte_size, figure, numbered, repeated


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


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "worker 3"),
        ([1, 2], "workers 1 and 2"),
        ([1, 2, 3], "workers 1, 2 and 3"),
        (range(1, 9), "workers 1, 2, 3, 4, 5, 6, 7 and 8"),
        (range(1, 10), "workers 1, 2, 3, 4, 5, 6, 7, 8 and 1 more"),
        (range(1, 4097), "workers 1, 2, 3, 4, 5, 6, 7, 8 and 4,088 more"),
    ],
)
def test_a_list_of_workers_stays_short(numbers: list[int], text: str) -> None:
    """A list has at most eight workers, and the noun is in the plural if there are several."""
    assert numbered("worker", numbers) == text


@pytest.mark.parametrize(("count", "text"), [(1, "once"), (2, "2 times"), (0, "0 times")])
def test_how_often(count: int, text: str) -> None:
    assert repeated(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (4_200_000, "4.2 MB"),
        (9_960_000, "10 MB"),
        (180_000_000, "180 MB"),
        (999_400_000, "999 MB"),
        (999_600_000, "1.0 GB"),
        (1_200_000_000, "1.2 GB"),
        (9_960_000_000, "10 GB"),
        (384_000_000_000, "384 GB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    """A size has two or three digits, in the unit that fits."""
    assert byte_size(count) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(62.41, 3, "62.4"), (12_583.0, 3, "12,600"), (12_583.0, 4, "12,580"), (60.0, 4, "60"), (999.96, 4, "1,000")],
)
def test_figures(value: float, digits: int, text: str) -> None:
    assert figure(value, digits) == text
