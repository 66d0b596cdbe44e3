"""Rules hand each row just the facts that it needs; its sentences take them, and titles stay while loads do."""

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from msgspec.structs import replace

from tests.analysis.judging import judge
from tests.frozen.pages import list_rows
from tests.support.simulated_server import Server
from tests.support.windows import the_example, the_harmless_one, window, worker
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.history.window import WorkerWindow
from uwsgi_headroom.words.template import Private, fill, names_in

ROWS = list_rows()


def find_names(node: ast.AST) -> set[str]:
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
                names = find_names(call.func.value)
                for _ in range(2):  # a row may come from a table that has a name of its own
                    names |= {each for name in names & assigned.keys() for each in find_names(assigned[name])}
                rows = [row for name in sorted(names) if isinstance(row := vars(module).get(name), Kind)]
                yield rows, call


@pytest.mark.parametrize("module", ROWS)
def test_rows_of_one_call_need_the_same_facts(module):
    """The facts that are named in the call are among them: a row that is seldom found must not fail when it is. What
    makes a finding worse is where a row may be."""
    found = list(calls(vars(findings)[module]))
    assert found
    for rows, call in found:
        assert len({row.facts for row in rows}) <= 1, [(row.title, sorted(row.facts)) for row in rows]
        given = {each.arg for each in call.keywords if each.arg}
        named = given - {"worse", "of_host", "is_over", "worker_id", "settings", "serves"}
        assert all(named <= row.facts for row in rows), (rows[0].code, named - rows[0].facts)
        assert not rows or ("worse" in given) == any(len(row.severities) > 1 for row in rows), rows


@pytest.mark.parametrize("module", ROWS)
def test_every_row_is_found_by_a_call(module):
    """A row that no rule hands facts to says nothing."""
    source = inspect.getsource(vars(findings)[module])
    assert [name for name in ROWS[module] if source.count(name) < 2] == []


@pytest.mark.parametrize(
    ("template", "facts", "text"),
    [
        ("{n:request} {n:is|are} lost.", {"n": 1}, "1 request is lost."),
        ("{n:request} {n:is|are} lost.", {"n": 1200}, "1,200 requests are lost."),
        ("{ids:Worker} {ids:is|are} down.", {"ids": [2]}, "Worker 2 is down."),
        ("{ids:Worker} {ids:is|are} down.", {"ids": (2, 3)}, "Workers 2 and 3 are down."),
        ("{part:percent}, {time:duration}", {"part": 0.5, "time": 2.0}, "50 %, 2.0 s"),
        ("`listen` is {n:plain}, not {n}", {"n": 1000}, "`listen` is 1000, not 1,000"),
        ("It waits[why?  because of {why}].", {"why": "a lock"}, "It waits because of a lock."),
        ("It waits[why?  because of {why}].", {"why": None}, "It waits."),
        ("It waits[why?  because of {why}].", {"why": ""}, "It waits."),
        ("[n? {n} wait]", {"n": 0}, "0 wait"),
        ("[is_idle? Idle.]", {"is_idle": False}, ""),
        ("[why? {why}][not why? It is not known why].", {"why": None}, "It is not known why."),
        ("[why? {why}][not why? It is not known why].", {"why": "A lock"}, "A lock."),
        ("[tcp, not lost? None is lost.]", {"tcp": True, "lost": None}, "None is lost."),
        ("[tcp, not lost? None is lost.]", {"tcp": True, "lost": 3}, ""),
        ("`[uwsgi]` in {name}", {"name": "{not a fact}"}, "`[uwsgi]` in {not a fact}"),
        ("{path} {paths:list}", {"path": "caf\udce9", "paths": ["\udcff"]}, "caf\\udce9 \\udcff"),
    ],
)
def test_a_sentence(template, facts, text):
    """Each form; a fact's own text is taken as it is."""
    assert fill(template, facts) == text
    assert names_in(template) == facts.keys()


@pytest.mark.parametrize("template", ["{n", "n}", "{}", "[a? [b? c]]", "{n:{m}}"])
def test_no_sentence(template):
    """Parts are not nested, and a brace begins a fact."""
    with pytest.raises(ValueError, match=r".+"):
        names_in(template)


ROW = Kind(
    code="stuck",
    role="harm",
    severity="warning",
    title="Worker {id} is stuck.",
    evidence="It is in `{place}`[wait? ; {wait}].",
    act="Run `py-spy dump --pid {pid}`.",
    then="Set timeouts.",
)


def test_a_finding_of_a_row():
    """Who may only scrape reads no path and no PID. A block can leave out how long requests wait."""
    found = ROW.found(
        None,
        {"id": 3, "wait": "requests wait 2.0 s", "other": "row"},
        place=Private("shop/a.py", "a file"),
        pid=Private("77", "PID"),
        worker_id=3,
    )
    assert (found.code, found.severity, found.worker_id, found.kind) == ("stuck", "warning", 3, ROW)
    assert found.evidence == "It is in `shop/a.py`; requests wait 2.0 s."
    assert found.wait == "requests wait 2.0 s"
    assert found.change == "Run `py-spy dump --pid 77`. Set timeouts."
    assert found.public.evidence == "It is in `a file`; requests wait 2.0 s."
    assert found.public.act == "Run `py-spy dump --pid PID`."


@pytest.mark.parametrize(
    ("worse", "found", "title"),
    [(0, "info", "It may stop."), (1, "warning", "It stops."), (2, "critical", "It stops!")],
)
def test_reasons_for_a_worse_severity(worse, found, title):
    """Each is one step from the mildest severity of a row, whose sentences have parts for each."""
    title_of_each = "It [info? may stop.][warning? stops.][critical? stops!]"
    row = Kind("stuck", "critical, warning or info", title_of_each, evidence="For long.")
    finding = row.found(worse=worse)
    assert (finding.severity, finding.title) == (found, title)


@pytest.mark.parametrize("facts", [{}, {"wait": "", "more": 1}])
def test_facts_are_those_of_the_row(facts):
    """One too many, or too few, is an error of the rule."""
    with pytest.raises(TypeError, match=r"stuck: .'(wait|more)'"):
        ROW.found(None, {"other": "row"}, id=3, place="a", pid=7, **facts)


MEASURED = {"amount", "bytes", "duration", "factor", "fine_percent", "mean", "percent", "rate", "times"}
"""Formats of measured figures. (`chosen` writes what somebody has set.)"""

STEADY = {"was_down": "of an outage that is over"}
"""Figures in titles that do not change with each request, and why."""


def test_no_title_has_a_measured_figure():
    """A title, or the clause of a block's title, writes no figure that changes with each request."""
    kinds = [kind for rows in ROWS.values() for kind in rows.values()]
    written = {(kind.code, how) for kind in kinds for how in re.findall(r"\{\w+:(\w+)\}", kind.title + kind.clause)}
    assert {code for code, how in written if how in MEASURED} == STEADY.keys()


def grow(of: WorkerWindow, part: float) -> WorkerWindow:
    """The same worker of a steady load, by chance with a little more work."""
    times = ("running_time", "busy_seconds", "cpu_seconds")
    more = {name: getattr(of, name) and getattr(of, name) * (1 + part) for name in times}
    return replace(of, requests=round(of.requests * (1 + part)), **more)


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
def test_titles_of_a_steady_load_do_not_change(load, server, part):
    """Two windows of one load, which differ by chance, have the same titles in the same order."""
    later = window(60.0, *(grow(each, part) for each in load.workers))
    before, after = ([finding.title for finding in judge(of, server).values()] for of in (load, later))
    assert before
    assert after == before
