"""Rules hand each row just the facts that it needs: a row that is seldom found must not fail on the day it is."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings.kind import Kind

MODULES = [
    each
    for each in vars(findings).values()
    if isinstance(each, ModuleType) and any(isinstance(row, Kind) for row in vars(each).values())
]


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def calls(module: ModuleType) -> Iterator[tuple[list[Kind], ast.Call]]:
    """The rows of which a call of `found` takes one, by a condition or from a table, and the call."""
    for function in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(function, ast.FunctionDef):
            continue
        assigned = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name)
        }
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "found":
                names = names_in(call.func.value)
                for _ in range(2):  # a row may come from a table that has a name of its own
                    names |= {each for name in names & assigned.keys() for each in names_in(assigned[name])}
                rows = [row for name in sorted(names) if isinstance(row := vars(module).get(name), Kind)]
                yield rows, call


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_rows_of_one_call_need_the_same_facts(module: ModuleType) -> None:
    """The facts that are named in the call are among them, and what makes a finding worse is where a row may be."""
    found = list(calls(module))
    assert found
    for rows, call in found:
        assert len({row.facts for row in rows}) <= 1, [(row.title, sorted(row.facts)) for row in rows]
        given = {each.arg for each in call.keywords if each.arg}
        named = given - {"worse", "of_host", "worker_id", "settings", "serves"}
        assert all(named <= row.facts for row in rows), (rows[0].code, named - rows[0].facts)
        assert not rows or ("worse" in given) == any(len(row.severities) > 1 for row in rows), rows


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_row_is_found_by_a_call(module: ModuleType) -> None:
    """A row that no rule hands facts to says nothing."""
    rows = {name: row for name, row in vars(module).items() if isinstance(row, Kind)}
    source = inspect.getsource(module)
    assert [name for name in rows if source.count(name) < 2] == []
