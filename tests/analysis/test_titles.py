"""Titles of findings do not change from window to window while the load is steady."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from tests.support.simulated_server import Server
from tests.support.windows import the_example, the_harmless_one, window, worker
from tools.tables import FINDINGS
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server

MEASURED = {
    *("amount", "byte_size", "counted", "duration", "factor", "fine_percent", "mean_count", "percent", "rate"),
    *("repeated", "len", "round"),
}
"""Functions that write or make figures. (`chosen` writes what somebody has set.)"""

STEADY = {
    ("was_down", "duration"): "of an outage that is over",
    ("vassals_throttled", "counted"): "of vassals that do not start, while the emperor waits",
    ("vassals_throttled", "len"): "of the same",
}
"""Figures in titles that do not change with each request, and why."""


def read_title_calls() -> Iterator[tuple[str, str]]:
    """The code of a finding, and what its title, or the clause of a block's title, calls or formats, in the text and in
    what is assigned to its parts; the conditions that choose between texts are left out."""
    for path in sorted(FINDINGS.glob("*.py")):
        functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        for function in functions.values():
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding":
                    parts = {keyword.arg: keyword.value for keyword in call.keywords}
                    code = parts["code"]
                    assert isinstance(code, ast.Constant)
                    for text in (parts["title"], parts.get("clause")):
                        if text is not None:
                            yield from ((code.value, name) for name in _written(text, function, functions, set()))


def _written(
    node: ast.AST, function: ast.FunctionDef, functions: dict[str, ast.FunctionDef], seen: set[str]
) -> Iterator[str]:
    match node:
        case ast.IfExp(body=body, orelse=other):
            yield from _written(body, function, functions, seen)
            yield from _written(other, function, functions, seen)
            return
        case ast.FormattedValue(format_spec=ast.JoinedStr()):
            yield "a format"
        case ast.Call(func=ast.Name(id=name)) if name in functions:
            for each in ast.walk(functions[name]):
                if isinstance(each, ast.Return) and each.value and name not in seen:
                    yield from _written(each.value, functions[name], functions, {*seen, name})
        case ast.Call(func=ast.Name(id=name)):
            yield name
        case ast.Name(id=name) if name not in seen:
            for value in _assigned(function, name):
                yield from _written(value, function, functions, {*seen, name})
    for child in ast.iter_child_nodes(node):
        yield from _written(child, function, functions, seen)


def _assigned(function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(targets)
                yield from (
                    value
                    for each, value in zip(targets, values, strict=True)
                    if isinstance(each, ast.Name) and each.id == name
                )


def test_no_title_has_a_measured_figure() -> None:
    """A title writes no figure that changes with each request; exceptions are listed with their reasons."""
    found = set(read_title_calls())
    jittering = {(code, name) for code, name in found if name in MEASURED or name == "a format"}
    assert jittering == STEADY.keys()
    assert ("workers_missing", "numbered") in found, "the walk finds what titles call"


def with_more(before: Window, part: float) -> Window:
    """A later window of the same steady load, by chance with a little more work."""
    more = 1 + part
    rows = [
        msgspec.structs.replace(
            each,
            requests=round(each.requests * more),
            running_time=each.running_time and each.running_time * more,
            busy_seconds=each.busy_seconds and each.busy_seconds * more,
            cpu_seconds=each.cpu_seconds and each.cpu_seconds * more,
        )
        for each in before.workers
    ]
    return replace(before, workers=tuple(rows))


def titles(judged: Window, server: Server) -> list[str]:
    """The titles of a window's findings, in their order."""
    figures = compute_figures(judged, describe_server(server.read(1000.0)))
    return [finding.title for finding in collect_findings(figures)]


SATURATED = window(60.0, *(worker(each, 500, each=0.1, cpu=59.0 if each < 3 else 1.0, busy=10.0) for each in (1, 2, 3)))
FULL = window(60.0, *(worker(each, 600, each=1.0, cpu=28.0, busy=440.0) for each in (1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("load", "server"),
    [
        (the_example(), Server(cpus=4.0)),
        (the_harmless_one(), Server(cpus=4.0)),
        (SATURATED, Server(processes=3, cpus=8.0)),
        (FULL, Server(cpus=2.0)),
    ],
)
@pytest.mark.parametrize("part", [-0.02, 0.01, 0.02])
def test_titles_of_a_steady_load_do_not_change(load: Window, server: Server, part: float) -> None:
    """Two windows of one load, which differ by chance, have the same titles in the same order."""
    before = titles(load, server)
    assert before
    assert titles(with_more(load, part), server) == before
